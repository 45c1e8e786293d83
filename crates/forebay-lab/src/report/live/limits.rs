//! Says what these results do not show, as far as they themselves tell.

use std::collections::BTreeSet;

use super::Live;
use crate::drill::notation::listed;
use crate::results::About;

/// A sentence for each limit, those of these inputs first.
pub(super) fn sentences(live: &Live<'_>) -> Vec<String> {
    let mut all = live.notes.to_vec();
    all.extend(live.comparison.notes.iter().cloned());
    of_runs(live, &mut all);
    all.push(
        "Other traffic than this: the load is the one that is named above. Longer prompts, other \
         hours, more tenants or another mix of classes are other experiments."
            .to_owned(),
    );
    all.push(
        "Whether the answers were right: no answer was read, only timed and counted.".to_owned(),
    );
    all.push(
        "What users do when they are refused: programs retry as the clients here did, and people \
         go away."
            .to_owned(),
    );
    all
}

/// What runs say and the notes of the comparison do not.
fn of_runs(live: &Live<'_>, all: &mut Vec<String>) {
    let mut say = |is_so: &dyn Fn(&About) -> bool, what: &str| {
        let arms = live
            .arms
            .iter()
            .filter(|arm| arm.runs.iter().any(|block| is_so(block.results.about())));
        let labels: Vec<&str> = arms.map(|arm| arm.label.as_str()).collect();
        if !labels.is_empty() {
            all.push(format!("{}: {what}", listed(&labels)));
        }
    };
    say(
        &|about| about.was_interrupted,
        "a run was stopped before its plan was done; what was not over by then counts nowhere.",
    );
    say(
        &|about| about.generator.is_none(),
        "the tool that measured does not say how late it was itself; its lateness may be taken for \
         the target's.",
    );
    say(
        &|about| about.targets.iter().any(|target| is_local(target)),
        "the target ran on the machine that measured: no network lies between, and both share its \
         processors.",
    );
    say(
        &|about| about.targets.iter().chain([&about.model]).any(|it| it.contains("simulated")),
        "the engines are simulated: they rank policies, and promise nothing about real ones.",
    );
    let targets: BTreeSet<&String> = live
        .arms
        .iter()
        .flat_map(|arm| arm.runs.iter().flat_map(|block| &block.results.about().targets))
        .collect();
    if targets.len() == 1 {
        all.push(
            "One target at one place was measured: other regions and other days may differ."
                .to_owned(),
        );
    }
}

/// Whether a target is the machine itself.
fn is_local(target: &str) -> bool {
    ["//127.", "//localhost", "//[::1]"].iter().any(|host| target.contains(host))
}
