//! Installs the official Python client, for the tests that let it talk.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::say::say;
use crate::workspace::Workspace;

/// The client's version: one that is known to work, so that a failure is ours.
const VERSION: &str = "3.57.0";
/// What the tests read the Python's path from.
pub(crate) const VARIABLE: &str = "FOREBAY_PYTHON";

/// A Python that has the client: the one that is named already, or one in an environment below the
/// target folder. None where it can't be had, which is said: the tests then say what they skip.
pub(crate) fn python(workspace: &Workspace) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Some(named.into());
    }
    let made = make(workspace);
    if let Err(error) = &made {
        say(&format!("note: no official Python client: {error:#}"));
    }
    made.ok()
}

fn make(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = workspace.target().join("clients");
    let python = folder.join("bin").join("python");
    if has_client(&python) {
        return Ok(python);
    }
    let mut environment = Command::new("python3");
    quiet(environment.args(["-m", "venv"]).arg(&folder))?;
    let wanted = format!("openai=={VERSION}");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted];
    quiet(Command::new(&python).args(install))?;
    ensure!(has_client(&python), "it was installed and can't be imported");
    Ok(python)
}

fn has_client(python: &PathBuf) -> bool {
    let look = format!("import openai, sys; sys.exit(openai.__version__ != '{VERSION}')");
    let mut command = Command::new(python);
    command.args(["-c", &look]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a command; what it says is shown where it fails.
fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{command:?}: {}: {last}", output.status);
    Ok(())
}
