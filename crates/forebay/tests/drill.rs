//! Holds `forebay drill` to what its reference says: output, exit codes, files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Runs `forebay drill` with these arguments in an empty folder of the test's own.
fn drill(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("drill").args(arguments.split_whitespace()).current_dir(folder);
    command.output().expect("the program was built for this test")
}

/// A folder of the test's own, with a calm trace in it, a crowded one, and criteria nobody meets.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("drill-{name}"));
    let _ = fs::remove_dir_all(&folder);
    let write = |path, text: String| fs::write(path, text).expect("the test folder can be written");
    fs::create_dir_all(&folder).expect("the test folder can be written");
    let lines = |gap: u64| -> String {
        let line = |nth: u64| {
            let ids: Vec<String> = (0..8).map(|id| (nth * 10 + id).to_string()).collect();
            let (at, ids) = (nth * gap, ids.join(","));
            format!(
                "{{\"timestamp\":{at},\"input_length\":4096,\"output_length\":20,\
                 \"hash_ids\":[{ids}]}}\n"
            )
        };
        (0..40).map(line).collect()
    };
    write(folder.join("calm.jsonl"), lines(2000));
    write(folder.join("crowd.jsonl"), lines(1));
    write(folder.join("never.toml"), "ttft_ms_max = { p50 = 0.001 }\n".to_owned());
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all output is UTF-8")
}

#[test]
fn the_arm_under_test_decides_the_exit_code() {
    let folder = scratch("exit");
    let calm = "--trace calm.jsonl --workers 2 --seeds 2";
    assert_eq!(
        drill(&folder, &format!("{calm} --arm round-robin --arm hold")).status.code(),
        Some(0)
    );
    let never = format!("{calm} --arm hold --criteria never.toml");
    assert_eq!(drill(&folder, &never).status.code(), Some(1));
    // Half of the runs: seeds draw differently, and the limit lies between what two of them come
    // to.
    let random = "--trace crowd.jsonl --workers 3 --seeds 6 --arm random --json";
    let ran = drill(&folder, random);
    let stdout = text(&ran.stdout);
    let p50 = |line: &str| serde_json::from_str::<Value>(line).unwrap()["ttft_ms"]["p50"].as_f64();
    let mut p50: Vec<f64> = stdout.lines().filter_map(p50).collect();
    p50.sort_by(f64::total_cmp);
    assert!(p50[0] < p50[5], "{p50:?}");
    let between = format!("ttft_ms_max = {{ p50 = {} }}\n", f64::midpoint(p50[0], p50[5]));
    fs::write(folder.join("between.toml"), between).unwrap();
    let split = drill(&folder, &format!("{random} --criteria between.toml"));
    assert_eq!(split.status.code(), Some(3), "{}", text(&split.stdout));
}

#[test]
fn json_is_one_summary_a_run_and_then_the_verdicts() {
    let folder = scratch("json");
    let ran = drill(
        &folder,
        "--trace calm.jsonl --workers 2,1 --seeds 2 --arm round-robin --arm hold --json",
    );
    let lines: Vec<Value> =
        text(&ran.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2 * 2 * 2 + 1);
    let (verdicts, runs) = lines.split_last().unwrap();
    let cell = |run: &Value| {
        (run["workers"].as_u64().unwrap(), run["seed"].as_u64().unwrap(), run["mode"].to_string())
    };
    let cells: Vec<_> = runs.iter().map(cell).collect();
    assert_eq!(cells[0], (1, 1, "\"round-robin\"".to_owned()));
    assert_eq!(cells[7], (2, 2, "\"hold\"".to_owned()));
    assert!(runs.iter().all(|run| run["offered"] == 40));
    assert_eq!((&verdicts["outcome"], &verdicts["under_test"]), (&"GO".into(), &"hold".into()));
    assert_eq!(verdicts["verdicts"].as_array().unwrap().len(), 2);
    assert_eq!(ran.stderr, b"", "quiet in a pipe");
}

