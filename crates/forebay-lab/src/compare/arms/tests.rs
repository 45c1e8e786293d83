//! Holds the words that name arms to what they mean.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Given, ServerCount};
use crate::results::{About, FolderOptions, Row, RunFolder};
use crate::results::{Attempt, Invalid, Outcome};
use forebay_core::Span;

/// An empty folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("forebay-{}-arms-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

fn run(folder: &Path, label: &str, invalid: bool) {
    let options = FolderOptions { started_unix_ms: 0, aiperf: false };
    let mut run = RunFolder::create(folder, options).unwrap();
    for request in 0..4 {
        let due = Span::millis(request * 10);
        let attempt = Attempt {
            first_token: Some(due + Span::millis(5)),
            end: due + Span::millis(9),
            outcome: Outcome::Completed,
            ..Attempt::new(due, 0)
        };
        let row = Row::new(request, due, Outcome::Completed);
        run.push(&Row { attempts: vec![attempt], ..row }).unwrap();
    }
    let late = Invalid { reason: "lag".to_owned(), what: "late".to_owned() };
    let invalid = if invalid { vec![late] } else { Vec::new() };
    run.finish(&About { label: label.to_owned(), invalid, ..About::default() }).unwrap();
}

/// A block of a drill, with what its server counted beside it.
fn block(arm: &Path, nth: u32, counted: (u64, u64)) {
    let name = arm.file_name().unwrap().to_str().unwrap();
    run(&arm.join(format!("block-{nth:02}")), name, nth == 9);
    let (server, clients) = counted;
    let seen = format!("{{\"refused_by_clients\":{clients},\"refused_by_server\":{server}}}");
    fs::write(arm.join(format!("block-{nth:02}.servers.json")), seen).unwrap();
}

fn drill(name: &str, cells: &[&str]) -> PathBuf {
    let root = scratch(name);
    for cell in cells {
        for nth in 1..=2 {
            block(&root.join(cell).join("zebra"), nth, (3, 3));
            block(&root.join(cell).join("ant"), nth, (0, 0));
        }
    }
    // The last one is under test, and it is not the last by its name.
    fs::write(root.join("drill.toml"), "[[arm]]\nname = \"zebra\"\n[[arm]]\nname = \"ant\"\n")
        .unwrap();
    fs::create_dir(root.join("logs")).unwrap();
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| format!("{{\"cell\":\"{cell}\",\"comparison\":{{\"confidence\":0.98}}}}"))
        .collect();
    fs::write(root.join("comparison.json"), format!("[{}]", cells.join(","))).unwrap();
    root
}

fn given(words: &[String]) -> Given {
    Given::read(words, &[]).unwrap()
}

fn told(words: &[String], labels: &[&str]) -> String {
    let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    let said = Given::read(words, &labels).unwrap_err().to_string();
    assert!(said.contains("\nhint: "), "{said}");
    said
}

fn names(given: &Given) -> Vec<(&str, usize)> {
    given.arms.iter().map(|arm| (arm.label.as_str(), arm.runs.len())).collect()
}

#[test]
fn an_arm_is_named_by_its_word_or_its_run_or_its_path() {
    let root = scratch("names");
    run(&root.join("one"), "calm", false);
    run(&root.join("load1.19"), "", false);
    let path = |name: &str| root.join(name).display().to_string();
    let words = [path("one"), path("load1.19"), format!("x={}", path("one"))];
    assert_eq!(names(&given(&words)), [("calm", 1), ("load1.19", 1), ("x", 1)]);
    let labels = ["old".to_owned()];
    assert_eq!(names(&Given::read(&words[..1], &labels).unwrap()), [("old", 1)]);
    assert!(told(&[format!("x={}", path("one"))], &["y"]).contains("is named twice, x and y"));
    assert!(told(&[format!("x={}", path("none"))], &[]).starts_with(&path("none")));
}

