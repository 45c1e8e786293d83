//! Checks that the examples of the guides are read by the program's own readers.

use std::path::Path;

use forebay_lab::drill::criteria::Criteria;
use forebay_lab::engine::Preset;
use forebay_lab::report::SignOff;
use forebay_lab::scenario::Scenario;
use forebay_service::Service;

use crate::workspace::Workspace;

/// The TOML examples of a page, joined.
fn examples(page: &str) -> String {
    let text = Workspace::find().unwrap().read(page).unwrap();
    let blocks = text.split("```").filter_map(|block| block.strip_prefix("toml\n"));
    blocks.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_examples_of_the_page_on_overload_are_one_valid_service_file() {
    let page = "docs/concepts/overload.md";
    let service = Service::parse(Path::new(page), &examples(page), &Preset::faults_of).unwrap();
    assert_eq!(service.classes.len(), 3);
}

#[test]
fn the_criteria_of_the_drills_guide_are_valid() {
    let page = "docs/guides/drill.md";
    let criteria = Criteria::parse(Path::new(page), &examples(page)).unwrap();
    assert!(criteria.list().len() >= 4, "the example lost some of its criteria");
}

#[test]
fn the_example_of_the_scenarios_guide_is_valid() {
    let page = "docs/guides/scenarios.md";
    let scenario = Scenario::parse(Path::new(page), &examples(page)).unwrap();
    assert_eq!(scenario.seeds, [1, 2, 3]);
}

#[test]
fn the_example_of_a_sign_off_agrees_with_the_example_of_criteria() {
    let text = |page: &str| Workspace::find().unwrap().read(page).unwrap();
    let (sign_off, criteria) = ("docs/examples/sign-off.toml", "docs/examples/criteria.toml");
    let criteria = Criteria::parse(Path::new(criteria), &text(criteria)).unwrap();
    let sign_off = SignOff::parse(Path::new(sign_off), &text(sign_off)).unwrap();
    sign_off.check_against(&criteria).unwrap();
    let guide = "docs/guides/acceptance-test.md";
    Criteria::parse(Path::new(guide), &examples(guide)).unwrap();
}
