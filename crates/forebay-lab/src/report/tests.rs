//! Holds a report to its promises: same bytes, nothing fetched, nothing unescaped.

use super::{Origin, files, write};
use crate::drill::{ARMS, Drill, fake};

fn origin() -> Origin {
    Origin {
        words: ["forebay", "drill", "--out", "report"].map(str::to_owned).to_vec(),
        version: "forebay 0.1.0".to_owned(),
        inputs: vec![("a<b>.jsonl".to_owned(), "00ff".to_owned())],
    }
}

fn drill() -> Drill {
    fake::drill(&[2, 4, 8], 3, &ARMS)
}

#[test]
fn the_same_drill_gives_the_same_bytes() {
    assert_eq!(files(&drill(), &origin()), files(&drill(), &origin()));
}

#[test]
fn the_first_line_of_the_page_is_the_claim_and_whether_it_held() {
    let page = &files(&drill(), &origin())["index.html"];
    let heading = page.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
    assert_eq!(
        heading,
        "<span class=\"badge go\">GO</span> hold meets its criteria at N = 2, 4 and 8: completed \
         ≥ 99.9 %, TTFT p50 ≤ 5 s, TTFT p99 ≤ 60 s"
    );
}

#[test]
fn nothing_on_the_page_is_fetched_or_run() {
    let page = &files(&drill(), &origin())["index.html"];
    for word in ["<script", "<link", "@import", "url(", " src=", "https://"] {
        assert!(!page.contains(word), "{word}");
    }
    let fetched = page.matches("http://").count();
    assert_eq!(fetched, page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
}

#[test]
fn names_from_outside_are_escaped_everywhere() {
    let mut drill = drill();
    drill.design.trace = "<i>&\"'</i>".to_owned();
    drill.design.engine = "<i>engine</i>".to_owned();
    for run in &mut drill.runs {
        let group = run.measured.classes.shift_remove("public").unwrap();
        run.measured.classes.insert("<i>class</i>".to_owned(), group);
    }
    for (name, text) in files(&drill, &origin()) {
        if name.ends_with("html") || name.ends_with("svg") {
            assert!(!text.contains("<i>") && !text.contains("a<b>"), "{name}");
        }
    }
}

#[test]
fn every_figure_is_named_and_described_and_has_a_table() {
    let page = &files(&drill(), &origin())["index.html"];
    let figures = page.matches("<svg ").count();
    assert_eq!(figures, 7);
    for part in ["<title id=", "<desc id=", "<figcaption>", "<summary>The same as a table"] {
        assert_eq!(page.matches(part).count(), figures, "{part}");
    }
    assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
}

#[test]
fn no_coordinate_is_lost() {
    for (name, text) in files(&drill(), &origin()) {
        if name.ends_with("svg") {
            assert!(
                !text.contains("NaN") && !text.contains("inf\"") && !text.contains("inf "),
                "{name}"
            );
        }
    }
}

#[test]
fn an_infinite_quantile_is_drawn_as_an_arrow_in_a_lane_of_its_own() {
    let files = files(&drill(), &origin());
    for name in ["ttft-quantiles.svg", "ttft-by-arrival.svg", "waiting-by-class.svg"] {
        let svg = &files[name];
        assert!(svg.contains("class=\"arrow kv12\"") && svg.contains("class=\"lane\""), "{name}");
        assert!(svg.contains(">∞</text>"), "{name}");
    }
    let calm = super::files(&fake::drill(&[4], 1, &ARMS[..1]), &origin());
    assert!(!calm["ttft-quantiles.svg"].contains("class=\"lane\""));
}

#[test]
fn published_figures_are_shown_only_beside_their_engine_and_workload() {
    let mut drill = drill();
    assert!(files(&drill, &origin()).contains_key("published.svg"));
    drill.design.published = false;
    assert!(!files(&drill, &origin()).contains_key("published.svg"));
}

#[test]
fn a_drill_of_one_cell_and_no_requests_still_has_a_page() {
    let mut drill = fake::drill(&[1], 1, &ARMS[..1]);
    for run in &mut drill.runs {
        run.measured = fake::measured(&fake::Shape { requests: 0, ..fake::SHAPE }, 1);
    }
    let page = &files(&drill, &origin())["index.html"];
    assert!(page.contains("</html>") && !page.contains("NaN"));
}

#[test]
fn refusals_have_their_reasons_on_the_page_and_for_programs() {
    let files = files(&drill(), &origin());
    let said = "Over all numbers of workers, kv:dynamo-1.2 refused 87: shed 87;";
    assert!(files["index.html"].contains(said));
    assert!(files["index.html"].contains("<th scope=\"col\">refused by</th>"));
    assert!(files["index.html"].contains("<td>shed 87</td>"));
    let report: serde_json::Value = serde_json::from_str(&files["report.json"]).unwrap();
    assert_eq!(report["verdicts"][1]["refused"], 87);
    assert_eq!(report["verdicts"][1]["refused_by"], serde_json::json!({ "shed": 87 }));
    assert_eq!(report["verdicts"][0]["refused_by"], serde_json::json!({}));
}

#[test]
fn the_page_claims_of_the_criteria_only_that_they_were_read_before_the_runs() {
    let page = &files(&drill(), &origin())["index.html"];
    assert!(page.contains("The criteria were read before the runs; their hash is below."));
    assert!(!page.contains("written down"));
}

#[test]
fn a_replayed_trace_is_no_spread_of_the_load_and_the_page_says_so() {
    let said = "; all seeds replay the same requests and differ only in the router&#39;s draws.";
    let page = &files(&drill().of_replays("the router's draws"), &origin())["index.html"];
    assert!(page.contains(said));
    assert!(page.contains("the same requests for every arm and seed."));
    assert!(page.contains("nothing of other requests."));
    assert!(!files(&drill(), &origin())["index.html"].contains("all seeds replay"));
}

#[test]
fn small_figures_look_like_this() {
    let drill = fake::drill(&[2], 1, &ARMS[..2]);
    insta::assert_snapshot!(
        files(&drill, &origin())["completion.svg"].split("</style>").nth(1).unwrap()
    );
}

/// Writes a whole report for a person to look at, where one asks for it.
#[test]
fn a_report_can_be_written_to_be_looked_at() {
    let Some(folder) = std::env::var_os("FOREBAY_LOOK") else { return };
    write(&drill(), &origin(), std::path::Path::new(&folder)).unwrap();
}
