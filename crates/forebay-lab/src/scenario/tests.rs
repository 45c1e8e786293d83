//! Checks what scenario files may say, and what their verdicts say back.

use std::path::Path;

use super::Scenario;

/// A scenario that runs in a blink.
const SMALL: &str = r#"claim = "A small load is served."
seeds = 4
drain_s_max = 60
[[stream]]
requests = 20
per_s = 2
prompt = [100, 300]
output = [5, 20]
[fleet]
workers = 2
"#;

fn parsed(more: &str) -> Scenario {
    Scenario::parse(Path::new("small.toml"), &format!("{SMALL}{more}")).unwrap()
}

#[track_caller]
fn faults(text: &str) -> Vec<(usize, String)> {
    let faults = Scenario::parse(Path::new("s.toml"), text).unwrap_err();
    faults.faults.into_iter().map(|fault| (fault.line, fault.what)).collect()
}

#[track_caller]
fn check_fault(more: &str, line_after: usize, what: &str) {
    let line = SMALL.lines().count() + line_after;
    let found = faults(&format!("{SMALL}{more}"));
    assert!(found.contains(&(line, what.to_owned())), "no fault at {line}: {found:?}");
}

#[test]
fn a_claim_that_holds_gives_one_line_with_its_figures() {
    let scenario = parsed("[[expect]]\nfigure = \"completed_share\"\nat_least = 1\n");
    let verdict = scenario.run(4, 1.0).unwrap();
    assert!(verdict.holds(), "{verdict}");
    assert_eq!(
        verdict.to_string(),
        "held    small, load 1 × the file's, seed 4: completed_share 1"
    );
}

#[test]
fn a_broken_claim_names_the_figure_and_the_command_that_repeats_it() {
    let scenario = parsed("[[expect]]\nfigure = \"refused\"\nat_least = 3\n");
    let verdict = scenario.run(4, 1.0).unwrap();
    assert!(!verdict.holds());
    let text = verdict.to_string();
    let first = "BROKEN  small, load 1 × the file's, seed 4: refused is 0, below 3\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("claim: A small load is served."), "{text}");
    assert!(text.ends_with("repeat: forebay scenario run small.toml --seed 4 --load 1"), "{text}");
}

#[test]
fn what_was_run_is_said_in_words_that_the_file_could_use() {
    let more = "[[event]]\nat_s = 1\nwhat = \"lost\"\nworker = 1\n\
                [[event]]\nat_s = 2\nwhat = \"back\"\n\
                [clients]\npatience_s = 5\n\
                [[expect]]\nfigure = \"refused\"\nat_least = 30\n";
    let text = parsed(more).run(4, 1.0).unwrap().to_string();
    for words in [
        "knowledge events,",
        "tokens, nothing shared, answers",
        "event: at 1.000 s, worker 1 lost\n",
        "event: at 2.000 s, all workers back\n",
        "patience 5.000 s\n",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
}

#[test]
fn the_same_scenario_and_seed_give_the_same_verdict() {
    let expect = "[[expect]]\nfigure = \"ttft_ms.mean\"\nagainst = \"random\"\nat_most = 9\n";
    let scenario = parsed(expect);
    let one = scenario.run(4, 2.0).unwrap();
    assert_eq!(one, scenario.run(4, 2.0).unwrap());
    assert_ne!(one, scenario.run(5, 2.0).unwrap());
}

#[test]
fn a_run_that_drains_too_late_is_broken_whatever_it_expects() {
    let text = SMALL.replace("drain_s_max = 60", "drain_s_max = 0.001");
    let text = format!("{text}[[expect]]\nfigure = \"refused\"\nat_most = 0\n");
    let scenario = Scenario::parse(Path::new("small.toml"), &text).unwrap();
    let verdict = scenario.run(4, 1.0).unwrap().to_string();
    assert!(verdict.contains("to drain, above 0.001 s"), "{verdict}");
}

#[test]
fn requests_that_nothing_can_end_are_no_life() {
    let more = "[[event]]\nat_s = 1\nwhat = \"lost\"\n\
                [[expect]]\nfigure = \"offered\"\nat_least = 1\n";
    let verdict = parsed(more).run(4, 1.0).unwrap().to_string();
    assert!(verdict.contains("requests were still there when nothing could end them"), "{verdict}");
}

#[test]
fn all_faults_come_at_once_each_with_its_line() {
    let found = faults(
        "seeds = -1\nrate = 3\n[[stream]]\nprompt = [9, 3]\nclass = \"gold\"\n\
         [fleet]\nmode = \"magic\"\nengine = \"none\"\n\
         [[event]]\nwhat = \"lost\"\nworker = 7\n[[expect]]\nfigure = \"ttft.p50\"\n",
    );
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    for line in [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13] {
        assert!(lines.contains(&line), "no fault on line {line}: {found:?}");
    }
}

#[test]
fn a_figure_that_is_almost_right_is_suggested() {
    let text = format!("{SMALL}[[expect]]\nfigure = \"tftt_ms.p99\"\nat_most = 1\n");
    let faults = Scenario::parse(Path::new("s.toml"), &text).unwrap_err().to_string();
    assert!(faults.contains("did you mean `ttft_ms.p99`?"), "{faults}");
}

#[test]
fn contradictions_are_faults() {
    check_fault("[[stream]]\nrequests = 1\nload = 1\nper_s = 1\n", 4, BOTH_RATES);
    let both = "[clients]\npatience_s = 1\npatience_s_mean = 1\n";
    check_fault(both, 3, "clients have both a `patience_s` and a `patience_s_mean`");
    let long = "[[stream]]\nrequests = 1\nprompt = 64\noutput = 1\nprefix_tokens = 64\n";
    check_fault(long, 1, "a prefix of 64 tokens fills its shortest prompt");
    check_fault("[[arm]]\nname = \"a\"\nworkers = 3\n", 3, "an arm of 3 workers");
    let unknown = "[[expect]]\nfigure = \"refused\"\nat_most = 0\nagainst = \"nobody\"\n";
    check_fault(unknown, 4, "there is no arm `nobody`");
    check_fault("[[expect]]\nfigure = \"refused\"\n", 1, "an expectation has no limit");
}

const BOTH_RATES: &str = "a stream has both a `load` and a `per_s`";

#[test]
fn every_figure_has_a_name_that_finds_it() {
    for name in super::expect::Figure::names() {
        let figure = super::expect::Figure::named(&name).unwrap();
        assert_eq!(figure.name(), name);
    }
}
