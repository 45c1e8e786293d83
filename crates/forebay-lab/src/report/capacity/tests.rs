//! Holds the report of a capacity to its folder, its figure and its page.

use crate::capacity::{Capacity, Ended, Growth, Trial};
use crate::compare::comparison::Estimate;
use crate::drill::notation::duration_ms;
use crate::report::capacity::{Paper, files, write};
use crate::report::{Growing, Origin, verify};
use crate::slo::Held;
use crate::stats::knee::Knee;
use crate::stats::search::Answer;

fn estimate(value: f64, said: String) -> Estimate {
    let (low, high) = (Some(value * 0.9), Some(value * 1.05));
    Estimate { value: Some(value), low, high, is_bounded_only: false, said }
}

fn capacity() -> Capacity {
    let trial = |per_s: f64, good: f64, ttft: f64, looks, decided| Trial {
        per_s,
        runs: vec![format!("run-{per_s:.0}")],
        looks,
        decided,
        reason: format!("TTFT p90 ≤ 300 ms holds or not at {per_s} <b>"),
        offered: 600,
        good_share: estimate(good, format!("{:.0} %", 100.0 * good)),
        ttft_ms_p50: estimate(ttft, duration_ms(ttft)),
        ttft_ms_p90: estimate(ttft * 2.0, duration_ms(ttft * 2.0)),
        offered_per_s: Some(per_s),
        completed_per_s: Some(per_s.min(12.0)),
        ..Trial::default()
    };
    let mut trials = vec![
        trial(5.0, 1.0, 20.0, "well", "holds"),
        trial(10.0, 1.0, 30.0, "well", "holds"),
        trial(11.0, 0.98, 90.0, "well", "open"),
        trial(12.0, 0.6, 400.0, "ill", "fails"),
        trial(20.0, 0.3, f64::INFINITY, "ill", "fails"),
    ];
    trials.push(Trial {
        per_s: 40.0,
        invalid_runs: vec!["run-007".to_owned()],
        looks: "beyond_reach",
        decided: "open",
        reason: "late by 70 ms".to_owned(),
        ..Trial::default()
    });
    Capacity {
        answer: Answer {
            rate: Some(10.0),
            low: 10.0,
            high: 12.0,
            looks_low: 11.0,
            looks_high: 12.0,
            beyond_reach: None,
            is_settled: true,
            tried: Vec::new(),
        },
        confidence: 0.95,
        knee: Some(Knee { at: 11.7, slope_below: 1.0, slope_above: 0.0, explained: 0.9 }),
        trials,
        criteria: String::new(),
        criteria_sha256: String::new(),
        ended: Ended::Searched,
    }
}

fn with_paper<T>(capacity: &Capacity, then: impl FnOnce(&Paper<'_>) -> T) -> T {
    let held = Held::load(None).unwrap();
    let version = "forebay 0.1.0".to_owned();
    let origin = Origin { words: vec!["forebay".to_owned()], version, inputs: Vec::new() };
    let growth = Some(Growth { now_per_s: 6.0, a_month: 0.05 });
    let offered = [("model", "m<1>".to_owned())];
    then(&Paper { capacity, growth, held: &held, offered: &offered, origin: &origin })
}

#[test]
fn the_page_answers_first_and_shows_the_curve_with_its_verdict() {
    let capacity = capacity();
    let all = with_paper(&capacity, |paper| files(paper, &[]));
    let page = &all["index.html"];
    assert!(page.contains("FOUND</span> Capacity: 10.0 requests a second</h1>"), "{page}");
    for said in ["holds at 10.0", "fails at 12.0", "knee 11.7", "now 6.00", "used up in"] {
        assert!(page.contains(said), "{said}");
    }
    assert!(page.contains("m&lt;1&gt;") && !page.contains("<script") && !page.contains("<b>"));
    assert!(!all["curve.svg"].contains("NaN") && !page.contains("NaN"));
    assert_eq!(page.matches("<svg").count(), 1);
    // The same figures give the same bytes.
    assert_eq!(all, with_paper(&capacity, |paper| files(paper, &[])));
}

#[test]
fn what_is_not_known_is_drawn_and_said_without_a_figure() {
    let mut none = capacity();
    none.trials.drain(..5);
    none.knee = None;
    (none.answer.rate, none.answer.low, none.answer.high) = (None, 0.0, f64::INFINITY);
    none.answer.is_settled = false;
    none.ended = Ended::Failed("the target went away\nhint: see why".to_owned());
    let all = with_paper(&none, |paper| files(paper, &[]));
    let page = &all["index.html"];
    assert!(page.contains("OPEN</span> Capacity: unknown"), "{page}");
    assert!(page.contains("The search could not go on: the target went away."), "{page}");
    assert!(!page.contains("NaN") && !all["curve.svg"].contains("holds at"));
}

#[test]
fn the_folder_of_a_search_is_a_report_that_can_be_verified() {
    let root = std::env::temp_dir().join(format!("forebay-{}-capacity", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let folder = root.join("capacity");
    for _ in 0..2 {
        let growing = Growing::create(&folder).unwrap();
        let run = growing.part().join("run-001");
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("requests.jsonl"), "{}\n").unwrap();
        let seal = with_paper(&capacity(), |paper| write(paper, growing)).unwrap();
        let verified = verify(&folder).unwrap();
        assert!(verified.holds() && verified.seal == seal && verified.files == 5, "{verified:?}");
    }
    let page = std::fs::read_to_string(folder.join("index.html")).unwrap();
    assert!(page.contains("run-001/requests.jsonl"));
    std::fs::write(folder.join("run-001/requests.jsonl"), "").unwrap();
    assert_eq!(verify(&folder).unwrap().faults(), ["changed: run-001/requests.jsonl"]);
    std::fs::remove_dir_all(&root).unwrap();
}
