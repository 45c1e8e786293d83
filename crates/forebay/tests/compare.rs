//! Holds `forebay compare` to what its reference says: output, exit codes, files.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_lab::results::{About, FolderOptions, RunFolder};
use serde_json::Value;

/// A folder of the test's own with a run that refuses every seventh request, and one that refuses
/// none.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{name}"));
    let _ = fs::remove_dir_all(&folder);
    let arms = [("calm", u64::MAX), ("block-2", u64::MAX), ("shed", 7), ("shed-2", 7)];
    for (nth, (arm, every)) in (0_u64..).zip(arms) {
        let mut rows = String::new();
        for request in 0..600_u64 {
            let due = request * 50_000;
            let (outcome, first) = if request % every == 3 {
                ("refused", String::new())
            } else {
                ("completed", format!("\"first_token_us\":{},", due + 40_000 + request + nth))
            };
            let end = due + 90_000;
            let _ = writeln!(
                rows,
                "{{\"request\":{request},\"scheduled_us\":{due},\"outcome\":\"{outcome}\",\
                 \"attempts\":[{{\"due_us\":{due},{first}\"end_us\":{end},\
                 \"outcome\":\"{outcome}\"}}]}}"
            );
        }
        let options = FolderOptions { started_unix_ms: 0, aiperf: false };
        let mut run =
            RunFolder::create(&folder.join(arm), options).expect("the test folder can be written");
        for row in rows.lines() {
            let row = serde_json::from_str(row).expect("rows are written above");
            run.push(&row).expect("the test folder can be written");
        }
        let plan = Some("one".to_owned());
        let about = About { label: arm.into(), tool: "test".into(), plan, ..About::default() };
        run.finish(&about).expect("the test folder can be written");
    }
    fs::write(folder.join("criteria.toml"), "refused_share_max = 0.02\n")
        .expect("the test folder can be written");
    folder
}

fn compare(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("compare").args(arguments.split_whitespace()).current_dir(folder);
    command.output().expect("the program was built for this test")
}

#[test]
fn the_last_arm_decides_the_exit_code() {
    let folder = scratch("exit");
    let code = |arguments: &str| compare(&folder, arguments).status.code();
    assert_eq!(code("calm shed --criteria criteria.toml"), Some(1));
    // 600 without a refusal are no proof of 2 %, where refusals come in bursts.
    assert_eq!(code("shed calm --criteria criteria.toml"), Some(3));
    fs::write(folder.join("mild.toml"), "refused_share_max = 0.5\n").unwrap();
    assert_eq!(code("calm shed --criteria mild.toml"), Some(0));
}

#[test]
fn what_is_printed_names_the_refused_and_what_is_written_is_json() {
    let folder = scratch("output");
    let arguments = "calm,block-2 shed,shed-2 --label old --label new --criteria criteria.toml";
    let told = compare(&folder, &format!("{arguments} --out told.json"));
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("undefined: 14.33 % refused"), "{text}");
    assert!(text.contains("NO-GO         new"), "{text}");
    let json: Value = serde_json::from_slice(&fs::read(folder.join("told.json")).unwrap()).unwrap();
    assert_eq!(json["arms"][1]["label"], "new");
    assert_eq!(json["arms"][1]["outcome"], "NO-GO");
    assert_eq!(json["differences"][0]["is_paired"], true);
    let again = compare(&folder, &format!("{arguments} --json"));
    assert_eq!(again.stdout, fs::read(folder.join("told.json")).unwrap());
}

#[test]
fn misuse_says_what_to_do() {
    let folder = scratch("misuse");
    for arguments in [
        "calm nothing",
        "calm calm",
        "calm,calm",
        "x=calm x=calm",
        "calm --label a --label b",
        ",",
        "calm --out shed/requests.jsonl",
    ] {
        let told = compare(&folder, arguments);
        let talk = String::from_utf8(told.stderr).unwrap();
        assert_eq!(told.status.code(), Some(2), "{arguments}: {talk}");
        assert!(talk.contains("hint: "), "{arguments}: {talk}");
    }
}

#[test]
fn rows_that_are_not_those_of_their_summary_are_told_with_both_figures() {
    let folder = scratch("rows");
    let file = folder.join("shed/requests.jsonl");
    let rows = fs::read_to_string(&file).unwrap();
    let kept: String = rows.split_inclusive('\n').filter(|row| !row.contains("refused")).collect();
    fs::write(&file, kept).unwrap();
    for command in [&["compare", "shed"][..], &["report", "shed", "--out", "report"]] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let told = program.args(command).current_dir(&folder).output().unwrap();
        let talk = String::from_utf8(told.stderr).unwrap();
        assert_eq!(told.status.code(), Some(2), "{talk}");
        assert!(talk.contains("is 600 in summary.json, and 514 in the rows"), "{talk}");
    }
    // Without its summary a run was killed, and nothing is judged by it.
    fs::write(&file, rows).unwrap();
    fs::remove_file(folder.join("shed/summary.json")).unwrap();
    let told = compare(&folder, "shed --criteria criteria.toml");
    assert_eq!(told.status.code(), Some(3));
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("the run was killed"), "{text}");
}

#[test]
fn a_report_takes_the_same_words_and_says_the_same_of_them() {
    let folder = scratch("report");
    let report = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let words = words.split_whitespace();
        command.arg("report").args(words).args(["--out", "report"]).current_dir(&folder);
        command.output().expect("the program was built for this test")
    };
    let criteria = "--criteria criteria.toml";
    for words in ["calm shed", "x=calm,block-2 y=shed,shed-2", "x=calm x=block-2 y=shed", "."] {
        let (compared, reported) = (
            compare(&folder, &format!("{words} {criteria}")),
            report(&format!("{words} {criteria}")),
        );
        let talk = String::from_utf8(reported.stderr).unwrap();
        assert_eq!(compared.status.code(), reported.status.code(), "{words}: {talk}");
        assert!(folder.join("report/index.html").is_file(), "{words}");
    }
    for words in
        ["nothing", "calm calm", "x=nothing", "calm --label a --label b", "x=calm --label y"]
    {
        let (compared, reported) = (compare(&folder, words), report(words));
        assert_eq!(reported.status.code(), Some(2), "{words}");
        assert_eq!(compared.stderr, reported.stderr, "{words}");
    }
    let unknown = report("calm shed --counted-by-server hold=3");
    let talk = String::from_utf8(unknown.stderr).unwrap();
    assert!(talk.contains("no arm is called hold\nhint: there are calm, shed"), "{talk}");
    let contradicted = report("calm shed --counted-by-server shed=3");
    assert_eq!(contradicted.status.code(), Some(3));
}

#[test]
fn the_summaries_of_the_evidence_tell_its_story() {
    let shared = std::env::var_os("FOREBAY_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let data = shared.join("data/aiperf-0.8");
    if !data.is_dir() {
        println!("skipped: there is no {}", data.display());
        return;
    }
    let folder = scratch("story");
    let criteria = folder.join("criteria.toml");
    let arm = |name: &str| (1..=3).map(|nth| format!("N2-{name}-{nth}.json")).collect::<Vec<_>>();
    let (off, on) = (arm("off").join(","), arm("on").join(","));
    let arguments =
        format!("{off} {on} --label round-robin --label kv --criteria {}", criteria.display());
    let told = compare(&data, &arguments);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(1), "{text}");
    for said in ["undefined: 14.3 % refused", "NO-GO         kv", "Survivorship: kv", "2571"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
