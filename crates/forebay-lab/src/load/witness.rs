//! Watches the generator itself, and says whether a run's figures may be used.
//!
//! A generator that was late, or lacked something, measured itself and not the target. That is not
//! a slow target but no result at all, so the reasons are written beside the figures.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::Span;
use rustix::io::Errno;

use super::Settings;
use super::machine::{self, Machine};
use crate::results::{Attempt, Generator, Invalid};

/// The largest share of requests that the bound on requests under way may make late: what is left
/// does not reach a 99th percentile.
const HELD_BACK_SHARE_MAX: f64 = 0.01;
/// From this share of the run on in which somebody waited for a processor, a reader is told.
const PRESSURE_NOTED: f64 = 0.1;
/// From this share of processor time on that the host took, a reader is told.
const STEAL_NOTED: f64 = 0.02;

/// The largest share of the run in which somebody may wait for a processor, and of processor time
/// that the host may take, where the lag is above [`BUSY_LAG_SHARE`] of its limit. Guesses: at half
/// the run any moment is as likely to be noted late as not; hosts take processors for whole slices
/// of some ten milliseconds, so that a tenth is in every percentile that matters.
const BUSY_SHARE_MAX: (f64, f64) = (0.5, 0.1);
/// The share of the limit on lag that a busy machine may reach. Lag is seen only where something is
/// sent, and answers are noted by the same threads in between: with a machine that is known to be
/// busy, half the limit is believed to be the half of it that was seen.
const BUSY_LAG_SHARE: f64 = 0.5;

/// What a generator can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    /// Descriptors of this process or of the machine.
    Descriptors,
    /// Local ports, or memory for sockets.
    Sockets,
}

impl Shortage {
    /// What this side lacks, by the system's word for it.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE | Errno::NFILE => Some(Self::Descriptors),
            Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM => Some(Self::Sockets),
            _ => None,
        }
    }
}

/// What a run was like for the generator.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// What the generator saw of itself.
    pub generator: Generator,
    /// Why the run's figures may not be used; empty where they may.
    pub invalid: Vec<Invalid>,
    /// What a reader should know and that makes nothing invalid.
    pub notes: Vec<String>,
    /// It was stopped before the plan was done.
    pub was_interrupted: bool,
}

/// Notes what the generator does while it runs: eight bytes for each request.
pub(super) struct Witness {
    before: Machine,
    /// Connections that are open now.
    pub(super) open: Arc<AtomicUsize>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Lags of first attempts, in microseconds.
    lags: Vec<u32>,
    /// What opening each connection took, in microseconds.
    connects: Vec<u32>,
    open_max: usize,
    in_flight_max: usize,
    offered: u64,
    /// Requests that went out late since as many as may be were under way.
    held_back: u64,
    not_sent: u64,
    no_descriptors: u64,
    no_sockets: u64,
}

impl Witness {
    /// Begins to watch.
    pub(super) fn new() -> Self {
        Self { before: Machine::now(), open: Arc::default(), seen: Mutex::default() }
    }

