//! Runs `forebay trace` as a user does: streams, exit codes, files.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn forebay(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("trace")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    // A program that refuses its arguments never reads, so a failed write says nothing.
    let writer = std::thread::spawn(move || stdin.write_all(&input).is_ok());
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("writing does not panic");
    output
}

fn lines(output: &Output) -> usize {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn traces_pass_through_pipes() {
    let made = forebay(&["synth", "evidence"], b"");
    assert_eq!(lines(&made), 1000);
    assert_eq!(forebay(&["synth", "evidence"], b"").stdout, made.stdout);
    assert_eq!(forebay(&["convert", "-"], &made.stdout).stdout, made.stdout);
    assert_eq!(lines(&forebay(&["slice", "-", "--first", "5"], &made.stdout)), 5);
    let short = forebay(&["filter", "-", "--input-max", "1000"], &made.stdout);
    assert!((30..70).contains(&lines(&short)));
    let stats = forebay(&["stats", "-", "--json"], &made.stdout);
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["requests"], 1000);
    let page = forebay(&["stats", "-"], &made.stdout);
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn scaling_reads_files_and_changes_the_rate() {
    let file = std::env::temp_dir().join(format!("forebay-scale-{}.jsonl", std::process::id()));
    let path = file.to_str().unwrap();
    assert_eq!(lines(&forebay(&["synth", "evidence", "--out", path], b"")), 0);
    assert_eq!(lines(&forebay(&["scale", path, "--rate", "3"], b"")), 3000);
    assert_eq!(lines(&forebay(&["scale", path, "--time", "2"], b"")), 1000);
    // Its own input is no danger: the file is replaced only when the new one is whole.
    assert_eq!(lines(&forebay(&["scale", path, "--rate", "2", "--out", path], b"")), 0);
    assert_eq!(lines(&forebay(&["convert", path], b"")), 2000);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn faults_are_one_error_with_a_hint_and_exit_2() {
    for (args, says) in [
        (&["stats", "no-such-file"][..], "no-such-file: "),
        (&["convert", "-"][..], "-: the trace is empty"),
        (&["synth", "evidense"][..], "evidense: no synthetic trace has this name"),
        (&["synth", "evidence", "--per-s", "-1"][..], "unexpected argument"),
        (&["synth", "evidence", "--per-s=-1"][..], "per_s must lie in"),
        (&["synth", "evidence", "--out", "no/such/folder/x"][..], "no/such/folder/x: "),
        (&["scale", "-", "--rate", "2"][..], "standard input can't be read twice"),
        (&["scale", "x"][..], "--rate"),
        (&["scale", "x", "--rate", "0"][..], "a factor from"),
        (&["slice", "x", "--from", "nan"][..], "a number of seconds"),
    ] {
        let output = forebay(args, b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(says), "{args:?}: {said}");
        assert!(said.contains("hint: ") || said.contains("--help"), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn notes_about_rows_go_to_standard_error() {
    let table = "Timestamp,Request tokens,Response tokens\n1,5,5\n2,5,0\n";
    let output = forebay(&["convert", "-"], table.as_bytes());
    assert_eq!(lines(&output), 1);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("note: 1 row with no response tokens"), "{said}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["trace", "synth", "evidence", "--requests", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn every_command_shows_an_example() {
    for command in ["stats", "convert", "slice", "filter", "scale", "synth"] {
        let help = forebay(&[command, "--help"], b"");
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(text.contains(&format!("Example: forebay trace {command} ")), "{text}");
    }
}
