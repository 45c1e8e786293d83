//! Collects what a claim ran and found.

use super::bar::{Bar, Line, Unit};
use super::lab::Lab;
use super::run::Run;

/// One claim's runs, figures and gaps.
pub(super) struct Sheet<'a> {
    pub(super) lab: &'a Lab<'a>,
    /// Seeds of the synthetic slice: 1 to this.
    pub(super) seeds: u64,
    /// The figures against their bars.
    pub(super) lines: Vec<Line>,
    /// The commands that were run, each once.
    pub(super) commands: Vec<String>,
    /// What could not be run, and what to do about it.
    pub(super) skipped: Vec<String>,
}

/// One run, and on what.
pub(super) struct Sample {
    /// Its trace and, of a synthetic one, its seed.
    pub(super) name: String,
    /// Its figures.
    pub(super) run: Run,
}

/// The flags of one arm, in words that a shell splits at spaces.
pub(super) struct Arm<'a> {
    /// Number of workers.
    pub(super) workers: u32,
    /// The mode.
    pub(super) mode: &'a str,
    /// Whatever else.
    pub(super) flags: &'a str,
}

/// The runs of one arm, each on its own trace.
pub(super) type Samples = Vec<Sample>;

impl<'a> Sheet<'a> {
    /// An empty one.
    pub(super) fn new(lab: &'a Lab<'a>, seeds: u64) -> Self {
        Self { lab, seeds, lines: Vec::new(), commands: Vec::new(), skipped: Vec::new() }
    }

    /// Notes a command that is run.
    pub(super) fn note(&mut self, command: String) {
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
    }

    /// Notes that something is not run.
    pub(super) fn skip(&mut self, what: String) {
        if !self.skipped.contains(&what) {
            self.skipped.push(what);
        }
    }

    /// Whether a file of the shared folder is there; notes where it is not.
    pub(super) fn has_shared(&mut self, name: &str) -> bool {
        let is_there = self.lab.has(&Lab::shared(name));
        if !is_there {
            let shown = Lab::shown(name);
            self.skip(format!("{shown} is missing; FOREBAY_SHARED may name another folder"));
        }
        is_there
    }

    /// One arm on the three traces of the shared folder that look like the published test's slice;
    /// none where they are not there.
    pub(super) fn seedlike(&mut self, arm: &Arm<'_>) -> anyhow::Result<Samples> {
        let names = [1, 2, 3].map(|nth| format!("seedlike-{nth}.jsonl"));
        if !names.iter().all(|name| self.has_shared(name)) {
            return Ok(Vec::new());
        }
        let files = names.each_ref().map(|name| Lab::shared(name)).join(" ");
        let words = |files: &str| format!("simulate --trace {files} {} --json", arm.words());
        self.note(format!("forebay {}", words(&Lab::shown("seedlike-{1,2,3}.jsonl"))));
        let runs = Run::all(&self.lab.printed(&split(&words(&files)))?)?;
        let name = |name: &String| name.trim_end_matches(".jsonl").to_owned();
        Ok(runs.into_iter().zip(&names).map(|(run, of)| Sample { name: name(of), run }).collect())
    }

    /// One arm on the synthetic slice, with each seed.
    pub(super) fn synthetic(&mut self, arm: &Arm<'_>) -> anyhow::Result<Samples> {
        let words =
            |seed: &str| format!("simulate --synth evidence --seed {seed} {} --json", arm.words());
        self.note(format!("forebay {}  # S = 1 to {}", words("S"), self.seeds));
        let mut samples = Vec::new();
        for seed in 1..=self.seeds {
            let runs = Run::all(&self.lab.printed(&split(&words(&seed.to_string())))?)?;
            let name = format!("seed {seed}");
            samples.extend(runs.into_iter().map(|run| Sample { name: name.clone(), run }));
        }
        Ok(samples)
    }

    /// One arm on all traces.
    pub(super) fn everywhere(&mut self, arm: &Arm<'_>) -> anyhow::Result<Samples> {
        let mut samples = self.seedlike(arm)?;
        samples.append(&mut self.synthetic(arm)?);
        Ok(samples)
    }

    /// One run of the program for these words, on its own.
    pub(super) fn one(&mut self, words: &str) -> anyhow::Result<Run> {
        self.note(format!("forebay {words}"));
        let mut runs = Run::all(&self.lab.printed(&split(words))?)?;
        anyhow::ensure!(runs.len() == 1, "forebay {words}: {} runs, not one", runs.len());
        Ok(runs.remove(0))
    }

    /// Holds values against a bar.
    pub(super) fn bar(
        &mut self,
        what: impl Into<String>,
        unit: Unit,
        values: &[(String, f64)],
        bar: Bar,
    ) {
        self.lines.push(Line::of(what.into(), unit, values, bar));
    }

    /// Holds one value against a bar.
    pub(super) fn single(&mut self, what: impl Into<String>, unit: Unit, value: f64, bar: Bar) {
        self.bar(what, unit, &[(String::new(), value)], bar);
    }
}

impl Arm<'_> {
    fn words(&self) -> String {
        let Self { workers, mode, flags } = self;
        let space = if flags.is_empty() { "" } else { " " };
        format!("--workers {workers} --mode {mode}{space}{flags}")
    }
}

/// The words of a command.
pub(super) fn split(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}
