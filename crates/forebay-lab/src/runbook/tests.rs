//! Holds runbooks to what whoever is on call needs of them.

use std::path::Path;

use super::{Limit, Normal, Runbook, Settings};
use crate::capacity::Growth;
use crate::report::SignOff;

const SHOWN: &str = r#"
[listen]
bodies_bytes_max = 1073741824
[[pool]]
name = "chat"
mode = "hold"
[[class]]
name = "public"
overload = "queue"
wait_ms_max = 60000
queue_len_max = 2000
[[class]]
name = "resea|rch"
overload = "shed"
queue_len_max = 2000
[limits]
queue_len_max = 100000
"#;

const SIGN_OFF: &str = r#"service = "Chat"
decision = "Open it"
contact = "platform@city.example"
[[decides]]
role = "product owner"
[[agreed]]
class = "public"
refused_share_max = 0.01
[[call]]
when = "more than 5 % for ten minutes"
whom = "platform on call"
"#;

fn whole() -> Runbook {
    let json = serde_json::json!({
        "schema": "forebay.comparison/1",
        "arms": [{
            "label": "usual|load",
            "outcome": "GO",
            "completed_per_s": { "said": "4.9/s" },
            "all": {
                "buckets": { "offered": 600 },
                "refused_share": { "said": "0 %" },
                "latencies": [{ "metric": "ttft_ms",
                    "offered": { "p50": { "said": "310 ms" }, "p90": { "said": "900 ms" } } }],
            },
        }],
    });
    Runbook {
        settings: Settings::of_shown(SHOWN),
        normal: Normal::of_json(&json).unwrap(),
        limit: None,
        sign_off: Some(SignOff::parse(Path::new("sign-off.toml"), SIGN_OFF).unwrap()),
    }
}

#[test]
fn a_runbook_names_the_present_value_of_each_key_and_whom_to_call() {
    let text = whole().markdown();
    for part in [
        "# When requests are refused in a storm: Chat\n",
        "`[class] wait_ms_max`: public 60000, resea\\|rch no limit",
        "`[class] overload`: public `queue`, resea\\|rch `shed`",
        "| usual\\|load | 600 | 4.9/s | 310 ms | 900 ms | 0 % | GO |",
        "At most 1 % of public may be refused.",
        "- more than 5 % for ten minutes: **platform on call**",
        "- before a limit that was agreed is changed: **product owner**, who decides",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn every_table_has_as_many_cells_in_each_row_as_in_its_head() {
    let text = whole().markdown() + &Runbook::default().markdown();
    let mut cells = None;
    for line in text.lines() {
        let here = line.starts_with('|').then(|| line.replace("\\|", "").matches('|').count());
        if let (Some(before), Some(now)) = (cells, here) {
            assert_eq!(before, now, "{line}");
        }
        cells = here;
    }
}

#[test]
fn without_anything_it_is_for_any_gateway() {
    let text = Runbook::default().markdown();
    assert!(text.contains("What each status means") && text.contains("Nothing was measured yet"));
    assert!(!text.contains("forebay_requests_refused_total"));
}

#[test]
fn what_is_no_comparison_is_none() {
    assert_eq!(Normal::of_json(&serde_json::json!({ "schema": "other/1" })), None);
    assert_eq!(Settings::of_shown("no = "), None);
}

#[test]
fn a_capacity_says_where_it_ends_and_what_is_left() {
    let json = serde_json::json!({
        "schema": "forebay.capacity/1",
        "capacity_per_s": 10.0,
        "high_per_s": 12.0,
        "knee_per_s": 11.5,
        "headroom": { "now_per_s": 5.0, "growth_a_month": 0.0 },
        "trials": [
            { "per_s": 10.0, "decided": "holds", "refused_share": { "value": 0.0 },
              "ttft_ms_p90": { "value": 200.0 } },
            { "per_s": 12.0, "decided": "fails", "refused_share": { "value": 0.14 },
              "ttft_ms_p90": { "value": "infinite" } },
            { "per_s": 40.0, "decided": "open", "refused_share": { "value": null } },
        ],
    });
    let limit = Limit::of_json(&json).unwrap();
    let text = Runbook { limit: Some(limit.clone()), ..Runbook::default() }.markdown();
    for said in [
        "## Where it ends",
        "the criteria hold up to 10.0 requests a second",
        "they fail at 12.0",
        "refusals begin at 12.0 requests a second or below: 14 % were refused there",
        "headroom: 2.00 times what is asked today was shown to hold",
        "| 12.0 | 14 % | ∞ | fails |",
        "| 40.0 | – | – | open |",
        "Is the rate beyond the capacity?",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
    let growth = Growth::read(Some(5.0), 1.0).unwrap();
    let grown = Runbook { limit: Some(limit.with_growth(growth)), ..Runbook::default() };
    assert!(grown.markdown().contains("used up in 1.00 to 1.26 months"), "{}", grown.markdown());
    assert_eq!(Limit::of_json(&serde_json::json!({ "schema": "forebay.comparison/1" })), None);
}
