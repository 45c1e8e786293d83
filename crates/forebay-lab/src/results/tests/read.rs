//! Holds the readers of other tools' files to what these say.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::{
    FolderOptions, Outcome, ROWS_FILE, Results, Row, Run, RunFolder, SUMMARY_FILE, open,
};
use super::{about, refused, scratch, served};

fn written(folder: &Path, rows: &[Row]) {
    let options = FolderOptions { started_unix_ms: 1_700_000_000_000, aiperf: true };
    let mut run = RunFolder::create(folder, options).unwrap();
    rows.iter().for_each(|row| run.push(row).unwrap());
    run.finish(&about()).unwrap();
}

fn rows_of(path: &Path) -> Run {
    match open(path).unwrap() {
        Results::Run(run) => *run,
        Results::Figures(figures) => panic!("{figures:?}"),
    }
}

fn text(name: &str, text: &str) -> PathBuf {
    let file = scratch(name).join("file.json");
    fs::write(&file, text).unwrap();
    file
}

fn told(path: &Path) -> String {
    open(path).unwrap_err().to_string()
}

#[test]
fn a_run_of_ours_reads_back_in_the_order_of_its_plan_from_any_of_its_names() {
    let folder = scratch("own").join("hold");
    written(&folder, &[served(1, 5, 40), refused(0, 0, 2)]);
    for path in [folder.clone(), folder.join(ROWS_FILE), folder.join(SUMMARY_FILE)] {
        let run = rows_of(&path);
        assert_eq!(run.rows, [refused(0, 0, 2), served(1, 5, 40)]);
        assert_eq!(run.about, about());
    }
}

#[test]
fn the_rows_of_a_killed_run_are_read_up_to_the_line_that_is_cut_and_are_invalid() {
    let folder = scratch("killed");
    let whole = serde_json::to_string(&served(0, 0, 9)).unwrap();
    fs::write(folder.join(ROWS_FILE), format!("{whole}\n{}", &whole[..40])).unwrap();
    let run = rows_of(&folder);
    assert_eq!(run.rows.len(), 1);
    assert!(run.about.notes.iter().any(|note| note.contains("line 2 is cut")), "{:?}", run.about);
    assert!(run.about.was_interrupted);
    assert_eq!(run.about.invalid[0].reason, "killed");
    fs::write(folder.join(ROWS_FILE), "").unwrap();
    assert_eq!(rows_of(&folder).about.invalid[0].reason, "killed");
    fs::write(folder.join(ROWS_FILE), format!("{}\n{whole}\n", &whole[..40])).unwrap();
    assert!(told(&folder.join(ROWS_FILE)).contains("hint: "));
    fs::write(folder.join(ROWS_FILE), format!("{whole}\n{}\n", &whole[..40])).unwrap();
    assert!(told(&folder).contains(":2: is no row"), "{}", told(&folder));
}

#[test]
fn rows_that_are_not_those_of_the_summary_are_refused_with_both_figures() {
    let folder = scratch("changed").join("hold");
    written(&folder, &[served(0, 0, 40), refused(1, 5, 2), served(2, 9, 40)]);
    let file = folder.join(ROWS_FILE);
    let rows = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = rows.lines().collect();
    let changed = |text: &str| {
        fs::write(&file, text).unwrap();
        told(&folder)
    };
    let dropped = changed(&format!("{}\n{}\n", lines[0], lines[2]));
    assert!(dropped.contains("all.offered is 3 in summary.json, and 2 in the rows"), "{dropped}");
    assert!(changed("").contains("all.offered is 3 in summary.json, and 0 in the rows"));
    let cut = changed(&rows[..rows.len() - 30]);
    assert!(cut.contains("its last line is cut") && cut.contains("\nhint: "), "{cut}");
    let twice = changed(&format!("{0}\n{0}\n{1}\n", lines[0], lines[1]));
    assert!(twice.contains("conservation.repeated is 0"), "{twice}");
    let flipped = changed(&rows.replacen(
        r#""outcome":"refused","attempts""#,
        r#""outcome":"completed","attempts""#,
        1,
    ));
    assert!(flipped.contains(":2: request 1 is completed, and its last attempt refused"));
    let whole = rows.replace("refused", "failed");
    let failed = changed(&whole);
    assert!(failed.contains("all.by_outcome.refused is 1 in summary.json, and 0"), "{failed}");
    fs::write(&file, &rows).unwrap();
    let summary = folder.join(SUMMARY_FILE);
    let said = fs::read_to_string(&summary).unwrap();
    fs::write(&summary, said.replacen("\"offered\": 3", "\"offered\": 4", 1)).unwrap();
    assert!(told(&folder).contains("all.offered is 4 in summary.json, and 3 in the rows"));
}

