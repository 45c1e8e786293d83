//! Runs the program itself: what `forebay simulate` prints, where, and how it ends.

mod folder;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use folder::Folder;

/// A small trace: four requests, two of which share their first three ids.
const TRACE: &str = r#"
{"timestamp": 0, "input_length": 1023, "output_length": 34, "hash_ids": [0, 1]}
{"timestamp": 0, "input_length": 890, "output_length": 14, "hash_ids": [0, 2]}
{"timestamp": 40, "input_length": 1824, "output_length": 3, "hash_ids": [4, 5, 6, 16]}
{"timestamp": 3000, "input_length": 1700, "output_length": 50, "hash_ids": [4, 5, 6, 18]}
"#;

impl Folder {
    /// A file with this text, by its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the folder takes a file");
        path.to_string_lossy().into_owned()
    }
}

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("simulate")
        .args(args)
        .output()
        .expect("it runs")
}

/// What it printed as data, of a run that went well.
#[track_caller]
fn data(args: &[&str]) -> String {
    let output = forebay(args);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{talk}");
    assert!(talk.contains("repeat: forebay simulate --"), "{talk}");
    String::from_utf8(output.stdout).expect("it writes text")
}

/// What it said of a misuse: exit code 2, nothing on standard output, and a hint.
#[track_caller]
fn misuse(args: &[&str]) -> String {
    let output = forebay(args);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{talk}");
    assert_eq!(output.stdout, b"", "{talk}");
    talk
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
fn each_trace_is_one_run_and_one_object_on_one_line() {
    let folder = Folder::new("objects");
    let [one, other] = ["one.jsonl", "other.jsonl"].map(|name| folder.file(name, TRACE));
    let shown = objects(&data(&["--json", "--trace", &one, &other, "--workers", "3"]));
    let names: Vec<_> = shown.iter().map(|object| object["trace"].as_str().unwrap()).collect();
    assert_eq!(names, ["one.jsonl", "other.jsonl"]);
    assert_eq!(shown[0]["offered"], 4);
    assert_eq!(shown[0]["completed"], 4);
    assert_eq!([&shown[0]["workers"], &shown[0]["seed"]], [3, 1]);
    assert_eq!(shown[0]["mode"], "hold");
    assert_eq!(shown[0]["engine"], "a100-40gb/qwen3-8b");
    assert!(shown[0]["prefix_hit_share"].as_f64().unwrap() > 0.2);
}

#[test]
fn the_same_command_prints_the_same_bytes_and_another_seed_others() {
    let run = |seed| {
        data(&["--synth", "evidence", "--requests", "60", "--mode", "random", "--seed", seed])
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn every_request_becomes_a_row_once_the_run_is_over() {
    let folder = Folder::new("rows");
    let trace = folder.file("trace.jsonl", TRACE);
    let rows = folder.0.join("rows.jsonl");
    data(&["--trace", &trace, "--requests-out", rows.to_str().unwrap()]);
    let rows = objects(&std::fs::read_to_string(rows).unwrap());
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[3]["scheduled_ms"], 3000.0);
    assert_eq!(
        [&rows[2]["fate"], &rows[2]["output"]],
        [&Value::from("completed"), &Value::from(3)]
    );
}

#[test]
fn a_faulty_trace_leaves_no_rows_behind() {
    let folder = Folder::new("no-rows");
    let trace = folder.file("trace.jsonl", &format!("{TRACE}{{\"timestamp\": 3001, \"inp"));
    let rows = folder.0.join("rows.jsonl");
    let talk = misuse(&["--trace", &trace, "--requests-out", rows.to_str().unwrap()]);
    assert!(talk.contains("trace.jsonl:6: ") && talk.contains("hint: "), "{talk}");
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn all_faults_of_a_service_file_are_told_at_once() {
    let folder = Folder::new("faults");
    let door =
        folder.file("door.toml", "[[class]]\nname = \"a\"\noverload = \"spil\"\nshare = 0\n");
    let talk = misuse(&["--synth", "evidence", "--requests", "1", "--classes", &door]);
    assert!(talk.contains("door.toml:3: ") && talk.contains("door.toml:4: "), "{talk}");
    assert!(talk.contains("did you mean `spill`?"), "{talk}");
}

#[test]
fn misuse_is_told_with_a_remedy() {
    let none = misuse(&[]);
    assert!(none.contains("--trace"), "{none}");
    let mode = misuse(&["--synth", "evidence", "--mode", "hodl"]);
    assert!(mode.contains("the modes are round-robin"), "{mode}");
    let engine = misuse(&["--synth", "evidence", "--engine", "abacus"]);
    assert!(engine.contains("hint: "), "{engine}");
    let synth = misuse(&["--synth", "nonesuch"]);
    assert!(synth.contains("hint: "), "{synth}");
    let scale = misuse(&["--synth", "evidence", "--requests", "1", "--scale", "0"]);
    assert!(scale.contains("hint: "), "{scale}");
    let workers = misuse(&["--synth", "evidence", "--workers", "0"]);
    assert!(workers.contains("--workers"), "{workers}");
    let missing = misuse(&["--trace", "no/such/file.jsonl"]);
    assert!(missing.contains("no/such/file.jsonl") && missing.contains("hint: "), "{missing}");
    let both = misuse(&["--synth", "evidence", "--trace", "x"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn a_mixed_fleet_is_named_by_its_presets() {
    let folder = Folder::new("mixed");
    let own = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../forebay-lab/presets/a100-40gb--qwen3-8b.toml");
    let text = std::fs::read_to_string(own).unwrap();
    let slow = folder.file("slow.toml", &text.replace("a100-40gb/qwen3-8b", "old/card"));
    let trace = folder.file("trace.jsonl", TRACE);
    let shown =
        data(&["--json", "--trace", &trace, "--worker", "a100-40gb/qwen3-8b", "--worker", &slow]);
    let object = &objects(&shown)[0];
    assert_eq!(object["engine"], "a100-40gb/qwen3-8b+old/card");
    assert_eq!(object["workers"], 2);
}

#[test]
fn the_number_of_requests_bounds_a_trace_as_well() {
    let folder = Folder::new("bound");
    let trace = folder.file("trace.jsonl", TRACE);
    let shown = objects(&data(&["--json", "--trace", &trace, &trace, "--requests", "3"]));
    assert_eq!([&shown[0]["offered"], &shown[1]["offered"]], [3, 3]);
    for load in [["--trace", &trace], ["--synth", "evidence"]] {
        let none = misuse(&[&load[..], &["--requests", "0"]].concat());
        assert!(none.contains("--requests"), "{none}");
    }
}

#[test]
fn every_help_fits_a_terminal() {
    for command in [
        &["simulate"][..],
        &["drill"],
        &["replay"],
        &["explain"],
        &["scenario", "run"],
        &["trace"],
        &["trace", "stats"],
        &["trace", "convert"],
        &["trace", "slice"],
        &["trace", "filter"],
        &["trace", "scale"],
        &["trace", "synth"],
    ] {
        let help = Command::new(env!("CARGO_BIN_EXE_forebay")).args(command).arg("-h").output();
        let help = String::from_utf8(help.unwrap().stdout).unwrap();
        let wide = help.lines().find(|line| line.chars().count() > 79);
        assert_eq!(wide, None, "{command:?}");
    }
}
