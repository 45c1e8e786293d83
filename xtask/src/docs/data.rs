//! Writes the references of what ships as data: the files themselves say it best.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context;

use super::NOTE;
use crate::workspace::Workspace;

const PRESETS: &str = "\
A preset is what an engine's speed and memory are made of: times of a step, and tokens of KV
memory. Each says where its numbers come from and how far they are from what was measured. Copy the
nearest one for a preset of your own, and name it by its path.";

const SYNTH: &str = "\
A description makes a synthetic trace: kinds of prompts with what they share, sessions, bursts. Copy
the nearest one for a description of your own, and name it by its path.";

const SCENARIOS: &str = "\
A claim in one sentence each, run by the tests. [How to write one](../guides/scenarios.md).";

/// The reference of engine presets.
pub(super) fn presets(workspace: &Workspace) -> anyhow::Result<String> {
    page(workspace, "Engine presets", PRESETS, "crates/forebay-lab/presets")
}

/// The reference of synthetic traces.
pub(super) fn synth(workspace: &Workspace) -> anyhow::Result<String> {
    page(workspace, "Synthetic traces", SYNTH, "crates/forebay-lab/synth")
}

/// The claims of the scenarios that ship.
pub(super) fn scenarios(workspace: &Workspace) -> anyhow::Result<String> {
    let folder = "scenarios";
    let mut page = format!("# Scenarios\n\n{NOTE}\n\n{SCENARIOS}\n\n| file | claim |\n|---|---|\n");
    for name in toml_files(workspace, folder)? {
        let text = workspace.read(&format!("{folder}/{name}"))?;
        let claim = claim(&text).with_context(|| format!("{folder}/{name} has no claim"))?;
        writeln!(page, "| [{name}](../../{folder}/{name}) | {claim} |")?;
    }
    Ok(page)
}

/// What a scenario claims: the text of its first key.
fn claim(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("claim = \"")?.strip_suffix('"'))
}

/// The names of the TOML files of a folder, in order.
fn toml_files(workspace: &Workspace, folder: &str) -> anyhow::Result<Vec<String>> {
    let listed = fs::read_dir(workspace.path(folder)).with_context(|| format!("no {folder}"))?;
    let mut names = listed
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>, _>>()?;
    names.retain(|name| name.strip_suffix(".toml").is_some());
    names.sort();
    Ok(names)
}

/// A section for each file of a folder, in the order of their names.
fn page(workspace: &Workspace, title: &str, about: &str, folder: &str) -> anyhow::Result<String> {
    let mut page = format!("# {title}\n\n{NOTE}\n\n{about}\n");
    for name in toml_files(workspace, folder)? {
        let stem = name.trim_end_matches(".toml");
        let text = workspace.read(&format!("{folder}/{name}"))?;
        write!(page, "\n## `{}`\n\n```toml\n{}\n```\n", shown(stem), text.trim_end())?;
    }
    Ok(page)
}

/// The name that a file's data goes by: two dashes stand for a `/`, which no file name can have.
fn shown(stem: &str) -> String {
    stem.replace("--", "/")
}

#[cfg(test)]
mod tests {
    use super::{claim, shown};

    #[test]
    fn a_claim_is_the_text_of_its_key() {
        assert_eq!(claim("# Why.\nclaim = \"It holds.\"\nseeds = [1]\n"), Some("It holds."));
        assert_eq!(claim("seeds = [1]\n"), None);
    }

    #[test]
    fn two_dashes_of_a_file_name_are_a_slash() {
        assert_eq!(shown("a100-40gb--qwen3-8b"), "a100-40gb/qwen3-8b");
        assert_eq!(shown("evidence"), "evidence");
    }
}