#[test]
fn requests_that_another_tool_lost_are_said_or_refused() {
    let vllm = |fields: &str| {
        let name = format!("lost{}", fields.len());
        text(&name, &format!(r#"{{"duration": 9.0, "mean_ttft_ms": 5.0, {fields}}}"#))
    };
    let lost = vllm(r#""completed": 700, "failed": 0, "num_prompts": 1000"#);
    let Results::Figures(figures) = open(&lost).unwrap() else { panic!() };
    assert_eq!((figures.offered(), figures.counts[&Outcome::Failed]), (1_000, 300));
    assert!(figures.about.notes.iter().any(|note| note.starts_with("300 of 1000 requests")));
    let more = told(&vllm(r#""completed": 5000, "num_prompts": 1000"#));
    assert!(more.contains("5000 completed and 0 failed are more than 1000"), "{more}");
    assert!(told(&vllm(r#""completed": -5"#)).contains("completed is -5, which is no count"));
}

#[test]
fn a_newer_version_is_refused_with_a_remedy() {
    let folder = scratch("newer").join("hold");
    written(&folder, &[served(0, 0, 9)]);
    let summary = fs::read_to_string(folder.join(SUMMARY_FILE)).unwrap();
    let newer = summary.replace("forebay.results/1", "forebay.results/2");
    fs::write(folder.join(SUMMARY_FILE), newer).unwrap();
    let told = told(&folder);
    assert!(told.contains("forebay.results/2") && told.contains("\nhint: read it with"), "{told}");
}

#[test]
fn what_is_not_known_is_refused_with_a_remedy_and_never_panics() {
    for (nth, odd) in
        ["", "x", "[]", "{}", "null", "{\"metadata\":{}}", "{\"benchmarks\":[]}", "\n\n1"]
            .into_iter()
            .enumerate()
    {
        let told = told(&text(&format!("odd{nth}"), odd));
        assert!(told.contains("\nhint: "), "{odd:?}: {told}");
    }
    assert!(told(Path::new("/no/such/run")).contains("\nhint: "));
    assert!(told(&scratch("nothing")).contains("holds no results"));
}

/// Whether the run or the figures in this file are of a closed loop.
fn closed(name: &str, json: &str) -> bool {
    match open(&text(name, json)).unwrap() {
        Results::Run(run) => run.about.is_closed_loop,
        Results::Figures(figures) => figures.about.is_closed_loop,
    }
}

#[test]
fn a_closed_loop_is_known_by_the_configuration_of_each_tool() {
    let aiperf = |config: &str| {
        let json = format!("{{\"aiperf_version\":\"0.13.0\",\"input_config\":{config}}}");
        closed("closed-aiperf", &json)
    };
    for config in [
        r#"{"phases":[{"kind":"profiling","type":"concurrency","concurrency":8}]}"#,
        r#"{"phases":[{"type":"concurrency"}]}"#,
        r#"{"loadgen":{"concurrency":8,"request_count":9}}"#,
        r#"{"loadgen":{"concurrency":8},"input":{"custom_dataset_type":"single_turn"}}"#,
    ] {
        assert!(aiperf(config), "{config}");
    }
    for config in [
        r#"{"phases":[{"kind":"warmup","type":"concurrency"},
            {"kind":"profiling","type":"poisson"}]}"#,
        r#"{"loadgen":{"request_rate":5.0,"concurrency":8}}"#,
        r#"{"loadgen":{"user_centric_rate":5.0}}"#,
        r#"{"input":{"fixed_schedule":true}}"#,
        r#"{"input":{"custom_dataset_type":"mooncake_trace"}}"#,
        "null",
    ] {
        assert!(!aiperf(config), "{config}");
    }
    let guidellm = |strategy: &str| {
        let one = r#"{"request_start_time":5.0,"request_end_time":6.0}"#;
        let benchmark = format!(
            "{{\"requests\":{{\"successful\":[{one}]}},\
             \"config\":{{\"strategy\":{{\"type_\":\"{strategy}\"}}}}}}"
        );
        closed("closed-guidellm", &format!("{{\"metadata\":{{}},\"benchmarks\":[{benchmark}]}}"))
    };
    assert!(["synchronous", "concurrent", "throughput"].into_iter().all(guidellm));
    assert!(!["constant", "poisson", "trace"].into_iter().any(guidellm));
    let vllm =
        |more: &str| closed("closed-vllm", &format!("{{\"duration\":1.0,\"completed\":1,{more}}}"));
    assert!(vllm(r#""request_rate":"inf","max_concurrency":8"#));
    assert!(!vllm(r#""request_rate":20.0,"max_concurrency":null"#));
}

const AIPERF: &str = include_str!("aiperf.jsonl");

#[test]
fn rows_of_aiperf_count_from_the_credit_and_tell_refusals_from_failures() {
    let run = rows_of(&text("aiperf", AIPERF));
    let ends: Vec<Outcome> = run.rows.iter().map(|row| row.outcome).collect();
    assert_eq!(ends, [Outcome::Completed, Outcome::Refused, Outcome::Failed, Outcome::Cancelled]);
    let first = &run.rows[0];
    assert_eq!(first.session, Some(9_007_199_254_740_993));
    let millis = |span: Option<forebay_core::Span>| span.map(|it| it.0 / 1_000_000);
    assert_eq!(millis(first.ttft()), Some(40));
    assert_eq!(millis(first.itl()), Some(25));
    assert_eq!(millis(first.e2e()), Some(90));
    assert_eq!(millis(first.lag()), Some(10));
    assert!(run.rows[2].is_warmup);
    assert_eq!(run.rows[1].prompt_tokens, Some(7));
    assert!(run.about.generator.is_some_and(|it| (it.lag_ms_max - 10.0).abs() < 1e-9));
    assert!(run.about.is_valid());
}

#[test]
fn a_tool_that_was_late_makes_its_run_invalid() {
    let late = AIPERF.replace("start_ns\":1700000000010", "start_ns\":1700000000247");
    let run = rows_of(&text("late", &late));
    assert_eq!(run.about.invalid[0].reason, "lag");
}

#[test]
fn aiperf_figures_without_an_error_count_had_no_errors() {
    let summary = r#"{"schema_version":"1.4","aiperf_version":"0.13.0",
 "request_count":{"unit":"requests","avg":5.0},
        "request_latency":{"unit":"ms","avg":17.5,"p50":12.0,"p99":90.0,"count":5},
 "error_summary":[],
        "input_config":{"endpoint":{"urls":["http://me:secret@host:8000/v1?key=abc"]}}}"#;
    let Results::Figures(figures) = open(&text("clean", summary)).unwrap() else { panic!() };
    assert_eq!((figures.offered(), figures.counts.get(&Outcome::Failed)), (5, None));
    let e2e = figures.e2e_ms.unwrap();
    assert!((e2e.mean - 17.5).abs() + (e2e.percentiles[&99] - 90.0).abs() < 1e-9);
    assert_eq!(figures.ttft_ms, None);
    assert_eq!(figures.about.targets, ["http://host:8000/v1"]);
}

const VLLM: &str = r#"{"model_id":"m","num_prompts":3,"request_rate":"inf",
 "max_concurrency":null,"duration":1.0,
 "completed":2,"failed":1,"mean_ttft_ms":30.0,"median_ttft_ms":30.0,"p99_ttft_ms":40.0,
 "mean_tpot_ms":10.0,
 "total_input_tokens":9,"total_output_tokens":5,"input_lens":[4,5,6],"output_lens":[3,2,0],
 "ttfts":[0.03,0.04,0.0],"itls":[[0.01,0.01],[0.01],[]],"start_times":[100.5,100.0,100.7],
 "errors":["","","Service Unavailable"]}"#;

#[test]
fn vllm_rows_are_read_where_it_kept_them_and_figures_else() {
    let run = rows_of(&text("vllm", VLLM));
    let ends: Vec<Outcome> = run.rows.iter().map(|row| row.outcome).collect();
    assert_eq!(ends, [Outcome::Completed, Outcome::Completed, Outcome::Refused]);
    assert_eq!(run.rows[0].ttft().map(|it| it.0), Some(40_000_000));
    assert_eq!(run.rows[1].itl().map(|it| it.0), Some(10_000_000));
    let Results::Figures(figures) =
        open(&text("vllm-figures", &VLLM.replace("start_times", "gone"))).unwrap()
    else {
        panic!()
    };
    assert_eq!(figures.offered(), 3);
    assert!((figures.ttft_ms.unwrap().percentiles[&50] - 30.0).abs() < 1e-9);
    assert!(told(&text("uneven", &VLLM.replace(",100.7", ""))).contains("not equally long"));
}

const GUIDELLM: &str = r#"{"metadata":{"guidellm_version":"0.8.1"},"benchmarks":[{"requests":{
 "successful":[{"prompt_tokens":4,"output_tokens":3,"request_start_time":1700000000.5,
 "request_end_time":1700000000.6,
  "time_to_first_token_ms":50.0,"info":{"timings":{"targeted_start":1700000000.49}}}],
 "errored":[{"request_start_time":1700000000.7,"request_end_time":1700000000.8,
 "info":{"error":"503 Service Unavailable"}}],
 "incomplete":[{}]}}]}"#;

#[test]
fn one_benchmark_of_guidellm_is_read_and_several_need_a_choice() {
    let run = rows_of(&text("guidellm", GUIDELLM));
    assert_eq!(run.rows.len(), 3);
    let of = |outcome| run.rows.iter().find(|row| row.outcome == outcome).unwrap();
    assert_eq!(of(Outcome::Completed).ttft().map(|it| (it.0 + 500_000) / 1_000_000), Some(60));
    assert_eq!(of(Outcome::Refused).attempts[0].status, Some(503));
    assert_eq!(of(Outcome::Cancelled).ttft(), None);
    let file = text("several", r#"{"benchmarks":[{},{"requests":{"successful":[{}]}}]}"#);
    assert!(told(&file).contains("holds 2 benchmarks"));
    let named = PathBuf::from(format!("{}#2", file.display()));
    assert_eq!(rows_of(&named).rows.len(), 1);
}

#[test]
fn what_is_written_for_aiperf_tells_the_same_as_our_own_rows() {
    let folder = scratch("export").join("hold");
    let warm = Row { is_warmup: true, ..served(2, 9, 50) };
    written(&folder, &[served(0, 0, 40), refused(1, 5, 2), warm, super::row(3, 9)]);
    let run = rows_of(&folder.join("profile_export.jsonl"));
    // What was never sent has no line there.
    assert_eq!(run.rows.len(), 3);
    let own = served(0, 0, 40);
    let theirs = &run.rows[0];
    assert_eq!((theirs.ttft(), theirs.itl(), theirs.e2e()), (own.ttft(), own.itl(), own.e2e()));
    assert_eq!((theirs.prompt_tokens, theirs.attempts[0].generated()), (Some(100), 3));
    // How long a refusal took is kept, unlike in the tool's own files.
    assert_eq!(run.rows[1].time_to_refuse(), refused(1, 5, 2).time_to_refuse());
    assert!(run.rows[2].is_warmup);
    let Results::Figures(figures) = open(&folder.join("profile_export_aiperf.json")).unwrap()
    else {
        panic!()
    };
    assert_eq!((figures.counts[&Outcome::Completed], figures.counts[&Outcome::Refused]), (1, 1));
    assert!((figures.ttft_ms.unwrap().mean - 40.0).abs() < 1e-4);
    let clean = scratch("export-clean").join("hold");
    written(&clean, &[served(0, 0, 40)]);
    let text = fs::read_to_string(clean.join("profile_export_aiperf.json")).unwrap();
    assert!(!text.contains("error_request_count"), "{text}");
}

/// `AIPerf`'s own models read what we write, where it is installed.
#[test]
fn the_models_of_aiperf_accept_both_files() {
    let peers = std::env::var_os("PEERS_DIR").map(PathBuf::from);
    let Some(python) = peers.map(|it| it.join("aiperf/bin/python")).filter(|it| it.exists()) else {
        eprintln!("skipped: PEERS_DIR names no folder with aiperf in it");
        return;
    };
    let folder = scratch("accepts").join("hold");
    written(&folder, &[served(0, 0, 40), refused(1, 5, 2), served(2, 9, 50)]);
    let script = [
        "import sys, pathlib",
        "from aiperf.common.models.record_models import MetricRecordInfo as Row",
        "from aiperf.common.models.export_models import JsonExportData as Summary",
        "from aiperf.plot.core.data_loader import DataLoader",
        "at = pathlib.Path(sys.argv[1])",
        "rows = [Row.model_validate_json(it) for it in open(at / 'profile_export.jsonl')]",
        "whole = Summary.model_validate_json((at / 'profile_export_aiperf.json').read_text())",
        "run = DataLoader().load_run(at)",
        "print(len(rows), rows[1].error.code, whole.request_count.avg, len(run.requests))",
    ];
    let script = script.join("\n");
    let ran = std::process::Command::new(python).arg("-c").arg(script).arg(&folder).output();
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.ends_with("3 503 2.0 3\n"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}

/// Files that the tools themselves wrote of a modelled engine, cut to a few requests.
#[test]
fn what_the_tools_really_write_gives_their_own_figures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/results/tests/fixtures");
    let of = |name: &str| {
        let run = rows_of(&folder.join(name));
        assert!(run.about.is_valid(), "{:?}", run.about);
        assert!(run.rows.iter().all(|row| row.outcome == Outcome::Completed));
        run
    };
    let parsed = |name: &str| -> serde_json::Value {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    };
    let near = |span: Option<forebay_core::Span>, ms: f64| {
        let seen = span.unwrap().0 as f64 / 1e6;
        assert!((seen - ms).abs() < 0.002, "{seen} ms where the tool says {ms}");
    };
    let lag = |row: &Row| row.lag().unwrap().0 as f64 / 1e6;

    let (run, theirs) = (of("aiperf-0.13.jsonl"), parsed("aiperf-0.13.jsonl"));
    let (row, said) = (&run.rows[0], |tag: &str| theirs["metrics"][tag]["value"].as_f64().unwrap());
    near(row.ttft(), said("time_to_first_token") + lag(row));
    near(row.e2e(), said("request_latency") + lag(row));
    near(row.itl(), said("inter_token_latency"));
    assert_eq!(row.attempts[0].usage.output_tokens, Some(82));

    let (run, theirs) = (of("guidellm-0.8.json"), parsed("guidellm-0.8.json"));
    let first = &theirs["benchmarks"][0]["requests"]["successful"][0];
    near(run.rows[0].ttft(), first["time_to_first_token_ms"].as_f64().unwrap() + lag(&run.rows[0]));
    near(run.rows[0].itl(), first["inter_token_latency_ms"].as_f64().unwrap());
    assert_eq!(run.about.tool, "guidellm 0.8.1");

    let (run, theirs) = (of("vllm-0.32.json"), parsed("vllm-0.32.json"));
    let said = |name: &str| theirs[name][0].as_f64().unwrap() * 1e3;
    assert_eq!(run.rows.len(), 6);
    near(run.rows[0].ttft(), said("ttfts") + said("queue_times"));
}

/// The six original summaries, or `None` where they are not at hand.
fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let named = std::env::var_os("FOREBAY_SHARED").map(PathBuf::from);
    named.into_iter().chain([beside]).find(|it| it.join("data/aiperf-0.8").is_dir())
}

#[test]
fn six_original_summaries_give_the_figures_of_the_published_table() {
    let Some(shared) = shared() else {
        eprintln!("skipped: ../shared is not there");
        return;
    };
    let table = fs::read_to_string(shared.join("data/kv-router-ab.csv")).unwrap();
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let cells: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    for (file, router) in [("off", "round-robin"), ("on", "kv")] {
        for nth in 1..=3 {
            let path = shared.join(format!("data/aiperf-0.8/N2-{file}-{nth}.json"));
            let Results::Figures(figures) = open(&path).unwrap() else { panic!() };
            let run = format!("run_{nth}");
            let line = cells.iter().find(|it| it[..3] == ["2", router, &run]).unwrap();
            let cell = |name: &str| -> f64 {
                line[head.iter().position(|it| *it == name).unwrap()].parse().unwrap()
            };
            let of = |outcome| figures.counts.get(&outcome).copied();
            let whole = |name: &str| Some(cell(name) as u64);
            assert_eq!(Some(figures.offered()), whole("sent"));
            assert_eq!(of(Outcome::Completed), whole("completed"));
            assert_eq!(of(Outcome::Refused).or(Some(0)), whole("http_503"));
            assert_eq!(figures.prompt_tokens, whole("input_tokens"));
            assert_eq!(figures.output_tokens, whole("output_tokens"));
            let times =
                [("ttft", &figures.ttft_ms), ("itl", &figures.itl_ms), ("e2e", &figures.e2e_ms)];
            for (what, spread) in times {
                let spread = spread.as_ref().unwrap();
                let near = |seen: f64, name: &str| {
                    let said = cell(&format!("{what}_ms_{name}"));
                    assert!(
                        (seen - said).abs() <= 0.051,
                        "{file} {nth} {what} {name}: {seen} {said}"
                    );
                };
                near(spread.mean, "mean");
                for nth in [50, 90, 99] {
                    near(spread.percentiles[&nth], &format!("p{nth}"));
                }
                near(spread.range.unwrap().1, "max");
            }
        }
    }
}