#[test]
fn the_same_command_gives_the_same_bytes_and_replaces_only_its_own_report() {
    let folder = scratch("bytes");
    let command =
        "--trace calm.jsonl --workers 1,2 --seeds 1 --arm round-robin --arm hold --out one";
    let first = drill(&folder, command);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let files = |name: &str| -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(folder.join(name))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    };
    let before = files("one");
    assert!(before.iter().any(|(name, _)| name == "index.html"));
    assert_eq!(drill(&folder, command).stdout, first.stdout);
    assert_eq!(drill(&folder, &command.replace("--out one", "--out two")).stdout, first.stdout);
    assert!(before == files("one") && before == files("two"));
    fs::create_dir(folder.join("mine")).unwrap();
    fs::write(folder.join("mine/thesis.tex"), "years of work").unwrap();
    let refused = drill(&folder, &command.replace("--out one", "--out mine"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stdout.is_empty(), "refused before anything ran");
    assert_eq!(fs::read_dir(folder.join("mine")).unwrap().count(), 1);
}

#[test]
fn misuse_is_one_error_with_a_remedy_and_exit_2() {
    let folder = scratch("misuse");
    fs::write(folder.join("class.toml"), "[class.gold]\nrefused_share_max = 0\n").unwrap();
    fs::write(folder.join("bad.toml"), "completed_share_min = 2\nspeed = 1\n").unwrap();
    fs::write(folder.join("cut.jsonl"), "{\"timestamp\": 0, \"input_le").unwrap();
    let calm = "--trace calm.jsonl --workers 1 --seeds 1 --arm hold";
    let cases = [
        ("--trace - --workers 1", "hint: write it to a file first"),
        ("--trace none.jsonl --workers 1", "none.jsonl: "),
        ("--trace cut.jsonl --workers 1 --seeds 1", "cut.jsonl:1: "),
        ("--synth nothing", "hint: take one of "),
        ("--engine none/such", "hint: "),
        ("--arm hold --arm hold", "arm hold is named twice"),
        ("--arm fastest", "the modes are"),
        ("--workers 0", "0 is not in"),
        ("--seeds 0", "0 is not in"),
        ("--scale 0", "hint: "),
        (&format!("{calm} --criteria none.toml"), "none.toml: there is no such file"),
        (&format!("{calm} --criteria bad.toml"), "bad.toml:1: `2` is not a share"),
        (&format!("{calm} --criteria bad.toml"), "bad.toml:2: unknown key `speed`"),
        (&format!("{calm} --criteria class.toml"), "class.toml:1: the class `gold` is not served"),
        (&format!("{calm} --out calm.jsonl"), "calm.jsonl: exists and is not a report"),
        (&format!("{calm} --out calm.jsonl/report"), "calm.jsonl/report: "),
        ("--trace none.jsonl --workers 1 --out new", "none.jsonl: "),
    ];
    for (arguments, expected) in cases {
        let ran = drill(&folder, arguments);
        let stderr = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(stderr.contains(expected), "{arguments}: {stderr}");
        assert!(ran.stdout.is_empty(), "{arguments}");
    }
    let names = fs::read_dir(&folder).unwrap().count();
    assert_eq!(names, 6, "nothing half-written is left");
}

#[test]
fn agreed_refusals_of_a_class_are_held_against_the_facts() {
    let folder = scratch("agreed");
    let classes = "[[class]]\nname = \"public\"\noverload = \"shed\"\nwait_ms_max = 1\n\
                   reject_share_max = 0.0\n";
    fs::write(folder.join("classes.toml"), classes).unwrap();
    let ran = drill(
        &folder,
        "--trace crowd.jsonl --workers 1 --seeds 1 --arm hold --classes classes.toml",
    );
    let stdout = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(1), "{stdout}{}", text(&ran.stderr));
    assert!(stdout.contains("refused of class public ≤ 0 %"), "{stdout}");
}

#[test]
fn the_help_fits_a_terminal() {
    let ran = drill(&scratch("help"), "-h");
    insta::assert_snapshot!(text(&ran.stdout));
    assert!(text(&ran.stdout).lines().all(|line| line.chars().count() <= 79));
}
