//! Measures what our load generator costs, side by side with `AIPerf`.
//!
//! Both have one and the same core, in turn, and send the same load to the same server, which
//! answers at once from another core: requests of about a kilobyte at a constant rate, answered
//! with a stream of 16 pieces, with every file that they write by default. The processor time is
//! that of the whole command and of all that it starts. What starting costs is measured with one
//! request and taken off; both figures are shown. How late each sends is what the server saw, by
//! one rule for both: the n-th arrival against the n-th moment of a schedule that begins as early
//! as any arrival allows.

mod server;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};

use self::server::{PIECES, Server};
use super::page;
use super::places::Places;
use crate::claims::bar::{Bar, Line, Unit};
use crate::say::say;
use crate::workspace::Workspace;

/// Requests a second.
const PER_S: u32 = 200;
/// Requests of a run: half a minute of them.
const REQUESTS: u32 = 6_000;
/// Tokens of a prompt: about a kilobyte.
const PROMPT_TOKENS: u32 = 200;
/// Runs of each.
const ROUNDS: usize = 2;
/// Who send as fast as they are answered.
const USERS: u32 = 32;
/// Our requests for each second of processor time over theirs, at least.
const CHEAPER: f64 = 20.0;
/// Our lag at p99 over theirs, at most.
const LATER: f64 = 0.1;
/// Where the generators run, and where the server and this program do.
const CORES: [&str; 2] = ["0", "1"];
/// Clock ticks of `/proc` in a second: Linux says so to every program, whatever its own are.
const TICKS_PER_S: f64 = 100.0;

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Generator {
    Ours,
    Theirs,
}

/// How fast requests are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// At [`PER_S`], evenly: most of the time there is nothing to do, and each request finds a
    /// core that has gone cold.
    Even,
    /// As fast as one core goes, by [`USERS`] who never think.
    Flat,
}

/// What a run of one has shown.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Processor time, in seconds, with all that was started.
    cpu_s: f64,
    /// How late requests came, in milliseconds: the median, the 99th percentile and the greatest.
    lag_ms: [f64; 3],
}

/// What was measured of one.
struct Measured {
    /// A run of one request.
    start: Seen,
    /// At an even pace.
    runs: Vec<Seen>,
    /// As fast as it goes.
    flat: Vec<Seen>,
}

/// Runs the measurement: `--program FILE` for another build, `--write`.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let (mut program, mut write) = (None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--write" => write = true,
            "--program" => program = words.next().map(PathBuf::from),
            other => bail!("unknown word: {other}\nhint: --program FILE and --write are known"),
        }
    }
    let places = Places::find(workspace);
    let found = (places.peer("aiperf/bin/aiperf"), places.peer("model/mock-8b/tokenizer.json"));
    let (aiperf, tokenizer) = match found {
        (Ok(aiperf), Ok(tokenizer)) => (aiperf, tokenizer),
        (Err(why), _) | (_, Err(why)) => {
            say(&format!("skipped: {why}"));
            return Ok(ExitCode::from(3));
        }
    };
    if program.is_none() {
        Workspace::must(workspace.cargo(&["build", "--release", "--package", "forebay"]))?;
    }
    let ours = program.unwrap_or_else(|| workspace.target().join("release").join("forebay"));
    pin()?;
    let bench = Bench {
        server: Server::start()?,
        folder: workspace.target().join("xtask-live").join("generator"),
        ours,
        aiperf,
        model: tokenizer.parent().context("it has a folder")?.to_owned(),
    };
    let [ours, theirs] = bench.measure()?;
    let lines = lines(&ours, &theirs);
    let text = section(&ours, &theirs, &lines);
    page::report(workspace, (page::GENERATOR, &text), &lines, &[], write)
}

/// Moves this program, and with it the server, to its core.
fn pin() -> anyhow::Result<()> {
    let mut command = Command::new("taskset");
    command.args(["-cp", CORES[1]]).arg(std::process::id().to_string()).stdout(Stdio::null());
    Workspace::must(command).context("a second core is needed, and taskset of util-linux")
}