    fn see(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// One more request is under way.
    pub(super) fn begins(&self, in_flight: usize, was_held_back: bool) {
        self.see(|seen| {
            seen.in_flight_max = seen.in_flight_max.max(in_flight);
            seen.held_back += u64::from(was_held_back);
        });
    }

    /// This side lacked something for an attempt.
    pub(super) fn lacks(&self, shortage: Shortage) {
        self.see(|seen| match shortage {
            Shortage::Descriptors => seen.no_descriptors += 1,
            Shortage::Sockets => seen.no_sockets += 1,
        });
    }

    /// A request is over, with these attempts.
    pub(super) fn ends(&self, attempts: &[Attempt], is_warmup: bool, was_interrupted: bool) {
        let micros = |span: Span| u32::try_from(span.0 / 1_000).unwrap_or(u32::MAX);
        let open = self.open.load(Ordering::Relaxed);
        self.see(|seen| {
            seen.offered += 1;
            seen.open_max = seen.open_max.max(open);
            let first = attempts.first();
            seen.not_sent += u64::from(first.is_none() && !was_interrupted);
            let lag = first.and_then(|first| Some(first.dequeued? - first.due));
            seen.lags.extend(lag.filter(|_| !is_warmup).map(micros));
            let opened = attempts.iter().filter(|attempt| !attempt.is_reused);
            let took = opened.filter_map(|it| Some(it.connected? - it.dequeued?));
            seen.connects.extend(took.map(micros));
        });
    }

    /// The run is over: what was seen in so many seconds.
    pub(super) fn ended(self, settings: &Settings, seconds: f64, was_interrupted: bool) -> Ended {
        let change = Machine::now().since(&self.before, seconds);
        let mut seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        seen.lags.sort_unstable();
        seen.connects.sort_unstable();
        let lag = |percent| rank_ms(&seen.lags, percent).unwrap_or_default();
        let open = self.before.descriptors.map(|before| before + seen.open_max as u64);
        let generator = Generator {
            lag_ms_p50: lag(50),
            lag_ms_p99: lag(99),
            lag_ms_max: lag(100),
            in_flight_max_seen: seen.in_flight_max as u64,
            connections: seen.connects.len() as u64,
            connect_ms_p99: rank_ms(&seen.connects, 99),
            descriptors: open.zip(machine::descriptors_max()),
            cpu_pressure: change.pressure,
            steal: change.steal,
            cpu_s: Some(change.cpu_s),
        };
        let invalid = seen.invalid(&generator, settings);
        Ended { notes: notes(&generator), generator, invalid, was_interrupted }
    }
}

impl Seen {
    fn invalid(&self, generator: &Generator, settings: &Settings) -> Vec<Invalid> {
        let mut found = Vec::new();
        let mut add = |reason: &str, what| found.push(Invalid { reason: reason.to_owned(), what });
        let limit_ms = settings.lag_max.as_millis_f64();
        if generator.lag_ms_p99 > limit_ms {
            add(
                "lag",
                format!(
                    "the generator was late with what was due: by {:.1} ms at p99 and {:.1} ms at \
                     most, {limit_ms} ms are allowed at p99; give it a processor of its own, or \
                     more requests under way",
                    generator.lag_ms_p99, generator.lag_ms_max
                ),
            );
        }
        if let Some(what) = busy(generator, limit_ms) {
            add("cpu", what);
        }
        let (offered, at_most) = (self.offered, settings.in_flight_max);
        if self.held_back as f64 > HELD_BACK_SHARE_MAX * offered as f64 {
            add(
                "in_flight_max",
                format!(
                    "{} of {offered} requests went out late since {at_most} were under way; \
                     allow more of them",
                    self.held_back
                ),
            );
        }
        if self.not_sent > 0 {
            add(
                "in_flight_max",
                format!(
                    "{} of {offered} requests were never sent: {at_most} were under way for \
                     longer than a client waits; allow more of them",
                    self.not_sent
                ),
            );
        }
        if self.no_descriptors > 0 {
            let limit = generator.descriptors.map_or(0, |(_, limit)| limit);
            add(
                "descriptors",
                format!(
                    "{} attempts found no free descriptor, the process may have {limit}; raise \
                     the limit (ulimit -n)",
                    self.no_descriptors
                ),
            );
        }
        if self.no_sockets > 0 {
            add(
                "connections",
                format!(
                    "{} attempts found no local port or no memory for a socket; use connections \
                     again, or send from several addresses",
                    self.no_sockets
                ),
            );
        }
        found
    }
}

/// Says that the machine was too busy for its clock readings to be believed, where it was: by what
/// the system says, and by the generator's own lag. Neither alone is proof: a machine with many
/// processors always has somebody waiting, and a lag below its limit is allowed.
fn busy(generator: &Generator, limit_ms: f64) -> Option<String> {
    let (pressure_max, steal_max) = BUSY_SHARE_MAX;
    let over = |share: Option<f64>, max: f64| share.filter(|share| *share > max);
    let pressure = over(generator.cpu_pressure, pressure_max).map(|share| {
        let percent = 100.0 * share;
        format!("tasks waited for a processor in {percent:.0} % of the run")
    });
    let steal = over(generator.steal, steal_max).map(|share| {
        let percent = 100.0 * share;
        format!("the host took {percent:.0} % of the processor time")
    });
    let (lag, lag_max) = (generator.lag_ms_p99, BUSY_LAG_SHARE * limit_ms);
    let seen: Vec<String> = [pressure, steal].into_iter().flatten().collect();
    (!seen.is_empty() && lag > lag_max).then(|| {
        format!(
            "{}, with a lag of {lag:.1} ms at p99, and {lag_max} ms are allowed then (half of the \
             limit on lag); measure from a machine with processors to spare",
            seen.join(" and ")
        )
    })
}

/// What the machine was like, where that is worth a word.
fn notes(generator: &Generator) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(share) = generator.cpu_pressure.filter(|share| *share >= PRESSURE_NOTED) {
        notes.push(format!(
            "in {:.0} % of the run some task of the generator's machine waited for a processor",
            100.0 * share
        ));
    }
    if let Some(share) = generator.steal.filter(|share| *share >= STEAL_NOTED) {
        let percent = 100.0 * share;
        notes.push(format!("the host took {percent:.0} % of the machine's processor time"));
    }
    notes
}

