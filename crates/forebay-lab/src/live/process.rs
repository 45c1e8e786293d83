//! Starts programs in a group of their own, and ends them with all that they have started.

mod guard;
mod log;

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use self::guard::{Guard, Mark};
use self::log::Log;

/// Part of what is said of a program that has ended while it was needed.
pub(super) const ENDED: &str = "ended though it was needed";
/// How long the command that stops a program may take.
const STOP_MAX: Duration = Duration::from_mins(1);

/// How long a program may take to end after it was asked to. A gateway that drains has answers
/// under way, but a drill asks it only when all are there.
const END_MAX: Duration = Duration::from_secs(15);
/// How often is looked whether something has come about.
const POLL: Duration = Duration::from_millis(50);
/// How much of a log is shown where a program fails.
const TAIL_LINES: usize = 5;
/// How much of the end of a log is read for that.
const TAIL_BYTES: usize = 8 << 10;

/// A program that could not be started, or has ended too early.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It does not start.
    #[error("{program}: {said}\nhint: try the command by itself: {line}")]
    Start {
        /// The program.
        program: String,
        /// The whole command.
        line: String,
        /// What the system said.
        said: io::Error,
    },
    /// Its log can't be written.
    #[error("{}: {said}\nhint: name a folder that can be written", file.display())]
    Log {
        /// The log.
        file: PathBuf,
        /// What the system said.
        said: io::Error,
    },
    /// It ended, or did not become ready.
    #[error("{name} {what}\nhint: the end of {} is\n{tail}", log.display())]
    NotReady {
        /// Its name.
        name: String,
        /// What happened.
        what: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
}

/// A program that runs until this is dropped, with all that it has started: also what has left its
/// group, and also where this process is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    guard: Option<Guard>,
    mark: Mark,
    name: String,
    log: PathBuf,
    words: Log,
    /// What ends it besides a signal, if anything.
    stop: Vec<String>,
    folder: PathBuf,
}

impl Process {
    /// Starts a program in a folder; what it prints goes to the end of a log.
    pub fn start(
        name: &str,
        words: &[String],
        stop: Vec<String>,
        folder: &Path,
        log: &Path,
    ) -> Result<Self, ProcessError> {
        let unwritable = |said| ProcessError::Log { file: log.to_owned(), said };
        let (written, to) = Log::open(log).map_err(unwritable)?;
        let mark = Mark::new();
        let (program, arguments) =
            words.split_first().map_or(("", words), |(program, rest)| (program.as_str(), rest));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).process_group(0).stdin(Stdio::null());
        command.stdout(to.try_clone().map_err(unwritable)?).stderr(to);
        mark.put(&mut command);
        let child = command.spawn().map_err(|said| ProcessError::Start {
            program: program.to_owned(),
            line: words.join(" "),
            said,
        })?;
        // Without a shell nobody watches, and the program still ends with this.
        let guard = Guard::over(child.id(), &mark).ok();
        let (name, log, folder) = (name.to_owned(), log.to_owned(), folder.to_owned());
        Ok(Self { child, guard, mark, name, log, words: written, stop, folder })
    }

    /// Whether it can't become ready any more: its first process has failed, or it has ended and
    /// nothing of its group is left. A program may start others and end well.
    pub fn has_failed(&mut self) -> Option<ProcessError> {
        self.failure().map(|status| self.not_ready(format!("ended: {status}")))
    }

    /// What is to be said of it if it has ended though it is needed.
    pub fn has_ended(&mut self) -> Option<String> {
        let status = self.failure()?;
        Some(format!("{} {ENDED} ({status}): see {}", self.name, self.log.display()))
    }

    /// How it ended, where that leaves nothing of it to wait for.
    fn failure(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        let is_alone = self.group().is_none_or(|group| test_kill_process_group(group).is_err());
        (!status.success() || (is_alone && self.stop.is_empty())).then_some(status)
    }

    /// Whether what starts it is done. A program with a command that stops it is one that starts
    /// others, and only when it has ended are they there as they should be.
    pub fn has_started(&mut self) -> bool {
        self.stop.is_empty() || !matches!(self.child.try_wait(), Ok(None))
    }

    /// What is to be said when it is not ready.
    pub fn not_ready(&self, what: String) -> ProcessError {
        ProcessError::NotReady {
            name: self.name.clone(),
            what,
            log: self.log.clone(),
            tail: self.tail(),
        }
    }

    fn tail(&self) -> String {
        self.words.settle();
        let bytes = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    fn group(&self) -> Option<Pid> {
        group_of(&self.child)
    }

    fn signal(&self, signal: Signal) {
        // The group is ours: `start` made it, and its number is not given away while any of it is
        // left. Of a group without processes there is nothing to end.
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, signal);
        }
    }

    fn is_gone(&mut self) -> bool {
        let has_ended = !matches!(self.child.try_wait(), Ok(None));
        has_ended && self.group().is_none_or(|group| test_kill_process_group(group).is_err())
    }

    /// Runs the command that stops it, for as long as that may take.
    fn stop(&self) {
        let Some((program, arguments)) = self.stop.split_first() else { return };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // What it leaves behind is signalled next, so how it ends does not matter.
        let Ok(mut stopping) = command.spawn() else { return };
        let asked = Instant::now();
        while matches!(stopping.try_wait(), Ok(None)) {
            if asked.elapsed() > STOP_MAX {
                group_of(&stopping).map(|group| kill_process_group(group, Signal::KILL));
                let _ = stopping.wait();
            }
            sleep(POLL);
        }
    }
}