struct Bench {
    server: Server,
    folder: PathBuf,
    ours: PathBuf,
    aiperf: PathBuf,
    model: PathBuf,
}

impl Bench {
    /// Both in turn, in an order that favours neither.
    fn measure(&self) -> anyhow::Result<[Measured; 2]> {
        let both = [Generator::Ours, Generator::Theirs];
        let [ours, theirs] = both.map(|which| self.drive(which, Pace::Even, 1));
        let mut found = [ours?, theirs?].map(|start| Measured {
            start,
            runs: Vec::with_capacity(ROUNDS),
            flat: Vec::with_capacity(ROUNDS),
        });
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let nth = (round + turn) % 2;
                let even = self.drive(both[nth], Pace::Even, REQUESTS)?;
                let flat = self.drive(both[nth], Pace::Flat, REQUESTS)?;
                say(&format!("{} even {even:.3?}, flat out {flat:.3?}", both[nth].name()));
                found[nth].runs.push(even);
                found[nth].flat.push(flat);
            }
        }
        Ok(found)
    }

    /// Lets one of them send so many requests.
    fn drive(&self, which: Generator, pace: Pace, requests: u32) -> anyhow::Result<Seen> {
        let folder = self.folder.join(which.name());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        let log = fs::File::create(self.folder.join(format!("{}.log", which.name())))?;
        let mut command = self.command((which, pace), requests, &folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.server.arrivals();
        let before = children_cpu_s()?;
        let status = command.status().context("taskset can't be started")?;
        let cpu_s = children_cpu_s()? - before;
        // A run that its own generator calls invalid is still a run: it is what is measured here.
        let is_over = status.success() || status.code() == Some(3);
        let (name, logs) = (which.name(), self.folder.display());
        ensure!(is_over, "{name}: {status}\nhint: see {logs}/{name}.log");
        let arrivals = self.server.arrivals();
        let came = arrivals.len();
        ensure!(came == requests as usize, "{came} of {requests} requests of {name} came");
        Ok(Seen { cpu_s, lag_ms: lag_ms(&arrivals, f64::from(PER_S)) })
    }

    fn command(&self, what: (Generator, Pace), requests: u32, folder: &Path) -> Command {
        let mut command = Command::new("taskset");
        let url = format!("http://{}", self.server.address);
        let (which, pace) = what;
        let (requests, rate) = (requests.to_string(), PER_S.to_string());
        let users = USERS.to_string();
        let (prompt, output) = (PROMPT_TOKENS.to_string(), PIECES.to_string());
        command.args(["-c", CORES[0]]);
        match which {
            Generator::Ours => {
                command.arg(&self.ours).args(["load", "--no-calibration", "--model", "mock-8b"]);
                command.args(["--url", &url]);
                match pace {
                    Pace::Even => command.args(["--rate", &rate, "--arrivals", "constant"]),
                    Pace::Flat => command.args(["--users", &users]),
                };
                command.args(["--requests", &requests, "--prompt-tokens", &prompt]);
                command.args(["--output-tokens", &output, "--out"]).arg(folder);
            }
            Generator::Theirs => {
                command.arg(&self.aiperf).args(["profile", "--model", "mock-8b", "--url", &url]);
                command.args(["--endpoint-type", "chat", "--streaming", "--ui", "none"]);
                match pace {
                    Pace::Even => {
                        command.args(["--request-rate", &rate, "--request-rate-mode", "constant"])
                    }
                    Pace::Flat => command.args(["--concurrency", &users]),
                };
                command.args(["--request-count", &requests, "--isl", &prompt, "--osl", &output]);
                // What it need not do is taken off it: its tokenizer over answers, and pages of
                // metrics that nobody serves.
                command.args(["--use-server-token-count", "--no-server-metrics"]);
                command.args(["--no-gpu-telemetry", "--artifact-dir"]).arg(folder);
                command.arg("--tokenizer").arg(&self.model);
                // Told to stay off the network, it takes a folder for a name of the network's.
                command.env_remove("HF_HUB_OFFLINE").env_remove("TRANSFORMERS_OFFLINE");
            }
        }
        command
    }
}

