//! Records, replays, explains and breaks claims on the command line, and checks what it exits with.

mod folder;

use std::path::Path;
use std::process::{Command, Output};

use folder::Folder;

impl Folder {
    /// Runs the program in this folder.
    fn forebay(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let Output { status, stdout, stderr } =
            command.args(args).current_dir(&self.0).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
        (status.code(), text(stdout), text(stderr))
    }
}

const RECORD: [&str; 7] =
    ["simulate", "--synth", "evidence", "--requests", "40", "--record", "run.rec"];

#[test]
fn a_recorded_simulation_replays_and_explains() {
    let folder = Folder::new("records");
    assert_eq!(folder.forebay(&RECORD).0, Some(0));
    let (code, stdout, stderr) = folder.forebay(&["replay", "run.rec"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "40 decisions, all equal\n");
    let (code, stdout, _) = folder.forebay(&["explain", "run.rec", "7"]);
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with("Request 7 (class default, tenant default) arrived at"), "{stdout}");
    let (code, stdout, stderr) = folder.forebay(&["explain", "run.rec", "40"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("hint: name a request from 0 to 39"), "{stderr}");
}

#[test]
fn the_same_command_writes_the_same_recording() {
    let folder = Folder::new("same");
    folder.forebay(&RECORD);
    let first = std::fs::read(folder.0.join("run.rec")).unwrap();
    folder.forebay(&RECORD);
    assert_eq!(first, std::fs::read(folder.0.join("run.rec")).unwrap());
}

#[test]
fn two_runs_do_not_fit_into_one_recording() {
    let folder = Folder::new("two");
    let args = ["simulate", "--trace", "a.jsonl", "b.jsonl", "--record", "run.rec"];
    let (code, _, stderr) = folder.forebay(&args);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("a recording holds one run"), "{stderr}");
    assert!(!Path::new(&folder.0.join("run.rec")).exists());
}

#[test]
fn a_broken_claim_exits_with_1_and_a_faulty_file_with_2() {
    let folder = Folder::new("claims");
    let scenario = |expect: &str| {
        format!(
            "claim = \"c\"\nseeds = 1\ndrain_s_max = 60\n[[stream]]\nrequests = 9\nper_s = 3\n\
             prompt = 99\noutput = 9\n[[expect]]\nfigure = \"refused\"\n{expect}\n"
        )
    };
    let write = |name: &str, expect: &str| {
        std::fs::write(folder.0.join(name), scenario(expect)).unwrap();
    };
    write("true.toml", "at_most = 0");
    write("false.toml", "at_least = 1");
    write("faulty.toml", "at_most = \"none\"");
    let (code, stdout, _) = folder.forebay(&["scenario", "run", "true.toml"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "held    true, load 1 × the file's, seed 1: refused 0\n")
    );
    let (code, stdout, _) = folder.forebay(&["scenario", "run", "true.toml", "false.toml"]);
    assert_eq!(code, Some(1));
    assert!(
        stdout.contains("BROKEN  false, load 1 × the file's, seed 1: refused is 0, below 1"),
        "{stdout}"
    );
    let (code, stdout, stderr) = folder.forebay(&["scenario", "run", "true.toml", "faulty.toml"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("faulty.toml:11: "), "{stderr}");
    let record = ["scenario", "run", "true.toml", "--record", "run.rec"];
    assert_eq!(folder.forebay(&record).0, Some(0));
    assert_eq!(folder.forebay(&["replay", "run.rec"]).0, Some(0));
}

#[test]
fn a_torn_recording_is_inconclusive_and_one_that_goes_on_is_refused() {
    let folder = Folder::new("torn");
    folder.forebay(&RECORD);
    let bytes = std::fs::read(folder.0.join("run.rec")).unwrap();
    std::fs::write(folder.0.join("torn.rec"), &bytes[..bytes.len() - 99]).unwrap();
    let (code, stdout, _) = folder.forebay(&["replay", "torn.rec"]);
    assert_eq!(code, Some(3));
    assert!(stdout.contains("all equal\nnote: the recording ends early"), "{stdout}");
    std::fs::write(folder.0.join("more.rec"), [&bytes[..], b"x"].concat()).unwrap();
    std::fs::write(folder.0.join("twice.rec"), [&bytes[..], &bytes[..]].concat()).unwrap();
    for file in ["more.rec", "twice.rec"] {
        for args in [&["replay", file][..], &["explain", file, "3"]] {
            let (code, stdout, stderr) = folder.forebay(args);
            assert_eq!((code, stdout.as_str()), (Some(2), ""));
            assert!(stderr.contains("more bytes after the end"), "{stderr}");
        }
    }
}

#[test]
fn rows_name_the_numbers_that_a_recording_has_for_each_attempt() {
    let folder = Folder::new("attempts");
    let door = "[[class]]\nname = \"a\"\noverload = \"shed\"\nwait_ms_max = 1\n\
                [[tenant]]\nname = \"t\"\nrequests_per_s_max = 0.3\n";
    std::fs::write(folder.0.join("door.toml"), door).unwrap();
    let retry = ["--retry", "backoff", "--classes", "door.toml", "--requests-out", "rows"];
    assert_eq!(folder.forebay(&[&RECORD[..], &retry].concat()).0, Some(0));
    let rows = std::fs::read_to_string(folder.0.join("rows")).unwrap();
    let rows: Vec<serde_json::Value> =
        rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let numbers = |row: &serde_json::Value| row["core_requests"].as_array().unwrap().clone();
    assert!(rows.iter().all(|row| numbers(row).len() as u64 == row["attempts"]));
    let refused = rows.iter().find(|row| row["reason"] == "tenant_rate").unwrap();
    let last = numbers(refused).last().unwrap().to_string();
    let (code, stdout, _) = folder.forebay(&["explain", "run.rec", &last]);
    assert_eq!(code, Some(0));
    let told = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("more requests than agreed: 0.3 a second."), "{told}");
}
