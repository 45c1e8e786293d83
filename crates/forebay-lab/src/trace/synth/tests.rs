//! Holds the shipped descriptions against the figures that they imitate.

use std::collections::{BTreeMap, BTreeSet};

use super::Description;
use crate::trace::{Span, Stats, TraceRequest, stats};

/// The published quantiles of the slice, at p1 5 10 25 50 75 90 95 99.
const PROMPTS: [u64; 9] = [893, 1006, 1884, 3193, 6202, 7086, 9576, 12_094, 15_394];
const OUTPUTS: [u64; 9] = [3, 3, 3, 3, 26, 306, 480, 548, 720];

fn evidence(seed: u64) -> Vec<TraceRequest> {
    let description = Description::named("evidence").unwrap();
    description.requests(seed, None).map(Result::unwrap).collect()
}

fn figures(requests: &[TraceRequest]) -> Stats {
    let requests: Vec<_> = requests.iter().cloned().map(Ok).collect();
    stats(Box::new(requests.into_iter())).unwrap()
}

fn quantiles(lengths: &crate::trace::Lengths) -> [u64; 9] {
    let crate::trace::Lengths { p1, p5, p10, p25, p50, p75, p90, p95, p99, .. } = *lengths;
    [p1, p5, p10, p25, p50, p75, p90, p95, p99]
}

#[track_caller]
fn near(what: &str, value: f64, target: f64, tolerance: f64) {
    assert!((value / target - 1.0).abs() <= tolerance, "{what}: {value} instead of {target}");
}

#[test]
fn the_evidence_has_the_published_lengths() {
    let description = Description::named("evidence").unwrap();
    // A hundred slices: what the description means, without the noise of one.
    let many = stats(description.requests(0, Some(100_000))).unwrap();
    near("mean prompt", many.prompt_tokens.mean, 5974.0, 0.015);
    near("mean output", many.output_tokens.mean, 149.0, 0.02);
    for (value, target) in quantiles(&many.prompt_tokens).iter().zip(PROMPTS) {
        near("prompt quantile", *value as f64, target as f64, 0.02);
    }
    for (value, target) in quantiles(&many.output_tokens).iter().zip(OUTPUTS) {
        near("output quantile", *value as f64, target as f64, 0.03);
    }
}

#[test]
fn each_slice_of_the_evidence_is_like_the_others() {
    for seed in 0..20 {
        let requests = evidence(seed);
        let figures = figures(&requests);
        near("mean prompt", figures.prompt_tokens.mean, 5974.0, 0.05);
        near("mean output", figures.output_tokens.mean, 149.0, 0.04);
        for (value, target) in quantiles(&figures.prompt_tokens).iter().zip(PROMPTS).skip(2) {
            near("prompt quantile", *value as f64, target as f64, 0.2);
        }
        for (value, target) in quantiles(&figures.output_tokens).iter().zip(OUTPUTS).skip(5) {
            near("output quantile", *value as f64, target as f64, 0.10);
        }
        // Distinct blocks make the load: 3,967 to 4,234 in the three slices that imitate the
        // published one.
        near("distinct ids", figures.ids_distinct as f64, 4250.0, 0.08);
        near(
            "all ids",
            requests.iter().map(|request| request.ids.len()).sum::<usize>() as f64,
            11_900.0,
            0.05,
        );
    }
}

#[test]
fn the_evidence_comes_in_bursts_of_three_kinds() {
    for seed in 0..5 {
        let requests = evidence(seed);
        let mut bursts: BTreeMap<Span, f64> = BTreeMap::new();
        for request in &requests {
            *bursts.entry(request.at).or_default() += 1.0;
        }
        assert!(bursts.keys().all(|at| at.0 % Span::millis(3050).0 == 0));
        assert_eq!((bursts.len(), requests.len()), (75, 1000));
        assert_eq!(*bursts.keys().next_back().unwrap(), Span::millis(225_700));
        // The three imitations have a variance of 10.2 to 12.3 between bursts; a thousand thrown at
        // 75 have 13.2.
        let variance: f64 = bursts.values().map(|size| (size - 13.33).powi(2)).sum::<f64>() / 75.0;
        assert!((8.0..19.0).contains(&variance), "{variance}");
        let of = |prefix_blocks: usize| -> Vec<&TraceRequest> {
            let heads = BTreeMap::from([(12, 0), (5, 12), (1, 17)]);
            requests.iter().filter(|request| request.ids[0] == heads[&prefix_blocks]).collect()
        };
        let (tool, extraction, chat) = (of(12), of(5), of(1));
        near("tools", tool.len() as f64, 405.0, 0.03);
        near("extractions", extraction.len() as f64, 172.0, 0.05);
        assert!(tool.iter().all(|request| matches!(request.output.0, 3 | 20..=55)));
        let three = tool.iter().filter(|request| request.output.0 == 3).count();
        near("answers of three tokens", three as f64 / tool.len() as f64, 0.62, 0.06);
        assert!(extraction.iter().all(|request| (12..=26).contains(&request.output.0)));
        let mean =
            chat.iter().map(|request| request.output.0 as f64).sum::<f64>() / chat.len() as f64;
        near("answers of chats", mean, 325.0, 0.08);
        let mut seen = BTreeSet::new();
        let continuing = chat.iter().filter(|request| {
            let known = request.ids[1..].iter().take_while(|id| seen.contains(*id)).count();
            seen.extend(request.ids.iter().copied());
            known > 0
        });
        near("chats that continue", continuing.count() as f64 / chat.len() as f64, 0.34, 0.15);
    }
}