impl Generator {
    const fn name(self) -> &'static str {
        match self {
            Self::Ours => "forebay",
            Self::Theirs => "aiperf",
        }
    }
}

impl Measured {
    /// Requests for each second of processor time, without what starting costs.
    fn per_cpu_s(&self, pace: Pace) -> impl Iterator<Item = f64> {
        let start = self.start.cpu_s;
        let runs = if pace == Pace::Even { &self.runs } else { &self.flat };
        runs.iter().map(move |run| f64::from(REQUESTS - 1) / (run.cpu_s - start).max(1e-3))
    }

    /// The same with it.
    fn per_cpu_s_with_start(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().map(|run| f64::from(REQUESTS) / run.cpu_s.max(1e-3))
    }
}

/// Processor time of all children that have ended, and of theirs, by `/proc/self/stat`.
fn children_cpu_s() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("Linux's /proc is needed")?;
    // The second field, a name in parentheses, may hold anything; the 16th and 17th are these.
    let (_, rest) = text.rsplit_once(')').context("/proc/self/stat has no name")?;
    let ticks: Vec<f64> = rest.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // Behind the name comes a letter, which is no number, and then the fourth field.
    let (user, system) = ticks.get(12).zip(ticks.get(13)).context("/proc/self/stat is short")?;
    Ok((user + system) / TICKS_PER_S)
}

/// How late arrivals are against equal gaps, in milliseconds: p50, p99 and the greatest.
fn lag_ms(arrivals: &[f64], per_s: f64) -> [f64; 3] {
    let against = |(nth, at): (u32, &f64)| at - f64::from(nth) / per_s;
    let mut late: Vec<f64> = (0..).zip(arrivals).map(against).collect();
    late.sort_unstable_by(f64::total_cmp);
    let start = late.first().copied().unwrap_or_default();
    let rank = |share: f64| ((late.len() as f64 * share).ceil() as usize).clamp(1, late.len());
    [0.5, 0.99, 1.0].map(|share| match late.len() {
        0 => f64::NAN,
        _ => (late[rank(share) - 1] - start) * 1e3,
    })
}

fn lines(ours: &Measured, theirs: &Measured) -> Vec<Line> {
    let rounds = |ratios: Vec<f64>| -> Vec<(String, f64)> {
        (1..).zip(ratios).map(|(nth, ratio)| (format!("round {nth}"), ratio)).collect()
    };
    let cheaper = |pace| {
        let both = ours.per_cpu_s(pace).zip(theirs.per_cpu_s(pace));
        rounds(both.map(|(ours, theirs)| ours / theirs).collect())
    };
    let later =
        ours.runs.iter().zip(&theirs.runs).map(|(one, other)| one.lag_ms[1] / other.lag_ms[1]);
    let later = rounds(later.collect());
    let cpu = "requests for each second of processor time over AIPerf's";
    vec![
        Line::of(
            format!("{cpu}, as fast as a core goes"),
            Unit::Times,
            &cheaper(Pace::Flat),
            Bar::AtLeast(CHEAPER),
        ),
        Line::of(
            format!("{cpu}, at {PER_S} requests/s"),
            Unit::Times,
            &cheaper(Pace::Even),
            Bar::AtLeast(CHEAPER),
        ),
        Line::of(
            format!("lag at p99 over AIPerf's at {PER_S} requests/s"),
            Unit::Times,
            &later,
            Bar::AtMost(LATER),
        ),
    ]
}

