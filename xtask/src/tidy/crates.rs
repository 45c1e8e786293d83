//! Holds the crates to their lints, to one clippy.toml, and to the graph that ARCHITECTURE.md
//! draws.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::workspace::Source;

/// The page with the drawing: solid arrows (`-->`) between crates that exist, dotted ones (`-.->`)
/// to come.
const PAGE: &str = "ARCHITECTURE.md";

/// An edge: a crate, and one that it depends on.
type Edge = (String, String);

/// Checks the manifests of all crates.
pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    let text_of = |path: &str| {
        let source = sources.iter().find(|source| source.path == path);
        source.and_then(|source| source.text.as_deref()).unwrap_or_default()
    };
    let manifests: Vec<(&str, &str)> = sources
        .iter()
        .filter(|source| source.path == "xtask/Cargo.toml" || is_member(&source.path))
        .map(|source| (source.path.as_str(), source.text.as_deref().unwrap_or_default()))
        .collect();
    for (path, text) in &manifests {
        if !sections(text).contains(&("lints", "workspace", "true")) {
            let what = "the crate does not take the workspace's lints";
            findings.add(path, 1, what, "add `lints.workspace = true`");
        }
    }
    let shared = entries(text_of("clippy.toml"));
    for source in sources.iter().filter(|source| source.path.ends_with("/clippy.toml")) {
        let own = entries(source.text.as_deref().unwrap_or_default());
        for (key, value) in &shared {
            if own.get(key) != Some(value) {
                let what = format!("`{key}` is not as in the root's clippy.toml");
                findings.add(
                    &source.path,
                    1,
                    what,
                    "repeat it: clippy reads the nearest file only",
                );
            }
        }
    }
    check_graph(&manifests, text_of(PAGE), findings);
}

/// Checks that the crates depend on each other as they are drawn. Dependencies of tests are not
/// drawn.
fn check_graph(manifests: &[(&str, &str)], page: &str, findings: &mut Findings) {
    let crates: BTreeSet<&str> = manifests.iter().map(|(path, _)| folder_name(path)).collect();
    let mut real: BTreeSet<Edge> = BTreeSet::new();
    for (path, text) in manifests {
        for dependency in dependencies(text).into_iter().filter(|name| crates.contains(name)) {
            real.insert((folder_name(path).to_owned(), dependency.to_owned()));
        }
    }
    let drawn = drawn(page);
    for (from, to) in real.difference(&drawn) {
        let what = format!("{from} depends on {to}, which is not drawn");
        findings.add(PAGE, 1, what, "drop the dependency, or decide for it and draw `-->`");
    }
    for (from, to) in drawn.difference(&real) {
        let what = format!("{from} --> {to} is drawn, and no manifest says so");
        findings.add(PAGE, 1, what, "take it out, or draw `-.->` if it is to come");
    }
}

fn is_member(path: &str) -> bool {
    path.strip_prefix("crates/")
        .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        .is_some_and(|name| !name.contains('/'))
}

/// A crate's folder has its name.
fn folder_name(manifest: &str) -> &str {
    manifest.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default()
}

/// The solid arrows of all `mermaid` blocks of a page.
fn drawn(page: &str) -> BTreeSet<Edge> {
    // A node may carry a text: `core["forebay-core: decides"]`.
    let name = |node: &str| {
        let node = node.trim();
        node.split(['[', '(', ' ']).next().unwrap_or(node).to_owned()
    };
    page.split("```")
        .filter_map(|block| block.strip_prefix("mermaid\n"))
        .flat_map(str::lines)
        .filter_map(|line| line.split_once("-->"))
        .map(|(from, to)| (name(from), name(to)))
        .collect()
}

/// The names that a manifest depends on, those of its tests left out.
fn dependencies(manifest: &str) -> Vec<&str> {
    let tables = ["dependencies", "build-dependencies"];
    sections(manifest)
        .into_iter()
        .filter_map(|(section, key, _)| {
            let section = section.rsplit_once("'.").map_or(section, |(_, table)| table);
            let named = tables.iter().find_map(|table| {
                section.strip_prefix(table).and_then(|rest| rest.strip_prefix('.'))
            });
            named.or_else(|| tables.contains(&section).then_some(key))
        })
        .collect()
}

