//! Checks that nothing is counted twice or not at all, and that what is scraped and logged is well
//! formed whatever it is about.

#![expect(clippy::float_cmp, reason = "small whole numbers and their sums are exact")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_core::{ClassId, Moment, PoolId, RefusalReason, Span, TenantId, Tokens};
use forebay_wire::openai::Endpoint;

use super::access_log::{AccessLog, LogTo, rfc3339};
use super::catalogue::{Kind, METRICS};
use crate::clock::Clock;
use crate::fixture;
use crate::request::{Ending, Record};

/// A record of a request of the first class that came at 1 s and was sent to a worker at 3 s.
fn record(ending: Ending) -> Record {
    let second = |at: u64| Moment(Span::secs(at).0);
    Record {
        endpoint: Some(Endpoint::ChatCompletions),
        pool: Some(PoolId(0)),
        class: Some(ClassId(0)),
        tenant: Some(TenantId(0)),
        prompt: Tokens(100),
        cached: Tokens(60),
        predicted_wait: Some(Span::secs(1)),
        attempts: 3,
        dispatched: Some(second(3)),
        first_token: Some(second(4)),
        ended: second(6),
        ending,
        ..Record::new(second(1), Arc::from("a \"quoted\"\nname"))
    }
}

/// The samples of a page by name and labels, after checking each line of it.
///
/// The rules are those of the `OpenMetrics` text format, 1.0: metadata before samples, families
/// not interleaved, label values escaped, `# EOF` once and last.
fn parsed(page: &str) -> BTreeMap<String, f64> {
    let body = page.strip_suffix("# EOF\n").expect("the page ends in # EOF");
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    for line in body.lines() {
        if let Some(meta) = line.strip_prefix("# ") {
            let mut words = meta.splitn(3, ' ');
            let (what, name) = (words.next().unwrap(), words.next().unwrap());
            match what {
                "HELP" => {
                    assert!(families.insert(name.to_owned()), "{name} comes twice");
                    name.clone_into(&mut family);
                }
                "TYPE" => words.next().unwrap().clone_into(&mut kind),
                "UNIT" => {
                    let unit = words.next().unwrap();
                    assert!(name.ends_with(&format!("_{unit}")), "{name} must end in {unit}");
                }
                other => panic!("{other} is no metadata: {line}"),
            }
            assert_eq!(name, family, "{line}");
            continue;
        }
        let (series, value) = split(line);
        let name = series.split('{').next().unwrap();
        let suffixes: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            other => panic!("{other} is no type"),
        };
        let fits = suffixes.iter().any(|suffix| name == format!("{family}{suffix}"));
        assert!(fits, "{name} is no sample of {family}, a {kind}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
    }
    samples
}

/// Takes a sample apart into its series, with labels that must be well formed, and its value.
fn split(line: &str) -> (&str, &str) {
    let Some(open) = line.find('{') else { return line.split_once(' ').unwrap() };
    let mut chars = line[open + 1..].char_indices().map(|(at, char)| (at + open + 1, char));
    let mut is_quoted = false;
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' if is_quoted => {
                let (_, escaped) = chars.next().unwrap();
                assert!(matches!(escaped, '\\' | '"' | 'n'), "{line}");
            }
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return (&line[..=at], line[at + 1..].trim_start()),
            _ => {}
        }
    }
    panic!("the labels do not end: {line}")
}

