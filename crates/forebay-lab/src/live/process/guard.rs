//! Ends what a program has started, also where it has left the program's group, and where nobody is
//! left to end it.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that everything inherits that a program starts: a daemon leaves its group and its
/// parent, but keeps its environment.
pub(super) const MARK: &str = "FOREBAY_STARTED_BY";
/// Reads until its input ends, which it does when this process is no more, however it ended.
const WAIT: &str = "read -r _; kill -TERM -- \"-$1\"; sleep 10; kill -KILL -- \"-$1\"";

/// Names all that one program starts.
#[derive(Clone, Debug)]
pub(super) struct Mark(String);

impl Mark {
    /// A name that no other has.
    pub(super) fn new() -> Self {
        static NTH: AtomicU32 = AtomicU32::new(0);
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        Self(format!("{}-{now}-{nth}", std::process::id()))
    }

    /// Puts it on a command.
    pub(super) fn put(&self, command: &mut Command) {
        command.env(MARK, &self.0);
    }

    /// Signals everything that has it. Where a system shows no environments, that is nothing.
    pub(super) fn signal(&self, signal: Signal) {
        let wanted = format!("{MARK}={}", self.0);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in entries {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
                && let Some(pid) = Pid::from_raw(pid)
            {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Ends a group of processes when this one dies without having ended it itself.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    /// Closed by the system when this process ends.
    _input: Option<ChildStdin>,
}

impl Guard {
    /// Watches over a group.
    pub(super) fn over(group: u32) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WAIT, "guard"]).arg(group.to_string()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn()?;
        let input = shell.stdin.take();
        Ok(Self { shell, _input: input })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before its input closes: the number of the group may be somebody else's soon.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
