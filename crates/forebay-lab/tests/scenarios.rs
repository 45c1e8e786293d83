//! Runs every scenario that ships, over all of its loads and seeds.

use std::path::{Path, PathBuf};

use forebay_lab::scenario::Scenario;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Runs one file and says everything that broke.
#[track_caller]
fn check(name: &str) {
    let scenario = Scenario::load(&folder().join(name).with_extension("toml")).expect("no faults");
    let mut broken = Vec::new();
    for load in &scenario.loads {
        for seed in &scenario.seeds {
            let verdict = scenario.run(*seed, *load).expect("it can be run");
            if !verdict.holds() {
                broken.push(verdict.to_string());
            }
        }
    }
    assert!(broken.is_empty(), "{}\n{}", scenario.claim, broken.join("\n"));
}

/// A test for each file, so that they run side by side, and the list of them.
macro_rules! scenarios {
    ($($test:ident = $file:literal),+ $(,)?) => {
        const ALL: &[&str] = &[$($file),+];
        $(#[test]
        fn $test() {
            check($file);
        })+
    };
}

scenarios! {
    all_workers_may_go_and_come_back = "all-workers-gone",
    capacity_may_be_learned_late = "capacity-learned-late",
    a_flooding_tenant_hardly_slows_another = "flooding-tenant",
    a_hot_prefix_is_used_and_drowns_nobody = "hot-prefix",
    clients_that_give_up_leave_nothing_behind = "impatient-clients",
    a_prompt_that_nearly_fills_a_worker_gets_its_turn = "long-prompt",
    clients_that_come_back_when_told_are_served = "retry-storm",
    saturation_refuses_nobody = "saturation",
    a_slow_worker_gets_less = "slow-worker",
    a_worker_may_die_and_come_back = "worker-lost-and-back",
}

#[test]
fn every_file_in_the_folder_is_run() {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|file| file.extension().is_some_and(|ending| ending == "toml"))
        .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ALL);
}