/// The group that a program leads.
fn group_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
        self.signal(Signal::TERM);
        self.mark.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < END_MAX && !self.is_gone() {
            sleep(POLL);
        }
        self.signal(Signal::KILL);
        self.mark.signal(Signal::KILL);
        let _ = self.child.wait();
        self.guard = None;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::thread::sleep;
    use std::time::Duration;

    use super::{Process, ProcessError};

    fn shell(name: &str, script: &str) -> (Process, PathBuf) {
        let log = std::env::temp_dir().join(format!("forebay-{}-{name}.log", std::process::id()));
        let _ = fs::remove_file(&log);
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        let folder = std::env::temp_dir();
        (Process::start(name, &words, Vec::new(), &folder, &log).unwrap(), log)
    }

    /// The text of a file once there is any.
    fn awaited(path: &PathBuf) -> String {
        for _ in 0..400 {
            match fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => sleep(Duration::from_millis(10)),
            }
        }
        panic!("{} stays empty", path.display());
    }

    #[test]
    fn whatever_a_program_has_started_ends_with_it() {
        let (process, log) = shell("group", "sleep 600 & echo $!; wait");
        let child: i32 = awaited(&log).trim().parse().unwrap();
        let child = rustix::process::Pid::from_raw(child).unwrap();
        assert!(rustix::process::test_kill_process(child).is_ok());
        drop(process);
        assert!(ends(&child.as_raw_nonzero().to_string()));
        fs::remove_file(log).unwrap();
    }

    /// Whether a process ends soon. Whoever adopts an orphan may take a moment to bury it.
    fn ends(pid: &str) -> bool {
        (0..400).any(|_| {
            sleep(Duration::from_millis(10));
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        })
    }

    #[test]
    fn a_daemon_that_has_left_the_group_ends_with_it_as_well() {
        let (process, log) = shell("daemon", "setsid sh -c 'echo $$; sleep 600' & sleep 600");
        let daemon = awaited(&log).trim().to_owned();
        drop(process);
        assert!(ends(&daemon));
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn what_a_program_prints_without_end_is_kept_up_to_a_bound() {
        let (process, log) = shell("prints", "yes forebay");
        let mut length = 0;
        for _ in 0..1_000 {
            length = fs::metadata(&log).map_or(0, |log| log.len());
            if length > super::log::BYTES_MAX {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        sleep(Duration::from_millis(100));
        assert!(fs::metadata(&log).unwrap().len() <= length.max(super::log::BYTES_MAX + 100));
        drop(process);
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.ends_with("[no more is kept: 8 MiB]\n") && text.len() < 9 << 20);
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_that_has_ended_though_it_was_needed_says_so() {
        let (mut process, log) = shell("dies", "exit 7");
        let said = (0..400).find_map(|_| {
            sleep(Duration::from_millis(10));
            process.has_ended()
        });
        let said = said.unwrap();
        assert!(said.starts_with("dies ended though it was needed (exit status: 7)"), "{said}");
        let (mut runs, other) = shell("runs", "sleep 600");
        assert_eq!(runs.has_ended(), None);
        drop((process, runs));
        fs::remove_file(log).unwrap();
        fs::remove_file(other).unwrap();
    }

    #[test]
    fn a_program_that_fails_shows_the_end_of_its_log() {
        let (mut process, log) = shell("fails", "echo no such model; exit 3");
        let mut failed = None;
        for _ in 0..400 {
            failed = process.has_failed();
            if failed.is_some() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        let said = failed.unwrap().to_string();
        assert!(said.contains("fails ended: exit status: 3"), "{said}");
        assert!(said.ends_with("no such model"), "{said}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_command() {
        let log = std::env::temp_dir().join(format!("forebay-{}-none.log", std::process::id()));
        let words = ["/no/such/router".to_owned(), "--port".to_owned()];
        let folder = std::env::temp_dir();
        let error = Process::start("r", &words, Vec::new(), &folder, &log).unwrap_err();
        assert!(matches!(error, ProcessError::Start { .. }));
        assert!(error.to_string().contains("/no/such/router --port"), "{error}");
        fs::remove_file(log).unwrap();
    }
}
