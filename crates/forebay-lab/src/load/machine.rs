//! Reads what the system says of itself and of this process.
//!
//! What a system does not say is none, and makes nothing invalid.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Where raising the limit on descriptors ends: what Linux gives a process at most unless told
/// otherwise (`fs.nr_open`).
const DESCRIPTORS_MAX: u64 = 1 << 20;

/// Counters of the machine and of this process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Machine {
    /// Microseconds in which some task waited for a processor, since the machine started.
    pressure_us: Option<u64>,
    /// Ticks of all processors, and those of them that the host took.
    ticks: Option<(u64, u64)>,
    /// Processor time of this process, in seconds.
    cpu_s: f64,
    /// Descriptors that this process has open.
    pub(super) descriptors: Option<u64>,
}

/// What changed between two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    /// Share of the time in which some task waited for a processor, 0 to 1.
    pub(super) pressure: Option<f64>,
    /// Share of processor time that the host took, 0 to 1.
    pub(super) steal: Option<f64>,
    /// Processor time of this process, in seconds.
    pub(super) cpu_s: f64,
}

impl Machine {
    /// As it is now.
    pub(super) fn now() -> Self {
        let read = |file| fs::read_to_string(file).ok();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            pressure_us: read("/proc/pressure/cpu").as_deref().and_then(pressure),
            ticks: read("/proc/stat").as_deref().and_then(ticks),
            cpu_s: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
            descriptors: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
        }
    }

    /// What changed since then, over so many seconds.
    pub(super) fn since(&self, then: &Self, seconds: f64) -> Change {
        let stalled = self.pressure_us.zip(then.pressure_us);
        let ticks = self.ticks.zip(then.ticks);
        let share = |part: u64, whole: f64| if whole > 0.0 { part as f64 / whole } else { 0.0 };
        Change {
            pressure: stalled
                .map(|(now, then)| share(now.saturating_sub(then), seconds * 1e6).min(1.0)),
            steal: ticks.map(|((all, stolen), (all_then, stolen_then))| {
                let whole = all.saturating_sub(all_then) as f64;
                share(stolen.saturating_sub(stolen_then), whole)
            }),
            cpu_s: self.cpu_s - then.cpu_s,
        }
    }
}

/// The total of the line `some` of Linux's pressure stall information.
fn pressure(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// All ticks and the stolen ones: of the first line of `/proc/stat` the first eight numbers, the
/// eighth of which is steal (`proc_stat(5)`). Guests are counted within them.
fn ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let numbers = line.split_whitespace().take(8).map(str::parse).collect::<Result<Vec<u64>, _>>();
    let numbers = numbers.ok()?;
    Some((numbers.iter().sum(), *numbers.get(7)?))
}

/// How many descriptors this process may have.
pub(super) fn descriptors_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the limit on descriptors to what the system allows: each request that is under way takes
/// one.
pub fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    if current.is_some_and(|current| current < wanted) {
        // A limit that stays low is seen when it is hit, and makes the run invalid then.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, pressure, ticks};

    #[test]
    fn pressure_and_steal_are_read_from_what_linux_writes() {
        let text = "some avg10=0.12 avg60=0.05 avg300=0.01 total=123456\nfull avg10=0 total=9\n";
        assert_eq!(pressure(text), Some(123_456));
        assert_eq!([pressure(""), pressure("some total=x")], [None, None]);
        let text = "cpu  10 1 20 300 4 0 5 60 7 8\ncpu0 1 2 3\n";
        assert_eq!(ticks(text), Some((400, 60)));
        assert_eq!([ticks("cpu  1 2 3"), ticks("cpu  a b")], [None, None]);
    }

    #[test]
    fn shares_are_of_what_passed_between_two_moments() {
        let then =
            Machine { pressure_us: Some(1_000), ticks: Some((100, 10)), ..Machine::default() };
        let now = Machine {
            pressure_us: Some(501_000),
            ticks: Some((300, 60)),
            cpu_s: 1.5,
            ..Machine::default()
        };
        let change = now.since(&then, 2.0);
        assert_eq!((change.pressure, change.steal, change.cpu_s), (Some(0.25), Some(0.25), 1.5));
        let silent = Machine::default().since(&then, 2.0);
        assert_eq!((silent.pressure, silent.steal), (None, None));
    }
}
