//! Reads good and bad criteria.

use std::path::Path;

use forebay_service::Service;

use super::{Criteria, Criterion, Measure, Metric};
use crate::drill::fake;
use crate::drill::measure::Statistic;
use crate::engine::Preset;

fn parse(text: &str) -> Result<Criteria, String> {
    Criteria::parse(Path::new("my.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn the_embedded_criteria_are_those_of_the_design() {
    let shown: Vec<_> = Criteria::built_in().list().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["completed ≥ 99.9 %", "TTFT p50 ≤ 5 s", "TTFT p99 ≤ 60 s"]);
}

#[test]
fn the_hash_sees_limits_and_not_layout() {
    let one =
        parse("ttft_ms_max = { p99 = 60000, p50 = 5_000.0 }\ncompleted_share_min = 0.999").unwrap();
    assert_eq!(one.hash(), Criteria::built_in().hash());
    let other = parse("completed_share_min = 0.9990001\nttft_ms_max = { p50 = 5000, p99 = 60000 }");
    assert_ne!(one.hash(), other.unwrap().hash());
    assert_eq!(
        one.canonical(),
        "completed_share_min = 0.999\nttft_ms_max.p50 = 5000\nttft_ms_max.p99 = 60000\n"
    );
}

#[test]
fn a_class_has_the_same_keys_as_the_whole() {
    let text =
        "[class.research]\nrefused_share_max = 0.15\n[class.research.ttft_ms_max]\np90 = 2000";
    let shown: Vec<_> = parse(text).unwrap().list().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["refused of class research ≤ 15 %", "TTFT p90 of class research ≤ 2 s"]);
}

#[test]
fn every_fault_comes_at_once_with_its_line_and_remedy() {
    let text = "completed_share_min = 99.9\nttft = 5\n\n[ttft_ms_max]\np51 = 3\np99 = \"slow\"\n\
                p50 = -1\n[class]\nresearch = 3\n[class.public]\nclass = 1\nitl_ms_max = 5\n";
    insta::assert_snapshot!(parse(text).unwrap_err());
}

#[test]
fn a_file_that_is_no_toml_or_holds_nothing_is_a_fault() {
    for (text, line) in [("", 1), ("# nothing\n", 1), ("a = 0.9\nb = = 3\n", 2), ("\n\n[x", 3)] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(&format!("my.toml:{line}: ")), "{text:?}: {error}");
        assert!(error.contains("hint: "), "{text:?}: {error}");
    }
}

#[test]
fn limits_that_are_no_finite_number_are_faults() {
    for value in ["nan", "inf", "-0.1", "1.1", "true", "[1]", "{}", "1979-05-27", "1e999"] {
        assert!(parse(&format!("completed_share_min = {value}")).is_err(), "{value}");
    }
    for value in ["nan", "inf", "0", "-5", "false", "0x10"] {
        assert!(parse(&format!("ttft_ms_max = {{ p50 = {value} }}")).is_err(), "{value}");
    }
}

#[test]
fn a_limit_that_is_met_exactly_passes() {
    let completed = |limit| Criterion { class: None, measure: Measure::CompletedShare, limit };
    assert!(completed(0.999).passes(0.999) && !completed(0.999).passes(0.998));
    let measure = Measure::Latency(Metric::Ttft, Statistic::P99);
    let latency = Criterion { class: None, measure, limit: 100.0 };
    assert!(latency.passes(100.0) && !latency.passes(100.1) && !latency.passes(f64::INFINITY));
}

#[test]
fn a_class_that_offered_nothing_has_no_value() {
    let measured = fake::measured(&fake::SHAPE, 1);
    let of = |class: &str| Criterion {
        class: Some(class.to_owned()),
        measure: Measure::RefusedShare,
        limit: 0.1,
    };
    assert_eq!(of("public").value(&measured), Some(0.0));
    assert_eq!(of("nobody").value(&measured), None);
}

#[test]
fn the_canonical_form_is_a_file_of_the_same_criteria() {
    let text = "refused_share_max = 0.01\n[class.\"a b\"]\ncompleted_share_min = 0.5\n\
                e2e_ms_max = { mean = 12.5 }";
    let criteria = parse(text).unwrap();
    assert_eq!(parse(&criteria.canonical()).unwrap(), criteria);
    assert_eq!(criteria.list().len(), 3);
}

#[test]
fn an_agreed_share_becomes_a_criterion_unless_the_file_sets_one() {
    let class = |name: &str, share: &str| {
        format!(
            "[[class]]\nname = \"{name}\"\noverload = \"queue\"\nwait_ms_max = 60000\n{share}\n"
        )
    };
    let service = class("public", "reject_share_max = 0.0")
        + &class("research", "reject_share_max = 0.15")
        + &class("batch", "");
    let service = Service::parse(Path::new("classes.toml"), &service, &Preset::faults_of).unwrap();
    let criteria =
        parse("[class.research]\nrefused_share_max = 0.2").unwrap().with_agreed(&service);
    let shown: Vec<_> = criteria.list().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["refused of class public ≤ 0 %", "refused of class research ≤ 20 %"]);
}

#[test]
fn limits_of_a_good_request_are_those_of_its_class_and_else_of_all() {
    let text = "good_share_min = 0.99\nfailed_share_max = 0\n[good]\nttft_ms_max = 2000\n\
                itl_ms_max = 50\n[class.research.good]\nttft_ms_max = 9000\n";
    let criteria = parse(text).unwrap();
    let shown: Vec<_> = criteria.list().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["good ≥ 99 %", "failed ≤ 0 %"]);
    let (all, research) = (criteria.good_of(Some("public")), criteria.good_of(Some("research")));
    assert_eq!(all, criteria.good_of(None));
    assert!(!all.is_kept(3000.0, None, 1e9) && research.is_kept(3000.0, None, 1e9));
    assert!(!research.is_kept(3000.0, Some(51.0), 1e9) && research.e2e_ms_max.is_infinite());
    assert_eq!(parse(&criteria.canonical()).unwrap().canonical(), criteria.canonical());
    assert!(criteria.canonical().ends_with("class.\"research\".good.ttft_ms_max = 9000\n"));
}

#[test]
fn limits_of_a_good_request_that_make_no_sense_are_faults() {
    for good in ["good = 3", "good.ttft_ms_max = 0", "good.ttft_ms_max = {}", "good.p50 = 1"] {
        let error = parse(&format!("completed_share_min = 0.9\n{good}")).unwrap_err();
        assert!(error.contains("my.toml:2: "), "{good}: {error}");
    }
    // Limits alone hold nobody to anything.
    assert!(parse("[good]\nttft_ms_max = 2000").unwrap_err().contains("no criterion"));
}
