//! Writes the reference of commands from what the program says of itself.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::NOTE;
use crate::workspace::Workspace;

/// One section for each command, in the order of the program's own help.
pub(super) fn page(workspace: &Workspace) -> anyhow::Result<String> {
    // Built as `cargo test --workspace` builds it: alone, it would get its dependencies with other
    // features, and a fresh clone would compile most of them twice.
    Workspace::must(workspace.cargo(&["build", "--quiet", "--workspace", "--bins", "--tests"]))?;
    let mut page = format!("# The command line\n\n{NOTE}\n");
    let mut left = vec![Vec::new()];
    while let Some(words) = left.pop() {
        let help = help_of(workspace, &words)?;
        let name = format!("forebay {}", words.join(" "));
        write!(page, "\n## `{}`\n\n```text\n{}\n```\n", name.trim_end(), help.trim_end())?;
        let deeper = subcommands(&help).into_iter().rev();
        left.extend(deeper.map(|word| [words.clone(), vec![word.to_owned()]].concat()));
    }
    Ok(page)
}

/// What `forebay WORDS --help` prints, at a width of its own whatever terminal this runs in.
fn help_of(workspace: &Workspace, words: &[String]) -> anyhow::Result<String> {
    let program = workspace.target().join("debug").join("forebay");
    let output = Command::new(&program)
        .args(words)
        .arg("--help")
        .env("COLUMNS", "90")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(output.status.success(), "forebay {} --help: {}", words.join(" "), output.status);
    let help = String::from_utf8(output.stdout).context("the help is not UTF-8")?;
    // clap ends a line that has nothing to say with spaces.
    Ok(help.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
}

/// The names below `Commands:` in a help text.
fn subcommands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        // A name is indented by two; what is indented further goes on with the line above.
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::subcommands;

    #[test]
    fn the_commands_of_a_help_text_are_found_without_their_wrapped_lines() {
        let help =
            "Commands:\n  drill  Compares\n         arms\n  trace\n  help   Prints\n\nOptions:\n";
        assert_eq!(subcommands(help), ["drill", "trace"]);
        assert_eq!(subcommands("Does.\n\nOptions:\n  -h\n"), [""; 0]);
    }
}
