//! Tries where output goes: devices, pipes, links, files that clash, readers that leave.
#![cfg(unix)]

mod folder;

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use folder::Folder;

/// A run of a few requests, which takes no time.
const SIMULATE: [&str; 5] = ["simulate", "--synth", "evidence", "--requests", "20"];

impl Folder {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(args).current_dir(&self.0);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    /// Runs a short simulation that writes to these places, and expects this exit code.
    #[track_caller]
    fn simulate(&self, args: &[&str], code: i32) -> String {
        let output = self.run(&[&SIMULATE, args].concat());
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{talk}");
        talk
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder can be read").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_device_stays_a_device_under_every_output() {
    let folder = Folder::new("device");
    symlink("/dev/null", folder.0.join("null")).unwrap();
    for output in ["--requests-out", "--record"] {
        folder.simulate(&[output, "null"], 0);
        folder.simulate(&[output, "/dev/null"], 0);
    }
    let trace = folder.run(&["trace", "synth", "evidence", "--out", "null"]);
    assert_eq!(trace.status.code(), Some(0));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(folder.0.join("null").is_symlink());
    assert_eq!(folder.names(), ["null"]);
}

#[test]
fn a_pipe_takes_what_a_file_would() {
    let folder = Folder::new("pipe");
    folder.simulate(&["--requests-out", "rows", "--record", "run.rec"], 0);
    for (output, file) in [("--requests-out", "rows"), ("--record", "run.rec")] {
        let pipe = folder.0.join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let read = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).unwrap())
        };
        folder.simulate(&[output, "pipe"], 0);
        assert!(read.join().unwrap() == fs::read(folder.0.join(file)).unwrap(), "{output}");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        fs::remove_file(pipe).unwrap();
    }
    let rows = fs::read_to_string(folder.0.join("rows")).unwrap();
    let printed = folder.run(&[&SIMULATE[..], &["--requests-out", "/dev/stdout"]].concat());
    assert_eq!(printed.status.code(), Some(0));
    assert!(String::from_utf8(printed.stdout).unwrap().contains(&rows));
}

#[test]
fn a_recording_of_several_pools_needs_a_file() {
    let folder = Folder::new("pools");
    let door = "[[class]]\nname = \"a\"\noverload = \"spill\"\nspill_to = \"far\"\n\
                [[pool]]\nname = \"far\"\nworkers = 1\n";
    fs::write(folder.0.join("door.toml"), door).unwrap();
    let talk = folder.simulate(&["--classes", "door.toml", "--record", "/dev/null"], 2);
    assert!(talk.contains("takes one recording") && talk.contains("hint: "), "{talk}");
    assert!(!Path::new("/dev/null.pool-1").exists());
    let clash = ["--record", "run.rec", "--requests-out", "run.rec.pool-1"];
    let talk = folder.simulate(&[&["--classes", "door.toml"], &clash[..]].concat(), 2);
    assert!(talk.contains("--record would replace --requests-out"), "{talk}");
}

#[test]
fn outputs_that_would_replace_each_other_or_an_input_are_refused_before_the_run() {
    let folder = Folder::new("clash");
    folder.run(&["trace", "synth", "evidence", "--requests", "9", "--out", "trace.jsonl"]);
    let trace = fs::read(folder.0.join("trace.jsonl")).unwrap();
    let talk = folder.simulate(&["--requests-out", "x", "--record", "./x"], 2);
    assert!(talk.contains("--record would replace --requests-out\nhint: "), "{talk}");
    for output in ["--requests-out", "--record"] {
        let run = folder.run(&["simulate", "--trace", "trace.jsonl", output, "trace.jsonl"]);
        let talk = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(2), "{talk}");
        assert!(talk.contains("would replace a file that the run reads"), "{talk}");
    }
    assert_eq!(fs::read(folder.0.join("trace.jsonl")).unwrap(), trace);
    assert_eq!(folder.names(), ["trace.jsonl"]);
}

#[test]
fn a_reader_that_has_had_enough_is_no_failure_anywhere() {
    let folder = Folder::new("reader");
    folder.simulate(&["--record", "run.rec"], 0);
    let claim = "claim = \"c\"\nseeds = 1\ndrain_s_max = 60\n[[stream]]\nrequests = 9\n\
                 per_s = 3\nprompt = 99\noutput = 9\n\
                 [[expect]]\nfigure = \"refused\"\nat_most = 0\n";
    fs::write(folder.0.join("claim.toml"), claim).unwrap();
    let drill = ["drill", "--arm", "hold", "--seeds", "1", "--workers", "8"];
    for args in [
        &SIMULATE[..],
        &["replay", "run.rec"],
        &["explain", "run.rec", "3"],
        &["scenario", "run", "claim.toml"],
        &["trace", "stats", "/dev/stdin"],
        &drill,
    ] {
        let mut command = folder.command(args);
        let trace = folder.run(&["trace", "synth", "evidence", "--out", "trace.jsonl"]);
        assert!(trace.status.success());
        command.stdin(fs::File::open(folder.0.join("trace.jsonl")).unwrap());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{args:?}: {ended:?}");
    }
}