#[test]
fn one_name_given_twice_is_one_arm_as_commas_are() {
    let root = scratch("merged");
    run(&root.join("one"), "calm", false);
    run(&root.join("two, too"), "calm", false);
    let (one, two) = (root.join("one"), root.join("two, too"));
    let words = [format!("x={}", one.display()), format!("x={}", two.display())];
    let merged = given(&words);
    assert_eq!(names(&merged), [("x", 2)]);
    assert_eq!(merged.files.len(), 4);
    let commas = given(&[format!("{0},{0}", one.display()), format!("x={0},{0}", one.display())]);
    assert_eq!(names(&commas), [("calm", 2), ("x", 2)]);
}

#[test]
fn blocks_are_read_by_number_and_what_lies_beside_them_is_no_block() {
    let root = scratch("blocks");
    for nth in [10, 2, 1] {
        block(&root, nth, (1, 1));
    }
    fs::create_dir(root.join("block-11.77.part")).unwrap();
    let given = given(&[root.display().to_string()]);
    let ends: Vec<&str> =
        given.arms[0].runs.iter().map(|run| &run.from[run.from.len() - 8..]).collect();
    assert_eq!(ends, ["block-01", "block-02", "block-10"]);
    let count = given.counted.values().next().unwrap();
    assert_eq!(*count, ServerCount { refused: 3, agrees: Some(true) });
}

#[test]
fn a_cell_of_a_drill_is_all_of_its_arms_in_the_order_of_its_file() {
    let root = drill("cell", &["n2-load1", "n2-load1.19"]);
    let cell = given(&[root.join("n2-load1.19").display().to_string()]);
    assert_eq!(names(&cell), [("zebra", 2), ("ant", 2)]);
    assert_eq!(cell.confidence, Some(0.98));
    assert_eq!(Some(cell.options(7, 300).confidence), cell.confidence);
    assert_eq!(cell.counted["zebra"], ServerCount { refused: 6, agrees: Some(true) });
    assert!(cell.files.iter().any(|file| file.ends_with("block-02.servers.json")));
    // The drill itself has two cells, so one has to be named.
    let said = told(&[root.display().to_string()], &[]);
    assert!(said.contains("is a drill of 2 cells") && said.contains("n2-load1.19"), "{said}");
    assert!(told(&[root.join("n2-load1").display().to_string()], &["x"]).contains("zebra and ant"));
}

#[test]
fn a_drill_of_one_point_is_that_point_and_servers_that_contradict_are_told() {
    let root = drill("only", &["n1-load2"]);
    block(&root.join("n1-load2/ant"), 2, (5, 4));
    let only = given(&[root.display().to_string()]);
    assert_eq!(names(&only), [("zebra", 2), ("ant", 2)]);
    assert_eq!(only.counted["ant"], ServerCount { refused: 5, agrees: Some(false) });
}

#[test]
fn a_run_that_may_not_be_used_is_not_counted_by_its_server_either() {
    let root = scratch("invalid");
    block(&root, 1, (2, 2));
    block(&root, 9, (40, 40));
    let given = given(&[root.display().to_string()]);
    assert_eq!(given.arms[0].runs.len(), 2);
    assert_eq!(given.counted.values().next().unwrap().refused, 2);
}

#[test]
fn a_drill_that_was_stopped_counts_complete_rounds_only() {
    let root = drill("stopped", &["n2-load1"]);
    block(&root.join("n2-load1/zebra"), 3, (0, 0));
    fs::remove_file(root.join("comparison.json")).unwrap();
    let read = given(&[root.display().to_string()]);
    assert_eq!((names(&read), read.confidence), (vec![("zebra", 2), ("ant", 2)], None));
    assert!(read.notes[0].contains("only the 2 complete rounds"), "{:?}", read.notes);
    fs::remove_dir_all(root.join("n2-load1/ant")).unwrap();
    assert!(told(&[root.display().to_string()], &[]).contains("ant never ran"));
}

#[test]
fn arms_of_which_nobody_says_which_is_under_test_are_named_one_by_one() {
    let root = drill("orderless", &["n2-load1"]);
    fs::remove_file(root.join("drill.toml")).unwrap();
    let said = told(&[root.join("n2-load1").display().to_string()], &[]);
    assert!(said.contains("no drill.toml above it names ant"), "{said}");
    assert!(told(&[scratch("empty").display().to_string()], &[]).contains("holds no results"));
}
