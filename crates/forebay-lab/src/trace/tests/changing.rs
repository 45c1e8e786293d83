//! Holds changed traces against the ones that they came from.

use std::io::Cursor;
use std::path::Path;

use super::super::open::stream;
use super::super::synth::Description;
use super::super::*;
use super::{ROW, read};

fn evidence() -> Requests {
    Description::named("evidence").unwrap().requests(5, None)
}

#[test]
fn thinning_takes_whole_conversations() {
    let thin = |seed| {
        let scaling = Scaling { factor: 0.5, seed, spread: Span::ZERO };
        let thinned = scale(|| Ok(evidence()), scaling).unwrap();
        thinned.map(Result::unwrap).collect::<Vec<_>>()
    };
    let (all, kept) = (evidence().map(Result::unwrap).collect::<Vec<_>>(), thin(1));
    assert!((430..=570).contains(&kept.len()), "{}", kept.len());
    assert_ne!(kept, thin(2));
    let turns = |requests: &[TraceRequest], session| {
        requests.iter().filter(|request| request.session == session).count()
    };
    for request in kept.iter().filter(|request| request.session.is_some()) {
        assert_eq!(turns(&kept, request.session), turns(&all, request.session));
    }
}

#[test]
fn copies_share_the_prefixes_of_many_and_nothing_else() {
    let scaling = Scaling { factor: 2.5, seed: 1, spread: Span::secs(30) };
    let scaled = || scale(|| Ok(evidence()), scaling).unwrap();
    let (before, after) = (stats(evidence()).unwrap(), stats(scaled()).unwrap());
    assert!((2400..=2600).contains(&after.requests), "{after}");
    let lengths = |stats: &Stats| -> Vec<u64> {
        stats
            .shared_prefixes
            .iter()
            .map(|prefix| prefix.tokens)
            .filter(|at| at % 512 == 0)
            .collect()
    };
    assert_eq!(lengths(&before), lengths(&after));
    let grown =
        after.shared_prefixes[0].requests as f64 / before.shared_prefixes[0].requests as f64;
    assert!((2.3..2.7).contains(&grown), "{grown}");
    // What is private is new in each copy, so hits per prompt stay what they were, but for the
    // prefixes' first uses.
    let moved = (after.shared_prefix_share - before.shared_prefix_share).abs();
    assert!(moved < 0.02, "{before}{after}");
    assert!(after.at_once_max < 2 * before.at_once_max, "bursts must not add up: {after}");
}

#[test]
fn a_rate_by_time_keeps_all_but_the_times() {
    let twice: Vec<_> = speed_up(evidence(), 2.0).map(Result::unwrap).collect();
    for (request, before) in twice.iter().zip(evidence().map(Result::unwrap)) {
        assert_eq!(request.at.0, before.at.0.div_ceil(2));
        assert_eq!(*request, TraceRequest { at: request.at, ..before });
    }
}

#[test]
fn a_slice_counts_from_its_start_and_reads_no_further() {
    let slice = Slice { from: Span::secs(100), to: Some(Span::secs(110)), ..Slice::default() };
    let part: Vec<_> = slice.apply(evidence()).map(Result::unwrap).collect();
    let whole: Vec<_> = evidence().map(Result::unwrap).collect();
    let within = |request: &&TraceRequest| (100..110).contains(&(request.at.0 / 1_000_000_000));
    assert_eq!(part.len(), whole.iter().filter(within).count());
    assert!(part.iter().all(|request| request.at < Span::secs(10)));
    let broken = format!("{ROW}\n{ROW}\nbroken");
    let reader = Box::new(Cursor::new(broken.into_bytes()));
    let rows = stream(reader, Path::new("x"), &Notes::default(), 0).unwrap();
    let first = Slice { first: Some(1), ..Slice::default() };
    assert!(first.apply(rows).all(|request| request.is_ok()));
}

#[test]
fn a_filter_keeps_what_it_names() {
    let text = [("a", "x", 10), ("b", "x", 20), ("b", "y", 30)].map(|(class, tenant, length)| {
        let lengths = format!(r#""input_length": {length}, "output_length": {length}"#);
        let names = format!(r#""class": "{class}", "tenant": "{tenant}""#);
        format!(r#"{{"timestamp": 0, {lengths}, {names}}}"#)
    });
    let kept = |filter: Filter| {
        let requests = read(text.join("\n")).unwrap().into_iter().map(Ok);
        filter
            .apply(Box::new(requests))
            .map(|request| request.unwrap().prompt.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(Filter::default()), [10, 20, 30]);
    assert_eq!(kept(Filter { classes: vec!["b".to_owned()], ..Filter::default() }), [20, 30]);
    let both = Filter { tenants: vec!["x".to_owned()], prompt_min: Some(11), ..Filter::default() };
    assert_eq!(kept(both), [20]);
    assert_eq!(
        kept(Filter { output_max: Some(29), output_min: Some(11), ..Filter::default() }),
        [20]
    );
}

#[test]
fn figures_of_a_trace_are_those_that_can_be_counted_by_hand() {
    // One request a second for 30 s, each of 100 tokens: even arrivals, no variance.
    let long = ROW.replace("600", "1000");
    let row = |nth: u64| long.replace(": 5", &format!(": {}", nth * 1000)) + "\n";
    let even: String = (0..30).map(row).collect();
    let figures = stats(Box::new(read(even).unwrap().into_iter().map(Ok))).unwrap();
    assert_eq!((figures.requests, figures.at_once_max), (30, 1));
    assert!((figures.duration_s - 29.0).abs() < 1e-9);
    assert!(figures.dispersion[&1].abs() < 1e-9, "{figures}");
    assert!(!figures.dispersion.contains_key(&10), "{figures}");
    assert!((figures.shared_prefix_share - 29.0 / 30.0).abs() < 1e-9, "{figures}");
    assert_eq!((figures.prompt_tokens.p50, figures.prompt_tokens.sum), (1000, 30_000));
    assert_eq!(figures.shared_prefixes, [SharedPrefix { tokens: 1000, requests: 30, id: 2 }]);
    // The evidence comes in bursts of 13 at one moment.
    let bursty = stats(evidence()).unwrap();
    assert!(bursty.dispersion[&1] > 8.0 && bursty.at_once_max > 15, "{bursty}");
    assert_eq!(bursty.to_json().matches('\n').count(), 1);
}

#[test]
fn a_file_is_written_in_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("forebay-save-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("out.jsonl");
    assert_eq!(save(&file, evidence()).unwrap(), 1000);
    let before = std::fs::read(&file).unwrap();
    let error = TraceError { file: "x".into(), line: None, what: "w".into(), remedy: "r".into() };
    let half = evidence().take(10).chain([Err(error.clone())]);
    assert!(matches!(save(&file, Box::new(half)), Err(SaveError::Trace(told)) if told == error));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no leftover");
    let nowhere = save(&folder.join("no/out.jsonl"), evidence()).unwrap_err().to_string();
    assert!(nowhere.contains("no/out.jsonl") && nowhere.contains("hint:"), "{nowhere}");
    let read_back: Vec<_> = open(&file).unwrap().map(Result::unwrap).collect();
    assert_eq!(read_back, evidence().map(Result::unwrap).collect::<Vec<_>>());
    std::fs::remove_dir_all(&folder).unwrap();
}
