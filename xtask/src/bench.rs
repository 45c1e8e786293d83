//! Counts the instructions of one decision and compares them with a baseline.
//!
//! Wall time is noise on a shared machine and instruction counts repeat, so the counts are the gate
//! and the times are only shown. A program with no decisions is counted too and taken off: what is
//! left is the decisions.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};

use crate::say::say;
use crate::workspace::Workspace;

/// The program that is counted: `decision WORKERS WAITING DECISIONS` in `forebay-core/examples/`.
const PROGRAM: &str = "decision";
/// What is counted: workers and requests that wait.
const CASES: [(u32, u32); 2] = [(100, 1_000), (1_000, 10_000)];
/// Decisions that are counted: enough to even out rare rebuilds, few enough for valgrind's
/// slowness.
const COUNTED: u32 = 500;
/// Decisions that are timed.
const TIMED: u32 = 5_000;
/// How far above the baseline a count may be. Compilers and C libraries move counts by a few
/// percent.
const TOLERANCE: f64 = 0.10;
/// The file with the baseline: workers, waiting, instructions a decision.
const BASELINE: &str = "xtask/baseline.txt";
const REMEDY: &str = "run `cargo xtask bench --update`";

/// One measured case.
struct Measured {
    workers: u32,
    waiting: u32,
    /// Instructions a decision.
    instructions: f64,
    /// What the program itself prints of wall times.
    times: String,
}

/// Measures, and fails where a count is above the baseline by more than the tolerance.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let text = workspace.read(BASELINE).with_context(|| format!("no baseline; {REMEDY}"))?;
    let baseline = parse_baseline(&text)?;
    let Some(measured) = measure(workspace)? else { return Ok(ExitCode::from(3)) };
    let mut code = ExitCode::SUCCESS;
    for Measured { workers, waiting, instructions, times } in measured {
        let Some(base) = baseline_of(&baseline, workers, waiting) else {
            bail!("{BASELINE} has no line for {workers} {waiting}\nhint: {REMEDY}");
        };
        let change = instructions / base - 1.0;
        let verdict = if change > TOLERANCE { "TOO MANY" } else { "ok" };
        say(&format!(
            "{workers} workers, {waiting} waiting: {instructions:.0} instructions a decision, \
             {:+.1} % against {base:.0}: {verdict}\n{times}",
            change * 100.0
        ));
        if change > TOLERANCE {
            code = ExitCode::FAILURE;
        }
    }
    if code != ExitCode::SUCCESS {
        say(&format!("hint: make it cheaper, or say in the commit why not; then {REMEDY}"));
    }
    Ok(code)
}

/// Measures, and writes what was measured as the new baseline.
pub(crate) fn update(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let Some(measured) = measure(workspace)? else { return Ok(ExitCode::from(3)) };
    let mut text = String::from(
        "# Instructions a decision, by callgrind. Written by `cargo xtask bench --update`.\n\
         # workers waiting instructions\n",
    );
    for Measured { workers, waiting, instructions, times } in measured {
        writeln!(text, "{workers} {waiting} {instructions:.0}")?;
        say(&format!(
            "{workers} workers, {waiting} waiting: {instructions:.0} instructions a decision\n\
             {times}"
        ));
    }
    workspace.write(BASELINE, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures all cases; `None` where there is nothing to measure with.
fn measure(workspace: &Workspace) -> anyhow::Result<Option<Vec<Measured>>> {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        say("inconclusive: valgrind is not installed, so instructions cannot be counted");
        return Ok(None);
    }
    let build = ["build", "--release", "--package", "forebay-core", "--example", PROGRAM];
    Workspace::must(workspace.cargo(&build))
        .with_context(|| format!("cannot build the example {PROGRAM}"))?;
    let program = workspace.target().join("release").join("examples").join(PROGRAM);
    let counts = workspace.target().join("xtask-callgrind.out");
    let measured: anyhow::Result<Vec<Measured>> = CASES
        .into_iter()
        .map(|(workers, waiting)| measure_case(&program, &counts, workers, waiting))
        .collect();
    measured.map(Some)
}

fn measure_case(
    program: &Path,
    counts: &PathBuf,
    workers: u32,
    waiting: u32,
) -> anyhow::Result<Measured> {
    let words = |decisions: u32| [workers, waiting, decisions].map(|number| number.to_string());
    let count = |decisions: u32| -> anyhow::Result<u64> {
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--callgrind-out-file={}", counts.display()));
        valgrind.arg(program).args(words(decisions)).stdout(Stdio::null()).stdin(Stdio::null());
        Workspace::must(valgrind)?;
        parse_total(&std::fs::read_to_string(counts).context("callgrind wrote no counts")?)
    };
    let (none, many) = (count(0)?, count(COUNTED)?);
    ensure!(many > none, "{COUNTED} decisions took no instructions: {many} against {none}");
    let instructions = (many - none) as f64 / f64::from(COUNTED);
    Ok(Measured { workers, waiting, instructions, times: times(program, &words(TIMED))? })
}

/// What the program prints when it runs by itself, for information.
fn times(program: &Path, words: &[String]) -> anyhow::Result<String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{}: {}", program.display(), output.status);
    let printed = String::from_utf8_lossy(&output.stdout);
    Ok(printed.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))
}

/// The total of a callgrind file: the first number of its `totals:` line, or of `summary:` in older
/// versions.
fn parse_total(text: &str) -> anyhow::Result<u64> {
    ["totals:", "summary:"]
        .iter()
        .find_map(|key| text.lines().find_map(|line| line.strip_prefix(key)))
        .and_then(|rest| rest.split_whitespace().next())
        .context("callgrind's file has no line of totals")?
        .parse()
        .context("callgrind's total is not a number")
}

/// Reads a baseline: (workers, waiting, instructions), one a line.
fn parse_baseline(text: &str) -> anyhow::Result<Vec<(u32, u32, f64)>> {
    let mut rows = Vec::new();
    for (nth, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let numbers: Vec<f64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [workers, waiting, instructions] = numbers[..] else {
            bail!("{BASELINE}:{}: not three numbers: {line}", nth + 1);
        };
        ensure!(instructions > 0.0, "{BASELINE}:{}: no instructions", nth + 1);
        rows.push((workers as u32, waiting as u32, instructions));
    }
    Ok(rows)
}

fn baseline_of(rows: &[(u32, u32, f64)], workers: u32, waiting: u32) -> Option<f64> {
    rows.iter().find(|row| (row.0, row.1) == (workers, waiting)).map(|row| row.2)
}

#[cfg(test)]
mod tests {
    use super::{baseline_of, parse_baseline, parse_total};

    #[test]
    fn the_total_is_read_from_either_line() {
        let text = "version: 1\nevents: Ir\nsummary: 41\n\nfn=(1) main\n12 30\ntotals: 42\n";
        assert_eq!(parse_total(text).unwrap(), 42);
        assert_eq!(parse_total("events: Ir\nsummary: 41\n").unwrap(), 41);
        assert!(parse_total("events: Ir\n").is_err());
    }

    #[test]
    fn a_baseline_is_read_and_a_broken_line_is_named() {
        let rows = parse_baseline("# why\n100 1000 5000\n1000 10000 9000\n").unwrap();
        assert_eq!(baseline_of(&rows, 1_000, 10_000), Some(9_000.0));
        assert_eq!(baseline_of(&rows, 10, 10), None);
        let error = parse_baseline("100 1000 5000\n100 many\n").unwrap_err().to_string();
        assert_eq!(error, "xtask/baseline.txt:2: not three numbers: 100 many");
    }
}