#[test]
fn every_request_is_offered_once_and_ends_once_or_is_open() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    let observe = &gateway.observe;
    let endings = [
        Ending::Completed,
        Ending::ClientFault,
        Ending::Abandoned,
        Ending::Denied(RefusalReason::Shed),
        Ending::Denied(RefusalReason::UpstreamFailed),
    ];
    for ending in endings {
        observe.offered(&record(ending));
        observe.dispatched(&record(ending));
        observe.ended(&record(ending));
    }
    // One that is open, one that left for another pool, and one that no pool ever saw.
    observe.offered(&record(Ending::Completed));
    observe.offered(&record(Ending::Completed));
    observe.spilled(Some(ClassId(0)), PoolId(0), PoolId(9));
    let stranger = Record { pool: None, class: None, ..record(Ending::Abandoned) };
    observe.ended(&Record { ending: Ending::Denied(RefusalReason::Unauthenticated), ..stranger });
    let samples = parsed(&observe.page(&gateway));
    for labels in [r#"pool="main",class="public""#, r#"pool="",class="""#] {
        let of = |name: &str| {
            let all = samples.range(format!("forebay_requests_{name}{{")..);
            let all = all.take_while(|(series, _)| series.starts_with("forebay_requests_"));
            all.filter(|(series, _)| {
                series.starts_with(&format!("forebay_requests_{name}{{{labels}"))
            })
            .map(|(_, value)| *value)
            .sum::<f64>()
        };
        let ended: f64 =
            ["completed", "refused", "failed", "client_faults", "abandoned", "spilled"]
                .iter()
                .map(|name| of(&format!("{name}_total")))
                .sum();
        assert!(of("offered_total") > 0.0, "{labels}");
        assert_eq!(of("offered_total"), ended + of("open"), "{labels}");
    }
    let of = |series: &str| samples[series];
    let main = r#"{pool="main",class="public"}"#;
    assert_eq!(of(&format!("forebay_requests_offered_total{main}")), 7.0);
    assert_eq!(of(&format!("forebay_requests_open{main}")), 1.0);
    assert_eq!(of(&format!("forebay_request_retries_total{main}")), 10.0);
    assert_eq!(of(&format!("forebay_queue_wait_seconds_sum{main}")), 10.0);
    assert_eq!(of(&format!("forebay_wait_to_prediction_ratio_sum{main}")), 10.0);
    assert_eq!(of(&format!("forebay_time_to_first_token_seconds_sum{main}")), 15.0);
    assert_eq!(of(&format!("forebay_prompt_uncached_tokens_sum{main}")), 200.0);
    let unknown = r#"{pool="",class="",reason="unauthenticated"}"#;
    assert_eq!(of(&format!("forebay_requests_refused_total{unknown}")), 1.0);
}

#[test]
fn a_promise_is_counted_when_it_is_made_and_when_it_is_kept_or_broken() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    let observe = &gateway.observe;
    let told =
        Record { retry_after: Some(Span::secs(8)), ..record(Ending::Denied(RefusalReason::Shed)) };
    observe.ended(&told);
    let back = Record { promised: Some(Moment(5)), ..record(Ending::Completed) };
    observe.dispatched(&back);
    observe.ended(&back);
    observe.ended(&Record { ending: Ending::Denied(RefusalReason::Shed), ..back });
    let samples = parsed(&observe.page(&gateway));
    let of = |name: &str| samples[&format!("forebay_{name}{{pool=\"main\",class=\"public\"}}")];
    assert_eq!(of("retry_after_seconds_sum"), 8.0);
    assert_eq!(of("retry_after_seconds_count"), 1.0);
    assert_eq!(of("retry_after_returned_total"), 2.0);
    assert_eq!(of("retry_after_broken_total"), 1.0);
    assert_eq!(of("returned_wait_seconds_sum"), 2.0);
}

