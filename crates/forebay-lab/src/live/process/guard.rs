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
/// Reads until its input ends, which it does when this process is no more, however it ended. Then
/// it ends a group (`$1`), and whatever has the mark (`$2`) in its environment.
const WATCH: &str = r#"end() {
    kill "-$1" -- "-$2"
    for of in /proc/[0-9]*; do
        grep -qsz "^$3\$" "$of/environ" && kill "-$1" "${of#/proc/}"
    done
}
read -r _; end TERM "$1" "$2"; sleep 10; end KILL "$1" "$2""#;

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

    /// It as it stands in an environment.
    fn entry(&self) -> String {
        format!("{MARK}={}", self.0)
    }

    /// Signals everything that has it. Where a system shows no environments, that is nothing.
    pub(super) fn signal(&self, signal: Signal) {
        for pid in self.found() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Everything that has it now.
    fn found(&self) -> impl Iterator<Item = Pid> {
        let wanted = self.entry();
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(move |entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let mut entries = environment.split(|byte| *byte == 0);
            entries.any(|entry| entry == wanted.as_bytes()).then_some(pid)
        })
    }
}

/// Ends a group of processes when this one dies without having ended it itself.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    /// Closed by the system when this process ends.
    input: Option<ChildStdin>,
}

impl Guard {
    /// Watches over a group, and over what has the mark.
    pub(super) fn over(group: u32, mark: &Mark) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCH, "guard"]).arg(group.to_string()).arg(mark.entry());
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn()?;
        let input = shell.stdin.take();
        Ok(Self { shell, input })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before its input closes: the number of the group may be somebody else's soon.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        self.input = None;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::{Guard, Mark};

    #[test]
    fn a_group_and_a_daemon_end_when_nobody_is_left_to_end_them() {
        let mark = Mark::new();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "setsid sleep 600 & sleep 600"]).process_group(0);
        mark.put(&mut command);
        let mut group = command.stdout(Stdio::null()).spawn().unwrap();
        let mut guard = Guard::over(group.id(), &mark).unwrap();
        // As when this process dies: the system closes what it has open.
        drop(guard.input.take());
        assert!(!group.wait().unwrap().success());
        let is_left = |_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            mark.found().count() > 0
        };
        assert!(!(0..400).all(is_left));
    }
}
