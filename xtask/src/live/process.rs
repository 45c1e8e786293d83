//! Starts programs in a group of their own, and ends them with all that they have started.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::workspace::Workspace;

/// How long a program may take to end after it was asked to.
const END_MAX: Duration = Duration::from_secs(15);
/// How often is looked whether something has come about.
const POLL: Duration = Duration::from_millis(200);
/// How much of a log is shown where a program fails.
const TAIL_LINES: usize = 5;

/// A program that runs until this is dropped.
pub(super) struct Running {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Running {
    /// Starts a program; what it prints goes to a log below the target folder.
    pub(super) fn start(
        workspace: &Workspace,
        name: &str,
        mut command: Command,
    ) -> anyhow::Result<Self> {
        let folder = workspace.target().join("xtask-live");
        fs::create_dir_all(&folder).context("cannot make the folder of the logs")?;
        let log = folder.join(format!("{}.log", name.replace(' ', "-")));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null()).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name: name.to_owned(), log })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it is ready; fails where it ends before, or is not ready within `limit`.
    pub(super) fn wait_until(
        &mut self,
        limit: Duration,
        mut is_ready: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended: {status}\n{}", self.name, self.tail());
            }
            if is_ready() {
                return Ok(());
            }
            sleep(POLL);
        }
        bail!("{} is not ready after {} s\n{}", self.name, limit.as_secs(), self.tail())
    }

    fn tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        format!("hint: the end of {} is\n{last}", self.log.display())
    }

    fn signal(&self, signal: &str) {
        // The group is ours: `start` made it, and this process has not waited for its leader yet.
        let group = format!("-{}", self.child.id());
        let mut kill = Command::new("kill");
        kill.args([signal, "--", &group]).stderr(Stdio::null());
        let _ = kill.status();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal("-TERM");
        let asked = Instant::now();
        while asked.elapsed() < END_MAX && matches!(self.child.try_wait(), Ok(None)) {
            sleep(POLL);
        }
        // Also after its leader has gone: a child of it may have stayed.
        self.signal("-KILL");
        let _ = self.child.wait();
    }
}