/// The entries of a manifest as (section, key, value). A dotted key counts by its first part where
/// it stands in a table of dependencies, and as a section of its own at the top: as much of TOML as
/// manifests here use.
fn sections(text: &str) -> Vec<(&str, &str, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = header;
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim(), value.trim());
            found.push(match key.split_once('.') {
                Some((first, second)) if section.is_empty() => (first, second, value),
                Some((first, _)) => (section, first, value),
                None => (section, key, value),
            });
        }
    }
    found
}

/// The top-level entries of a clippy.toml; an array over several lines is one value.
fn entries(text: &str) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let (key, value) = match open.take() {
            Some((key, value)) => (key, value + line),
            None => match line.split_once('=') {
                Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
                None => continue,
            },
        };
        if value.starts_with('[') && !value.ends_with(']') {
            open = Some((key, value));
        } else {
            entries.insert(key, value);
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::{found, source};
    use crate::workspace::Source;

    const LINTS: &str = "[lints]\nworkspace = true\n";
    const PAGE: &str =
        "# A\n\n```mermaid\ngraph TD\n  lab[\"lab: asks\"] --> core\n  gateway -.-> core\n```\n";

    fn workspace(lab: &str, page: &str) -> Vec<Source> {
        vec![
            source("crates/core/Cargo.toml", LINTS),
            source("crates/lab/Cargo.toml", &format!("{LINTS}{lab}")),
            source("ARCHITECTURE.md", page),
        ]
    }

    #[test]
    fn a_graph_as_drawn_is_right_however_the_dependency_is_written() {
        for lab in [
            "[dependencies]\ncore.workspace = true\nserde = \"1\"\n",
            "[dependencies]\ncore = { path = \"../core\" }\n",
            "[dependencies.core]\nworkspace = true\n",
            "[target.'cfg(unix)'.dependencies]\ncore.workspace = true\n",
        ] {
            assert_eq!(found(|it| check(&workspace(lab, PAGE), it)), [""; 0], "{lab}");
        }
    }

    #[test]
    fn an_edge_that_is_not_drawn_and_one_that_is_not_there_are_found() {
        let edge = "[dependencies]\ncore.workspace = true\n";
        let undrawn = found(|it| check(&workspace(edge, "# A\n"), it));
        assert_eq!(undrawn, ["1: lab depends on core, which is not drawn"]);
        let tests_only = "[dev-dependencies]\ncore.workspace = true\n";
        let absent = found(|it| check(&workspace(tests_only, PAGE), it));
        assert_eq!(absent, ["1: lab --> core is drawn, and no manifest says so"]);
    }

    #[test]
    fn a_crate_without_the_lints_of_the_workspace_is_found() {
        let with = source("crates/a/Cargo.toml", "lints.workspace = true\n");
        assert_eq!(found(|it| check(&[with], it)), [""; 0]);
        let without = source("crates/a/Cargo.toml", "[package]\nedition.workspace = true\n");
        let expected = ["1: the crate does not take the workspace's lints"];
        assert_eq!(found(|it| check(&[without], it)), expected);
    }

    #[test]
    fn a_crates_clippy_file_repeats_the_shared_entries() {
        let root = source("clippy.toml", "lines = 70\nwords = [\n  \"A\",\n]\n");
        let same =
            source("crates/a/clippy.toml", "# Why.\nwords = [\"A\",]\nlines = 70\nown = 1\n");
        assert_eq!(found(|it| check(&[root, same], it)), [""; 0]);
        let root = source("clippy.toml", "lines = 70\n");
        let other = source("crates/a/clippy.toml", "lines = 80\n");
        let expected = ["1: `lines` is not as in the root's clippy.toml"];
        assert_eq!(found(|it| check(&[root, other], it)), expected);
    }
}
