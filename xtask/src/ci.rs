//! Runs everything that must hold before a merge.

use std::process::ExitCode;
use std::time::Instant;

use crate::say::say;
use crate::workspace::Workspace;
use crate::{clients, docs, tidy};

/// Runs one step; the code says whether its claim holds, an error that it could not be checked.
type Step = fn(&Workspace) -> anyhow::Result<ExitCode>;

/// The steps, quickest first, so that a small fault shows soon. The tests come last: their output
/// is what a reader of the log wants to find at its end.
const STEPS: [(&str, Step); 7] = [
    ("fmt", |workspace| cargo(workspace, &["fmt", "--all", "--check"])),
    ("tidy", tidy::run),
    ("clippy", |workspace| {
        let lint = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        cargo(workspace, &lint)
    }),
    ("docs", docs::check),
    ("otel", otel),
    ("tokenizer", tokenizer),
    ("test", test),
];

/// Runs the steps in order and stops at the first that does not hold.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    for (name, step) in STEPS {
        say(&format!("== {name}"));
        let begun = Instant::now();
        let code = step(workspace)?;
        let secs = begun.elapsed().as_secs_f64();
        if code != ExitCode::SUCCESS {
            say(&format!("== {name}: FAILED after {secs:.1} s"));
            return Ok(code);
        }
        say(&format!("== {name}: holds, {secs:.1} s"));
    }
    say(&format!("== ci: all {} steps hold, {:.1} s", STEPS.len(), start.elapsed().as_secs_f64()));
    Ok(ExitCode::SUCCESS)
}

/// A feature that is off by default: its lints, and the tests that only it has. It brings no
/// crates, so that only the gateway is built once more.
fn otel(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let with = ["-p", "forebay-gateway", "--features", "otel"];
    let lint = [&["clippy"][..], &with, &["--all-targets", "--", "-D", "warnings"]].concat();
    let linted = cargo(workspace, &lint)?;
    if linted != ExitCode::SUCCESS {
        return Ok(linted);
    }
    let tests = ["--lib", "--test", "gateway", "--", "otel", "traces"];
    cargo(workspace, &[&["test"][..], &with, &tests].concat())
}

/// The other feature that is off by default, in the same way. Its crates are built for it only, and
/// once.
fn tokenizer(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let with = ["-p", "forebay-lab", "--lib", "--features", "tokenizer"];
    let lint = [&["clippy"][..], &with, &["--tests", "--", "-D", "warnings"]].concat();
    let linted = cargo(workspace, &lint)?;
    if linted != ExitCode::SUCCESS {
        return Ok(linted);
    }
    cargo(workspace, &[&["test"][..], &with, &["--", "load::tokenizer"]].concat())
}

/// The tests, with a Python for those that need the official client.
fn test(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let mut command = workspace.cargo(&["test", "--workspace"]);
    if let Some(python) = clients::python(workspace) {
        command.env(clients::VARIABLE, python);
    }
    let status = command.status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cargo(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let status = workspace.cargo(words).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