#[test]
fn the_page_is_valid_whatever_pools_and_classes_are_called() {
    let gateway = fixture::gateway("a\"}\\\n# EOF", ["ü\n\"x", "batch\\"]);
    fixture::join(&gateway.pools[0], 8_001);
    gateway.observe.gap(PoolId(0), Span::millis(30));
    gateway.observe.gap(PoolId(7), Span::millis(30));
    let page = gateway.observe.page(&gateway);
    let samples = parsed(&page);
    assert_eq!(page.matches("\n# EOF").count(), 1);
    let pool = r#"pool="a\"}\\\n# EOF""#;
    let offered = format!(r#"forebay_requests_offered_total{{{pool},class="ü\n\"x"}}"#);
    assert_eq!(samples[&offered], 0.0);
    let worker = format!(r#"{{{pool},worker="http://127.0.0.1:8001"}}"#);
    assert_eq!(samples[&format!("forebay_worker_kv_capacity_tokens{worker}")], 1_000.0);
    assert_eq!(samples[&format!("forebay_worker_usable{worker}")], 1.0);
    assert_eq!(samples[&format!("forebay_inter_token_seconds_count{{{pool}}}")], 1.0);
}

#[test]
fn the_catalogue_is_what_the_page_has_and_its_names_follow_the_custom() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    fixture::join(&gateway.pools[0], 8_001);
    gateway.observe.show_connections(Arc::default());
    let failed = record(Ending::Denied(RefusalReason::UpstreamFailed));
    [failed, record(Ending::Denied(RefusalReason::Shed))].iter().for_each(|record| {
        gateway.observe.ended(record);
    });
    let page = gateway.observe.page(&gateway);
    let (mut names, mut absent) = (BTreeSet::new(), 0);
    for metric in METRICS {
        let name = metric.full_name();
        assert!(name.starts_with("forebay_"), "{name}");
        assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{name}");
        assert!(metric.means.ends_with('.') && metric.advice.ends_with('.'), "{name}");
        assert_eq!(metric.kind == Kind::Counter, name.ends_with("_total"), "{name}");
        let family = name.trim_end_matches("_total");
        // What nobody records or traces and no engine has said is not there.
        let is_there = page.contains(&format!("# TYPE {family} "));
        let absent_ones =
            ["record", "spans", "worker_engine", "worker_figures", "worker_preemptions"];
        let bare = name.trim_start_matches("forebay_");
        assert_eq!(is_there, !absent_ones.iter().any(|it| bare.starts_with(it)), "{name}");
        absent += usize::from(!is_there);
        assert!(names.insert(name), "{} comes twice", metric.name);
    }
    let families = page.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(families, names.len() - absent);
}

#[test]
fn classes_that_stay_keep_their_counts_when_others_come() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    gateway.observe.offered(&record(Ending::Completed));
    gateway.replace_rules(fixture::rules(["first", "public"]));
    let samples = parsed(&gateway.observe.page(&gateway));
    let of = |class: &str| {
        samples.get(&format!("forebay_requests_offered_total{{pool=\"main\",class=\"{class}\"}}"))
    };
    assert_eq!((of("first"), of("public"), of("batch")), (Some(&0.0), Some(&1.0), None));
}

#[test]
fn a_request_is_one_line_of_json_and_a_renamed_log_is_begun_anew() {
    let folder = std::env::temp_dir().join(format!("forebay-log-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("access.log");
    let log = AccessLog::open(LogTo::File(file.clone()), Clock::start()).unwrap();
    let names = || [Some(Arc::from("main")), Some(Arc::from("public")), None];
    log.note(&record(Ending::Completed), names());
    while std::fs::read(&file).unwrap().is_empty() {
        std::thread::yield_now();
    }
    std::fs::rename(&file, folder.join("old.log")).unwrap();
    log.note(&record(Ending::Denied(RefusalReason::UpstreamFailed)), names());
    log.close();
    log.note(&record(Ending::Completed), names());
    assert_eq!(log.dropped(), 1);
    let [old, new] = ["old.log", "access.log"].map(|name| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    });
    assert_eq!(old["request"], "a \"quoted\"\nname");
    assert_eq!(old["ending"], "completed");
    assert_eq!(old["wait_s"], 2.0);
    assert_eq!((&old["class"], &old["tenant"]), (&"public".into(), &0.into()));
    assert_eq!((&new["ending"], &new["reason"]), (&"failed".into(), &"upstream_failed".into()));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn times_are_dates_of_the_gregorian_calendar() {
    assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(rfc3339(951_782_399_999), "2000-02-28T23:59:59.999Z");
    assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
    assert_eq!(rfc3339(1_798_761_599_001), "2026-12-31T23:59:59.001Z");
    assert_eq!(rfc3339(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
}
