//! Holds the report of live results to its promises.

use super::fixture::Stage;
use super::{Live, files};
use crate::compare::{Options, compare};
use crate::report::verify;
use crate::results::{About, Figures, Outcome, Results, Spread};

fn page(live: &Live<'_>) -> String {
    files(live)["index.html"].clone()
}

#[test]
fn the_same_results_give_the_same_bytes() {
    assert_eq!(files(&Stage::bursts().live()), files(&Stage::bursts().live()));
}

#[test]
fn a_target_that_refuses_in_bursts_is_a_no_go_and_its_tail_is_undefined() {
    let stage = Stage::bursts();
    let page = page(&stage.live());
    let heading = page.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
    assert_eq!(
        heading,
        "<span class=\"badge no-go\">NO-GO</span> bursts does not meet its criteria for Chat"
    );
    let share = stage.comparison.arms[1].all.refused_share.said.clone();
    assert!(page.contains(&format!("undefined: {share} refused")), "{share}");
    assert!(page.contains("bursts: undefined beyond "));
    assert!(page.contains("Survivors only: over the completed"));
    let summary = &files(&stage.live())["summary.md"];
    assert!(summary.starts_with("# NO-GO: bursts does not meet its criteria for Chat\n"));
    assert!(summary.contains("**Survivorship:** bursts is faster over survivors only"));
}

#[test]
fn nothing_on_the_page_is_fetched_or_run() {
    let page = page(&Stage::bursts().live());
    for word in ["<script", "<link", "@import", "url(", " src=", " onload="] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn every_figure_is_named_and_described_and_has_a_table_and_headings_come_in_order() {
    let page = page(&Stage::bursts().live());
    let figures = page.matches("<svg ").count();
    assert_eq!(figures, 5);
    for part in ["<title id=", "<desc id=", "<figcaption>", "<summary>The same as a table"] {
        assert_eq!(page.matches(part).count(), figures, "{part}");
    }
    assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
    assert_eq!(page.matches("<h1").count(), 1);
    assert!(page.find("<h1").unwrap() < page.find("<h2").unwrap() && !page.contains("<h3"));
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
}

#[test]
fn names_from_outside_are_escaped_everywhere_and_no_coordinate_is_lost() {
    let mut stage = Stage::bursts();
    for (nth, label) in ["<i>a</i>", "<i>b</i>|"].into_iter().enumerate() {
        label.clone_into(&mut stage.comparison.arms[nth].label);
        label.clone_into(&mut stage.arms[nth].label);
    }
    stage.sign_off.service = "<i>chat</i>".to_owned();
    "<i>who</i>".clone_into(&mut stage.comparison.arms[1].who.as_mut().unwrap().by[0].name);
    for (name, text) in files(&stage.live()) {
        if name.ends_with("html") || name.ends_with("svg") || name.ends_with("md") {
            assert!(!text.contains("<i>"), "{name}");
            assert!(!text.contains("NaN") && !text.contains("inf\""), "{name}");
        }
    }
}

#[test]
fn runs_that_may_not_be_used_are_named_and_drawn_nowhere() {
    let mut stage = Stage::bursts();
    for arm in &mut stage.arms {
        let Results::Run(run) = &mut arm.runs[0].results else { panic!("rows are known") };
        run.about.is_closed_loop = true;
        run.about.invalid.push(crate::results::Invalid {
            reason: "lag".to_owned(),
            what: "120 ms late".to_owned(),
        });
    }
    let options = Options::default();
    stage.comparison = compare(&stage.arms, &stage.held.criteria, &options).unwrap();
    let files = files(&stage.live());
    assert!(!files.contains_key("ttft.svg") && !files.contains_key("over-time.svg"));
    let page = &files["index.html"];
    for said in ["INVALID, lag: 120 ms late", "closed loop", "INVALID and counts nowhere"] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn refusals_of_the_server_and_of_clients_stand_beside_each_other() {
    let stage = Stage::bursts();
    let seen = stage.comparison.arms[1].all.buckets.refused;
    let row =
        format!("<td class=\"figures\">{seen}</td><td class=\"figures\">{seen}</td><td>yes</td>");
    assert!(page(&stage.live()).contains(&row), "{row}");
}

#[test]
fn no_verdict_holds_where_the_server_contradicts_its_clients() {
    for agrees in [None, Some(false)] {
        let mut stage = Stage::bursts();
        let counted = stage.counted.get_mut("bursts").unwrap();
        counted.agrees = agrees;
        // In sum they may agree and still not in each run.
        counted.refused += u64::from(agrees.is_none());
        let live = stage.live();
        assert_eq!(live.outcome().exit_code(), 3);
        let files = files(&live);
        let page = &files["index.html"];
        assert!(page.contains("badge inconclusive\">INCONCLUSIVE</span> bursts may or may not"));
        assert!(page.contains("The server of bursts counted other refusals than its clients saw"));
        assert!(page.contains("<td>no"));
        assert!(files["report.json"].contains("\"outcome\": \"INCONCLUSIVE\""));
        assert!(files["summary.md"].starts_with("# INCONCLUSIVE: bursts may or may not"));
    }
}

#[test]
fn a_summary_of_another_tool_has_an_honest_page() {
    let spread = |ms: f64| Spread {
        count: 86,
        mean: ms,
        percentiles: [(50, ms), (99, 4.0 * ms)].into(),
        ..Spread::default()
    };
    let figures = Figures {
        about: About { tool: "aiperf 0.8.0".to_owned(), ..About::default() },
        counts: [(Outcome::Completed, 86), (Outcome::Refused, 14)].into(),
        ttft_ms: Some(spread(500.0)),
        ..Figures::default()
    };
    let mut stage = Stage::bursts();
    for arm in &mut stage.arms {
        arm.runs[0].results = Results::Figures(Box::new(figures.clone()));
    }
    let options = Options::default();
    stage.comparison = compare(&stage.arms, &stage.held.criteria, &options).unwrap();
    let files = files(&stage.live());
    let page = &files["index.html"];
    for said in ["not known from a summary", "only summaries are known", "undefined: 14 % refused"]
    {
        assert!(page.contains(said), "{said}");
    }
    assert!(!files.contains_key("ttft.svg") && !files.contains_key("over-time.svg"));
    assert!(page.contains("<dt>Seed</dt><dd>–</dd>"), "nobody said it");
}

#[test]
fn results_without_requests_or_arms_still_have_a_page() {
    let mut stage = Stage::bursts();
    stage.arms.clear();
    stage.comparison.arms.clear();
    stage.comparison.differences.clear();
    let page = page(&stage.live());
    assert!(page.contains("nothing was tested") && page.contains("</html>"));
}

#[test]
fn a_written_report_is_verified_and_its_seal_is_that_of_the_manifest() {
    let folder = std::env::temp_dir().join(format!("forebay-{}-live", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let seal = super::write(&Stage::bursts().live(), &folder).unwrap();
    let verified = verify(&folder).unwrap();
    assert!(verified.holds());
    assert_eq!(verified.seal, seal);
    std::fs::write(folder.join("summary.md"), "GO").unwrap();
    assert_eq!(verify(&folder).unwrap().faults(), ["changed: summary.md"]);
    // An older report is replaced whole.
    super::write(&Stage::bursts().live(), &folder).unwrap();
    assert!(verify(&folder).unwrap().holds());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Writes a whole report for a person to look at, where one asks for it.
#[test]
fn a_live_report_can_be_written_to_be_looked_at() {
    let Some(folder) = std::env::var_os("FOREBAY_LOOK_LIVE") else { return };
    super::write(&Stage::bursts().live(), std::path::Path::new(&folder)).unwrap();
}
