//! Holds drills of one target against itself, and counts how many claim a difference.
//!
//! A statistic that finds differences where there are none is found out in no other way: real
//! programs, real sockets, real noise of this machine, and refusals that come in bursts. Both arms
//! are the gateway in the mode that refuses, with other requests in each drill.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::claims::bar::{Bar, Line, Unit};
use crate::say::say;
use crate::workspace::Workspace;

/// Drills.
const DRILLS: u32 = 40;
/// The most that may claim a difference of the primary figure: two in 40 do at 95 %, and more than
/// five of 40 would with a probability of 1.4 % if each did with 5 %.
const CLAIMS_MAX: f64 = 5.0;
/// Blocks of each arm, and requests of each.
const BLOCKS: (u32, u32) = (6, 200);
/// How many times faster than real the engines live, and the load as a multiple of what they serve.
const PACE: (u32, f64) = (40, 2.5);

/// Runs the drills: `--program FILE` for another build.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let mut program = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--program" => program = words.next().map(PathBuf::from),
            other => bail!("unknown word: {other}\nhint: --program FILE is known"),
        }
    }
    if program.is_none() {
        Workspace::must(workspace.cargo(&["build", "--release", "--package", "forebay"]))?;
    }
    let program = program.unwrap_or_else(|| workspace.target().join("release").join("forebay"));
    let program = program.canonicalize().context("there is no such program")?;
    let folder = workspace.target().join("xtask-live").join("same");
    let (mut primary, mut any, mut refused) = (0, 0, 0.0);
    for nth in 1..=DRILLS {
        let found = drill(&program, &folder, nth)?;
        primary += u32::from(found.primary);
        any += u32::from(found.primary || !found.secondary.is_empty());
        refused += found.refused / f64::from(DRILLS);
        let mut claims = found.secondary;
        if found.primary {
            claims.insert(0, "the share of good requests".to_owned());
        }
        let claims = if claims.is_empty() { "nothing".to_owned() } else { claims.join(", ") };
        say(&format!("drill {nth} of {DRILLS}: {claims} differs"));
    }
    let line = |what: &str, count: u32| {
        let counted = [("all".to_owned(), f64::from(count))];
        Line::of(what.to_owned(), Unit::Count, &counted, Bar::AtMost(CLAIMS_MAX))
    };
    let lines = [
        line("drills that claim a difference of the primary figure", primary),
        line("drills that claim any difference", any),
    ];
    for line in &lines {
        let verdict = if line.held { "held" } else { "short" };
        say(&format!("{}: {} of {DRILLS}, bar {}: {verdict}", line.what, line.figure, line.bar));
    }
    say(&format!("refused: {:.1} % of all", 100.0 * refused));
    let is_held = lines.iter().all(|line| line.held);
    Ok(if is_held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What one drill claims.
struct Found {
    primary: bool,
    /// Titles of other figures that it says differ.
    secondary: Vec<String>,
    /// The share of the first arm that was refused.
    refused: f64,
}

fn drill(program: &Path, folder: &Path, nth: u32) -> anyhow::Result<Found> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let file = folder.join("drill.toml");
    fs::write(&file, design(program, nth))?;
    let out = folder.join("out");
    let mut command = Command::new(program);
    command.args(["drill", "--live"]).arg(&file).arg("--json").arg("--out").arg(&out);
    let done = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    // Any verdict is an end: what is looked at is the difference.
    ensure!(matches!(done.status.code(), Some(0 | 1 | 3)), "{}\n{said}", done.status);
    let cells: Value = serde_json::from_slice(&done.stdout).context("the drill says no JSON")?;
    let comparison = &cells[0]["comparison"];
    let difference = &comparison["differences"][0];
    let differs = |contrast: &Value| contrast["differs"].as_bool();
    let primary = differs(&difference["primary"]).with_context(|| format!("no result\n{said}"))?;
    let secondary = difference["secondary"].as_array().into_iter().flatten();
    let secondary = secondary.filter(|it| differs(it) == Some(true));
    let secondary = secondary.filter_map(|it| it["title"].as_str()).map(str::to_owned).collect();
    let refused = comparison["arms"][0]["all"]["refused_share"]["value"].as_f64();
    Ok(Found { primary, secondary, refused: refused.context("no share of refusals")? })
}

/// A drill of the gateway against itself.
fn design(program: &Path, seed: u32) -> String {
    let program = program.display();
    let ((blocks, requests), (hurry, load)) = (BLOCKS, PACE);
    let arm = |name: &str| {
        format!(
            "[[arm]]\nname = \"{name}\"\nhealth = \"/readyz\"\ncommand = [\"{program}\", \
             \"serve\", \"--listen\", \"127.0.0.1:{{port}}\", \"--mode\", \"kv:dynamo-1.2\", \
             \"--worker={{worker_url}}\"]\n"
        )
    };
    // A late generator is late for both, and the machine that this runs on is busy.
    format!(
        "[load]\nsynth = \"evidence\"\nmodel = \"qwen3-8b\"\nendpoint = \"completions\"\n\
         requests = {requests}\nspeed = {hurry}\ncapacity_per_s = 3.7\nloads = [{load}]\n\
         warmup = 4\nlag_ms_max = 1000\n[blocks]\nleast = {blocks}\nmost = {blocks}\n\
         seed = {}\n[engines]\nworkers = 2\ncommand = [\"{program}\", \"engine\", \"--workers\", \
         \"1\", \"--speed\", \"{hurry}\", \"--port\", \"{{port}}\"]\n\
         reset = \"POST /reset_prefix_cache\"\n{}{}",
        1000 * seed,
        arm("one"),
        arm("other"),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forebay_lab::live::Design;

    #[test]
    fn the_drill_has_no_fault_and_two_equal_arms() {
        let text = super::design(Path::new("/bin/forebay"), 3);
        let design = Design::parse(Path::new("drill.toml"), &text).unwrap();
        let [one, other] = &design.arms[..] else { panic!("two arms") };
        assert_eq!(one.command, other.command);
        assert_eq!((design.blocks.seed, design.blocks.least), (3000, design.blocks.most));
    }
}