/// The section of the page.
fn section(ours: &Measured, theirs: &Measured, lines: &[Line]) -> String {
    let mut text = format!(
        "`forebay load` and AIPerf 0.13 on one core, in turn, against one server on another core \
         that answers at once:\n{REQUESTS} chats of {PROMPT_TOKENS} tokens at a constant {PER_S} \
         a second, each answered by a stream of {PIECES} pieces; and flat out,\nas many by {USERS} \
         users who never think. Both write every request down, and neither runs a tokenizer over \
         answers. Lag is the\nserver's: the n-th arrival against the n-th moment of the schedule. \
         The figures of the {ROUNDS} runs stand side by \
         side.\n\n```sh\ncargo xtask generator --write\n```\n\n\
         | | CPU µs a request, flat out | at {PER_S}/s | with its start | lag p50 | p99 | max \
         |\n|---|---|---|---|---|---|---|\n"
    );
    for (name, one) in [("`forebay load`", ours), ("AIPerf 0.13", theirs)] {
        let side = |values: Vec<String>| values.join(" / ");
        let [flat, even] = [Pace::Flat, Pace::Even].map(|pace| {
            side(one.per_cpu_s(pace).map(|rate| format!("{:.0}", 1e6 / rate)).collect())
        });
        let with = one.per_cpu_s_with_start().map(|rate| format!("{:.0}", 1e6 / rate)).collect();
        let lag = |nth: usize| {
            side(one.runs.iter().map(|run| format!("{:.2} ms", run.lag_ms[nth])).collect())
        };
        let (with, p50, p99, max) = (side(with), lag(0), lag(1), lag(2));
        let _ = writeln!(text, "| {name} | {flat} | {even} | {with} | {p50} | {p99} | {max} |");
    }
    let (us, them) = (ours.start.cpu_s, theirs.start.cpu_s);
    let _ =
        writeln!(text, "\nA run of one request costs {us:.2} s of CPU, and AIPerf's {them:.2} s.");
    text += "\n| | measured | bar | |\n|---|---|---|---|\n";
    for line in lines {
        let verdict = if line.held { "held" } else { "**short**" };
        let _ = writeln!(text, "| {} | {} | {} | {verdict} |", line.what, line.figure, line.bar);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Measured, Pace, REQUESTS, Seen, children_cpu_s, lag_ms, lines, section};

    #[test]
    fn lag_is_counted_from_the_earliest_start_that_any_arrival_allows() {
        // Due each half second; the second is 10 ms late, the third the earliest.
        let [p50, p99, max] = lag_ms(&[7.002, 7.511, 8.001], 2.0);
        assert!((p50 - 1.0).abs() < 1e-6 && (p99 - 10.0).abs() < 1e-6 && (max - 10.0).abs() < 1e-6);
        assert!(lag_ms(&[], 2.0)[0].is_nan());
    }

    #[test]
    fn the_time_of_children_can_be_read() {
        assert!(children_cpu_s().unwrap() >= 0.0);
    }

    #[test]
    fn what_starting_costs_is_taken_off_and_bars_are_held_by_the_worst_round() {
        let seen = |cpu_s, p99| Seen { cpu_s, lag_ms: [0.1, p99, 9.0] };
        let ours = Measured {
            start: seen(0.0, 0.1),
            runs: vec![seen(0.6, 1.0), seen(0.6, 2.0)],
            flat: vec![seen(0.3, 0.0); 2],
        };
        let theirs = Measured {
            start: seen(8.0, 0.1),
            runs: vec![seen(20.5, 15.0); 2],
            flat: vec![seen(14.0, 0.0); 2],
        };
        let per_s = theirs.per_cpu_s(Pace::Even).next().unwrap();
        assert!((per_s - f64::from(REQUESTS - 1) / 12.5).abs() < 1e-9);
        let lines = lines(&ours, &theirs);
        assert_eq!([0, 1, 2].map(|nth| lines[nth].held), [true, true, false]);
        let text = section(&ours, &theirs, &lines);
        assert!(
            text.contains("| AIPerf 0.13 | 1000 / 1000 | 2084 / 2084 | 3417 / 3417 |"),
            "{text}"
        );
    }
}