/// The nearest rank of a percentile among sorted microseconds, in milliseconds.
fn rank_ms(sorted: &[u32], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|micros| f64::from(*micros) / 1e3)
}

#[cfg(test)]
mod tests {
    use std::io;

    use forebay_core::Span;

    use super::{Seen, Shortage, busy, notes, rank_ms};
    use crate::load::Settings;
    use crate::results::Generator;

    fn reasons(seen: &Seen, lag_ms_p99: f64) -> Vec<String> {
        let settings = Settings { lag_max: Span::millis(10), ..Settings::for_targets(Vec::new()) };
        let generator = Generator { lag_ms_p99, lag_ms_max: 70.0, ..Generator::default() };
        let invalid = seen.invalid(&generator, &settings);
        invalid.into_iter().map(|invalid| format!("{}: {}", invalid.reason, invalid.what)).collect()
    }

    #[test]
    fn a_late_generator_says_by_how_much_and_one_at_the_limit_is_not_late() {
        let said = reasons(&Seen::default(), 10.5);
        assert!(said[0].starts_with("lag: the generator was late"), "{said:?}");
        assert!(said[0].contains("10.5 ms at p99 and 70.0 ms at most, 10 ms are allowed"));
        assert_eq!(reasons(&Seen::default(), 10.0), [""; 0]);
    }

    #[test]
    fn what_the_generator_lacked_is_told_apart() {
        let seen = Seen { offered: 100, held_back: 1, ..Seen::default() };
        assert_eq!(reasons(&seen, 0.0), [""; 0]);
        let seen = Seen {
            offered: 100,
            held_back: 2,
            not_sent: 1,
            no_descriptors: 3,
            no_sockets: 4,
            ..Seen::default()
        };
        let said = reasons(&seen, 0.0);
        let begins =
            ["in_flight_max: 2 of", "in_flight_max: 1 of", "descriptors: 3", "connections"];
        assert_eq!(said.len(), begins.len());
        assert!(said.iter().zip(begins).all(|(said, begin)| said.starts_with(begin)), "{said:?}");
    }

    #[test]
    fn only_our_own_shortages_are_ours() {
        let of = |code| Shortage::of(&io::Error::from_raw_os_error(code));
        // EMFILE, EADDRNOTAVAIL and ECONNREFUSED of Linux.
        assert_eq!(of(24), Some(Shortage::Descriptors));
        assert_eq!(of(99), Some(Shortage::Sockets));
        assert_eq!(of(111), None);
        assert_eq!(Shortage::of(&io::Error::other("x")), None);
    }

    #[test]
    fn a_busy_machine_is_a_note() {
        let calm = Generator { cpu_pressure: Some(0.05), steal: Some(0.0), ..Generator::default() };
        assert_eq!(notes(&calm), [""; 0]);
        let busy = Generator { cpu_pressure: Some(0.5), steal: Some(0.3), ..calm };
        assert_eq!(notes(&busy).len(), 2);
    }

    #[test]
    fn a_busy_machine_is_a_reason_only_beside_a_lag_of_half_the_limit() {
        let with = |cpu_pressure, steal, lag_ms_p99| {
            let generator = Generator { lag_ms_p99, cpu_pressure, steal, ..Generator::default() };
            busy(&generator, 10.0)
        };
        let said = with(Some(0.8), Some(0.3), 5.5).unwrap();
        let begin = "tasks waited for a processor in 80 % of the run and the host took 30 %";
        assert!(said.starts_with(begin), "{said}");
        assert!(said.contains("5.5 ms at p99, and 5 ms are allowed then"), "{said}");
        assert!(with(Some(0.8), None, 5.5).is_some() && with(None, Some(0.2), 5.5).is_some());
        // At the limits nothing is wrong yet, nor with either alone.
        assert_eq!(with(Some(0.5), Some(0.1), 9.0), None);
        assert_eq!(with(Some(0.9), Some(0.9), 5.0), None);
        assert_eq!(with(None, None, 9.0), None);
        let generator = Generator { steal: Some(0.2), lag_ms_p99: 6.0, ..Generator::default() };
        let found = Seen::default().invalid(&generator, &Settings::for_targets(Vec::new()));
        assert_eq!(found.iter().map(|it| it.reason.as_str()).collect::<Vec<_>>(), ["cpu"]);
    }

    #[test]
    fn ranks_are_values_that_occurred() {
        assert_eq!(rank_ms(&[1_000, 2_000, 3_000], 50), Some(2.0));
        assert_eq!(rank_ms(&[1_000], 99), Some(1.0));
        assert_eq!(rank_ms(&[], 50), None);
    }
}