#[test]
fn the_same_seed_makes_the_same_trace_and_another_another() {
    assert_eq!(evidence(3), evidence(3));
    assert_ne!(evidence(3), evidence(4));
    let description = Description::named("evidence").unwrap();
    let longer: Vec<_> = description.requests(3, Some(1500)).map(Result::unwrap).collect();
    assert_eq!(longer[..1000], evidence(3), "a limit cuts a trace and changes nothing before");
}

#[test]
fn the_rate_can_be_chosen_and_bursts_keep_their_period() {
    let description = Description::named("evidence").unwrap().with_arrivals_per_s(43.7158).unwrap();
    let figures = stats(description.requests(1, Some(10_000))).unwrap();
    near("rate", figures.requests_per_s.unwrap(), 44.3, 0.02);
    near("at once", figures.at_once_max as f64, 160.0, 0.15);
    assert!(Description::named("evidence").unwrap().with_arrivals_per_s(f64::NAN).is_err());
    assert!(Description::named("evidence").unwrap().with_arrivals_per_s(1e6).is_err());
}

#[test]
fn every_shipped_description_makes_sound_requests() {
    for name in Description::names() {
        let description = Description::named(name).unwrap();
        let requests: Vec<_> = description.requests(1, None).map(Result::unwrap).collect();
        assert_eq!(requests.len() as u64, description.requests);
        assert!(requests.is_sorted_by_key(|request| request.at), "{name}");
        for request in &requests {
            assert_eq!(request.ids.len() as u64, request.prompt.0.div_ceil(512), "{name}");
            assert!(request.prompt.0 > 0 && request.output.0 > 0, "{name}");
        }
    }
}

#[test]
fn later_turns_of_a_session_hold_the_earlier_ones() {
    let description = Description::named("chat").unwrap();
    let mut turns: BTreeMap<u64, TraceRequest> = BTreeMap::new();
    let mut later = 0;
    for request in description.requests(1, None).map(Result::unwrap) {
        let session = request.session.unwrap();
        if let Some(before) = turns.get(&session) {
            later += 1;
            assert!(request.prompt.0 > before.prompt.0 + before.output.0);
            let whole = before.prompt.0 as usize / 512;
            assert_eq!(request.ids[..whole], before.ids[..whole]);
            assert!(request.delay.is_some_and(|delay| delay >= Span::secs(1)));
        } else {
            assert_eq!(request.delay, None, "a session begins at its time");
        }
        turns.insert(session, request);
    }
    assert!((1200..1800).contains(&later), "{later}");
}

#[test]
fn all_faults_of_a_description_come_at_once() {
    let folder = std::env::temp_dir().join(format!("forebay-synth-{}.toml", std::process::id()));
    let check = |text: &str| {
        std::fs::write(&folder, text).unwrap();
        Description::load(&folder).unwrap_err().to_string()
    };
    let said = check(
        "about = 'x'\nrequests = 0\nid_tokens = 0\n[arrivals]\nper_s = -1\n[classes]\na = 0\n\
         [[kind]]\nname = 'k'\nshare = 0\nprefixes = 0\nsuffix = { constant = 0 }\noutput = {}\n",
    );
    for what in [
        "requests must",
        "id_tokens must",
        "per_s must",
        "classes must",
        "share must",
        "prefixes must",
        "suffix must",
        "output needs",
        "hint: ",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
    let said = check("about = 'x'\nrequests = 1\n[arrivals]\nper_s = 'fast'\n");
    assert!(said.contains(".toml:4: ") && said.contains("string"), "{said}");
    let said = check("about = 'x'\nrequest = 1\n");
    assert!(said.contains(".toml:2: there is no key `request`\nhint: did you mean `requests`?"));
    let kind = "[[kind]]\nname = 'k'\nshare = 1\nsuffix = { constant = 9 }\n";
    let many = format!(
        "about = 'x'\nrequests = '9'\n[arrivals]\nper_second = 1\n{kind}output = 7\n\
         {kind}popularity = 'odd'\noutput = {{ constant = 9 }}\n{kind}"
    );
    insta::assert_snapshot!(check(&many).replace(&folder.display().to_string(), "own.toml"), @r#"
    own.toml:2: invalid type: string "9"
    hint: give a whole number that is not negative
    own.toml:4: there is no key `per_second` here
    hint: the keys are `per_s` or `bursts`
    own.toml:9: invalid type: integer `7`
    hint: give a table
    own.toml:14: `odd` is not known here
    hint: choose `even` or `zipf`
    own.toml:16: `output` is missing
    hint: see docs/reference/synth.md, and the descriptions that ship
    "#);
    for rust in ["f64", "u64", "struct", "sequence", "tuple", "array"] {
        assert!(!check(&many).contains(rust), "{rust}");
    }
    std::fs::remove_file(&folder).unwrap();
    assert!(
        Description::find("evidense").unwrap_err().to_string().contains("agents, chat, evidence")
    );
    assert!(
        Description::find("no/such.toml").unwrap_err().to_string().starts_with("no/such.toml: ")
    );
}