#[test]
fn talk_that_nobody_can_hear_changes_nothing_and_data_that_nobody_can_have_is_an_error() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(_) = full() else {
        return println!("skipped: this system has no /dev/full");
    };
    let folder = Folder::new("full");
    for args in [&SIMULATE[..], &["trace", "synth", "evidence", "--out", "trace.jsonl"]] {
        let status = folder.command(args).stdout(Stdio::null()).stderr(full().unwrap()).status();
        assert_eq!(status.unwrap().code(), Some(0), "{args:?}");
    }
    let misuse = folder.command(&["replay", "none"]).stderr(full().unwrap()).status();
    assert_eq!(misuse.unwrap().code(), Some(2));
    for args in [&SIMULATE[..], &["trace", "synth", "evidence"], &["trace", "stats", "trace.jsonl"]]
    {
        let output = folder.command(args).stdout(full().unwrap()).output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(talk.starts_with("error: ") && talk.contains("hint: "), "{talk}");
    }
}

#[test]
fn what_is_out_of_range_is_refused_at_once_and_names_the_range() {
    let folder = Folder::new("ranges");
    fs::write(folder.0.join("claim.toml"), "").unwrap();
    fs::write(folder.0.join("odd.toml"), b"claim = \"\xff\"\n").unwrap();
    let huge = "4294967295";
    for (args, says) in [
        (&["simulate", "--synth", "evidence", "--scale", "1e-10"][..], "from 0.000001 to 1000000"),
        (&["drill", "--scale", "1e-10"], "from 0.000001 to 1000000"),
        (&["simulate", "--synth", "evidence", "--workers", huge], "of at most 10000"),
        (&["drill", "--workers", huge], "of at most 10000"),
        (&["scenario", "run", "claim.toml", "--load", "nan"], "from 0.001 to 1000"),
        (&["scenario", "run", "claim.toml", "--load", "inf"], "from 0.001 to 1000"),
        (&["scenario", "run", "claim.toml", "--load=-1"], "from 0.001 to 1000"),
        (&["scenario", "run", "claim.toml", "--load", "1e-15"], "from 0.001 to 1000"),
        (&["scenario", "run", "odd.toml"], "odd.toml: line 1 is not UTF-8 text"),
        (&["drill", "--criteria", "odd.toml"], "odd.toml: line 1 is not UTF-8 text"),
        (&["drill", "--classes", "odd.toml"], "odd.toml: line 1 is not UTF-8 text"),
        (&["drill", "--engine", "odd.toml"], "odd.toml: line 1 is not UTF-8 text"),
        (&["drill", "--synth", "odd.toml"], "odd.toml: line 1 is not UTF-8 text"),
        (&["trace", "synth", "chat", "--per-s", "1e-6", "--out", "x"], "more than ten years"),
        (&["trace", "synth", "evidence", "--requests", "0"], "--requests"),
    ] {
        let output = folder.run(args);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {talk}");
        assert!(talk.contains(says), "{args:?}: {talk}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn no_error_says_anything_twice() {
    let folder = Folder::new("twice");
    let gold = "{\"timestamp\":0,\"input_length\":9,\"output_length\":3,\"class\":\"gold\"}\n";
    fs::write(folder.0.join("gold.jsonl"), gold).unwrap();
    for args in [
        &["drill", "--trace", "none.jsonl"][..],
        &["drill", "--trace", "gold.jsonl"],
        &["drill", "--classes", "none.toml"],
        &["drill", "--criteria", "none.toml"],
        &["drill", "--engine", "none.toml"],
        &["drill", "--out", "gold.jsonl/x"],
        &["simulate", "--trace", "none.jsonl"],
        &["simulate", "--synth", "none.toml"],
        &["simulate", "--synth", "evidence", "--classes", "none.toml"],
        &["simulate", "--synth", "evidence", "--requests-out", "no/rows"],
        &["simulate", "--synth", "evidence", "--record", "no/run.rec"],
        &["scenario", "run", "none.toml"],
        &["trace", "synth", "evidence", "--out", "no/trace"],
        &["replay", "none.rec"],
        &["explain", "none.rec", "1"],
    ] {
        let output = folder.run(args);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {talk}");
        let (what, remedy) = talk.trim_end().split_once("\nhint: ").expect(&talk);
        assert!(what.starts_with("error: ") && !remedy.contains('\n'), "{args:?}: {talk}");
        let parts: Vec<&str> = what.split(": ").collect();
        let distinct: std::collections::BTreeSet<&&str> = parts.iter().collect();
        assert_eq!(distinct.len(), parts.len(), "{args:?}: {talk}");
    }
}

#[test]
fn a_name_from_a_trace_commands_no_terminal() {
    let folder = Folder::new("names");
    let row = "{\"timestamp\":0,\"input_length\":9,\"output_length\":3,\"tenant\":\"NAME\"}\n";
    let rows = row.replace("NAME", "red\\u001b[31m\\nline") + &row.replace("NAME", "plain");
    fs::write(folder.0.join("trace.jsonl"), rows).unwrap();
    for command in [&["simulate", "--trace"][..], &["trace", "stats"]] {
        let output = folder.run(&[command, &["trace.jsonl"]].concat());
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn a_selection_of_nothing_is_told() {
    let folder = Folder::new("nothing");
    folder.run(&["trace", "synth", "evidence", "--requests", "9", "--out", "trace.jsonl"]);
    for args in [["slice", "--from", "1e6"], ["filter", "--class", "gold"]] {
        let output = folder.run(&[&["trace", args[0], "trace.jsonl"][..], &args[1..]].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(talk.starts_with("note: no request was written"), "{talk}");
    }
}
