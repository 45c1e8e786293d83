//! Holds the folder of a run to what it promises.

use std::fs;
use std::path::Path;

use super::super::{FolderOptions, ROWS_FILE, ROWS_MAX, Row, RunFolder, SUMMARY_FILE};
use super::{about, names, refused, row, scratch, served};

const OPTIONS: FolderOptions = FolderOptions { started_unix_ms: 1_700_000_000_000, aiperf: false };

fn written(folder: &Path, rows: &[Row]) {
    let mut run = RunFolder::create(folder, OPTIONS).unwrap();
    rows.iter().for_each(|row| run.push(row).unwrap());
    run.finish(&about()).unwrap();
}

#[test]
fn a_run_appears_whole_and_its_rows_read_back() {
    let root = scratch("appears");
    let folder = root.join("deep/hold");
    let rows = [served(1, 0, 40), refused(0, 0, 2), row(2, 9)];
    let mut run = RunFolder::create(&folder, OPTIONS).unwrap();
    rows.iter().for_each(|row| run.push(row).unwrap());
    assert!(!folder.exists());
    run.finish(&about()).unwrap();
    assert_eq!(names(&folder), [ROWS_FILE, SUMMARY_FILE]);
    assert_eq!(names(&root.join("deep")), ["hold"]);
    let text = fs::read_to_string(folder.join(ROWS_FILE)).unwrap();
    let read: Vec<Row> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, rows);
}

#[test]
fn an_older_run_stays_until_the_new_one_is_finished() {
    let root = scratch("older");
    let folder = root.join("hold");
    written(&folder, &[row(0, 0)]);
    let mut run = RunFolder::create(&folder, OPTIONS).unwrap();
    run.push(&row(0, 0)).unwrap();
    run.push(&row(1, 0)).unwrap();
    let lines = || fs::read_to_string(folder.join(ROWS_FILE)).unwrap().lines().count();
    assert_eq!(lines(), 1);
    run.finish(&about()).unwrap();
    assert_eq!((lines(), names(&root)), (2, vec!["hold".to_owned()]));
}

#[test]
fn what_is_no_run_is_never_replaced() {
    let root = scratch("foreign");
    let told = |folder: &Path| {
        let told = RunFolder::check(folder).unwrap_err().to_string();
        let error = RunFolder::create(folder, OPTIONS).err().map(|error| error.to_string());
        assert_eq!(error.as_ref(), Some(&told));
        told
    };
    fs::write(root.join("thesis.tex"), "years of work").unwrap();
    assert!(told(&root).contains("holds thesis.tex, which no run writes\nhint: name a new folder"));
    assert!(told(&root.join("thesis.tex")).contains("is no folder"));
    let other = root.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(SUMMARY_FILE), r#"{"schema": "another/1"}"#).unwrap();
    assert!(told(&other).contains("is no run of forebay"));
    // A run to which somebody added a file.
    let noted = root.join("noted");
    written(&noted, &[row(0, 0)]);
    fs::write(noted.join("notes.md"), "what we saw").unwrap();
    assert!(told(&noted).contains("holds notes.md"));
    assert_eq!(names(&root), ["noted", "other", "thesis.tex"]);
}

#[test]
fn what_came_in_the_way_during_the_run_is_not_replaced_and_the_rows_stay() {
    let root = scratch("meanwhile");
    let folder = root.join("hold");
    let mut run = RunFolder::create(&folder, OPTIONS).unwrap();
    run.push(&row(0, 0)).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("thesis.tex"), "years of work").unwrap();
    assert!(run.finish(&about()).unwrap_err().to_string().contains("thesis.tex"));
    assert_eq!(names(&folder), ["thesis.tex"]);
    assert_eq!(names(&root).len(), 2);
}

#[test]
fn a_run_that_was_given_up_leaves_its_rows_and_an_empty_one_leaves_nothing() {
    let root = scratch("given-up");
    drop(RunFolder::create(&root.join("empty"), OPTIONS).unwrap());
    RunFolder::check(&root.join("new/deeper/run")).unwrap();
    assert!(names(&root).is_empty(), "{:?}", names(&root));
    let mut run = RunFolder::create(&root.join("hold"), OPTIONS).unwrap();
    run.push(&row(0, 0)).unwrap();
    drop(run);
    let left = format!("hold.{}.part", std::process::id());
    assert_eq!(names(&root), [left.as_str()]);
    assert_eq!(names(&root.join(left)), [ROWS_FILE]);
}

#[test]
fn a_place_without_a_name_is_refused_with_a_remedy() {
    let told = RunFolder::check(Path::new("/")).unwrap_err().to_string();
    assert!(told.contains("\nhint: name a new folder"), "{told}");
}

#[test]
fn a_place_beyond_any_plan_is_written_and_breaks_conservation() {
    let folder = scratch("beyond").join("hold");
    let mut run = RunFolder::create(&folder, OPTIONS).unwrap();
    run.push(&row(u64::MAX, 0)).unwrap();
    run.push(&row(ROWS_MAX, 0)).unwrap();
    let summary = run.finish(&about()).unwrap();
    assert!(!summary.conservation.holds);
    assert!(!summary.about.is_valid());
}
