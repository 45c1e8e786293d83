//! Holds the demo to what a newcomer is shown in the first seconds.

use std::process::{Command, Output, Stdio};

fn demo(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("demo").args(args).stdin(Stdio::null()).output().expect("the program runs")
}

#[test]
fn two_seconds_of_a_demo_complete_requests_and_say_what_to_do_next() {
    let output = demo(&["--for", "2", "--speed", "20"]);
    let (said, told) = (String::from_utf8(output.stderr), String::from_utf8(output.stdout));
    let (said, told) = (said.expect("it is text"), told.expect("it is text"));
    assert!(output.status.success(), "{said}");
    let row = |what: &str| -> u64 {
        let line = told.lines().find_map(|line| line.trim().strip_prefix(what));
        let count = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        count.unwrap_or_else(|| panic!("no row {what}:\n{told}"))
    };
    assert!(row("completed") > 0, "{told}");
    assert!(!told.contains("failed"), "{told}");
    assert!(told.contains("docs/guides/in-front-of-vllm.md"), "{told}");
    for what in ["curl -N http://127.0.0.1:", "/metrics", "/admin/fleet", "Ctrl-C"] {
        assert!(said.contains(what), "{said}");
    }
    // Lines of the legend fit the usual terminal; those of a pipe have whole words.
    let legend = said.lines().take_while(|line| !line.contains("  offered "));
    assert!(legend.chain(told.lines()).all(|line| line.chars().count() < 80), "{said}{told}");
}

#[test]
fn a_load_above_capacity_is_refused_by_a_policy_that_is_named_and_can_be_left() {
    let told = |more: &[&str]| {
        let args = [&["--for", "4", "--speed", "20", "--load", "8"], more].concat();
        String::from_utf8(demo(&args).stdout).expect("it is text")
    };
    let shed = told(&[]);
    assert!(shed.contains("refused as `shed`") && shed.contains("--overload queue"), "{shed}");
    let queue = told(&["--overload", "queue"]);
    assert!(!queue.contains("refused as"), "{queue}");
}

#[test]
fn a_load_that_is_none_is_misuse() {
    for args in [["--load", "0"], ["--speed", "0"], ["--for", "-1"], ["--workers", "0"]] {
        let output = demo(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
