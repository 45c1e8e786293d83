//! Runs the release binary, and keeps what it printed for the claims that ask again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::run::Run;
use crate::workspace::Workspace;

/// Between two looks at how much memory a run takes: short against the last of what a run does.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The folder of the traces, from the workspace's root, where `FOREBAY_SHARED` names no other.
const SHARED: &str = "../shared";

/// The release binaries and the traces they read.
pub(super) struct Lab<'a> {
    workspace: &'a Workspace,
    printed: RefCell<BTreeMap<String, String>>,
}

/// What a run took.
pub(super) struct Cost {
    /// From its start to its end.
    pub(super) wall: Duration,
    /// The most memory it held, in bytes; `None` where the system does not tell.
    pub(super) peak: Option<f64>,
}

impl<'a> Lab<'a> {
    /// Builds the release binary.
    pub(super) fn build(workspace: &'a Workspace) -> anyhow::Result<Self> {
        Workspace::must(workspace.cargo(&["build", "--release", "--package", "forebay"]))?;
        Ok(Self { workspace, printed: RefCell::default() })
    }

    /// How to name a file of the shared folder to the program, from the workspace's root. Words are
    /// split at spaces, so the folder's path may hold none.
    pub(super) fn shared(name: &str) -> String {
        let folder = std::env::var("FOREBAY_SHARED").unwrap_or_else(|_| SHARED.to_owned());
        format!("{folder}/data/{name}")
    }

    /// How to show it: no path of this machine.
    pub(super) fn shown(name: &str) -> String {
        format!("{SHARED}/data/{name}")
    }

    /// Whether a file is there, as it is named to the program.
    pub(super) fn has(&self, name: &str) -> bool {
        self.workspace.path(name).is_file()
    }

    /// Where a claim may write a file: a name for the program, and the full path.
    pub(super) fn scratch(&self, name: &str) -> anyhow::Result<(String, PathBuf)> {
        let folder = self.workspace.target().join("claims");
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let path = folder.join(name);
        let root = self.workspace.path("");
        let named = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        Ok((named, path))
    }

    /// The text of a file, as it is named to the program.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<String> {
        self.workspace.read(name)
    }

    /// What the program prints for these words, without running it a second time.
    pub(super) fn printed(&self, words: &[String]) -> anyhow::Result<String> {
        let key = words.join("\n");
        if let Some(printed) = self.printed.borrow().get(&key) {
            return Ok(printed.clone());
        }
        let (code, printed) = self.fresh(words)?;
        if code != Some(0) {
            bail!("forebay {}: exit code {code:?}", words.join(" "));
        }
        self.printed.borrow_mut().insert(key, printed.clone());
        Ok(printed)
    }

    /// Runs the program: its exit code and what it prints.
    pub(super) fn fresh(&self, words: &[String]) -> anyhow::Result<(Option<i32>, String)> {
        let mut program = self.program(words);
        let output = program.output().with_context(|| format!("cannot run {program:?}"))?;
        if output.status.code().is_none_or(|code| code == 2) {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("forebay {}: {}\n{}", words.join(" "), output.status, said.trim());
        }
        let printed = String::from_utf8(output.stdout).context("it printed what is not UTF-8")?;
        Ok((output.status.code(), printed))
    }

    /// Runs the program, and looks at what it takes: its figures with the cost.
    pub(super) fn costed(&self, words: &[String]) -> anyhow::Result<(Run, Cost)> {
        let mut program = self.program(words);
        program.stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let child = program.spawn().with_context(|| format!("cannot run {program:?}"))?;
        let status = format!("/proc/{}/status", child.id());
        let (output, wall, peak) = thread::scope(|scope| {
            let peak = scope.spawn(|| watched(&status));
            let output = child.wait_with_output();
            let wall = begun.elapsed();
            (output, wall, peak.join().ok().flatten())
        });
        let output = output?;
        if !output.status.success() {
            bail!("forebay {}: {}", words.join(" "), output.status);
        }
        let runs = Run::all(&String::from_utf8_lossy(&output.stdout))?;
        let run = runs.into_iter().next().context("it printed no run")?;
        Ok((run, Cost { wall, peak }))
    }

    /// Builds an example of the core and runs it: what it prints.
    pub(super) fn example(&self, name: &str, words: &[String]) -> anyhow::Result<String> {
        let build = ["build", "--release", "--package", "forebay-core", "--example", name];
        Workspace::must(self.workspace.cargo(&build))?;
        let path = self.workspace.target().join("release").join("examples").join(name);
        let output = Command::new(&path).args(words).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            bail!("{}: {}", path.display(), output.status);
        }
        String::from_utf8(output.stdout).context("it printed what is not UTF-8")
    }

    fn program(&self, words: &[String]) -> Command {
        let mut program = Command::new(self.workspace.target().join("release").join("forebay"));
        program.args(words).current_dir(self.workspace.path("")).stdin(Stdio::null());
        program
    }
}

/// The most memory that a process has held, looked at until it ends. What it takes within the last
/// look's interval is missed.
fn watched(status: &str) -> Option<f64> {
    let mut peak = None;
    while let Some(bytes) = fs::read_to_string(status).ok().as_deref().and_then(high_water) {
        peak = Some(bytes);
        thread::sleep(LOOK_EVERY);
    }
    peak
}

/// The line of a process's status that says the most memory it has held, in bytes. One that has
/// ended has none.
fn high_water(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::high_water;

    #[test]
    fn the_most_memory_is_read_and_an_ended_process_has_none() {
        let status = "Name:\tforebay\nVmPeak:\t  9000 kB\nVmHWM:\t    2000 kB\nVmRSS:\t 1000 kB\n";
        assert_eq!(high_water(status), Some(2_048_000.0));
        assert_eq!(high_water("Name:\tforebay\nState:\tZ (zombie)\n"), None);
    }
}
