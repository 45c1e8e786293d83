//! Says what one run of a scenario has come to.

use std::fmt;

use forebay_core::Knowledge;

use super::expect::number;
use super::workload::Pace;
use super::{Rate, Scenario, Shape, Stream, What};
use crate::simulate::{Patience, Who};

/// What one run of a scenario has come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    name: String,
    seed: u64,
    load: f64,
    /// Every expected figure that held, with its value.
    figures: Vec<String>,
    /// Everything that did not hold.
    broken: Vec<String>,
    /// The scenario as it was run, and the command that runs it again.
    resolved: Vec<String>,
}

impl Verdict {
    pub(super) fn new(
        scenario: &Scenario,
        seed: u64,
        pace: Pace,
        figures: Vec<String>,
        broken: Vec<String>,
    ) -> Self {
        let load = pace.load;
        let resolved = resolved(scenario, seed, pace);
        Self { name: scenario.name(), seed, load, figures, broken, resolved }
    }

    /// Whether everything held.
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }
}

impl fmt::Display for Verdict {
    /// One line; where something broke, a line for each further thing, the scenario as it was run,
    /// and the command that runs it again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, seed, load, .. } = self;
        let run = format!("{name}, load {} × the file's, seed {seed}", number(*load));
        match self.broken.split_first() {
            None => {
                write!(f, "held    {run}: {}", self.figures.join("; "))
            }
            Some((first, others)) => {
                write!(f, "BROKEN  {run}: {first}")?;
                for other in others {
                    write!(f, "\n        {other}")?;
                }
                for figure in &self.figures {
                    write!(f, "\n        held: {figure}")?;
                }
                for line in &self.resolved {
                    write!(f, "\n        {line}")?;
                }
                Ok(())
            }
        }
    }
}

/// The scenario with all that was filled in.
fn resolved(scenario: &Scenario, seed: u64, pace: Pace) -> Vec<String> {
    let mut lines = vec![format!("claim: {}", scenario.claim)];
    let fleet = &scenario.fleet;
    let engines: Vec<&str> = fleet.workers.iter().map(|preset| preset.name.as_str()).collect();
    lines.push(format!(
        "fleet: {} under {}, knowledge {}, capacity {} ({} %)",
        engines.join(", "),
        fleet.mode,
        match fleet.knowledge {
            Knowledge::Events => "events",
            Knowledge::Own => "own",
        },
        if fleet.capacity_told { "told" } else { "not told" },
        number(fleet.capacity_error_pct),
    ));
    if pace.capacity > 0.0 {
        lines.push(format!("capacity: {} requests/s", number(pace.capacity)));
    }
    lines.extend(scenario.streams.iter().map(|one| stream(one, pace)));
    for event in &scenario.events {
        lines.push(format!("event: at {}, {}", event.at, happening(&event.what)));
    }
    let patience = scenario.patience.map_or("without end".to_owned(), |patience| match patience {
        Patience::Fixed(span) => span.to_string(),
        Patience::Exponential(mean) => format!("{mean} on average"),
    });
    lines.push(format!("clients: retry {}, patience {patience}", scenario.client));
    let file = scenario.file.display();
    let load = number(pace.load);
    lines.push(format!("repeat: forebay scenario run {file} --seed {seed} --load {load}"));
    lines
}

/// A stream in words.
fn stream(stream: &Stream, pace: Pace) -> String {
    let shape = match &stream.shape {
        Shape::Synth(description) => description.name.clone(),
        Shape::Plain { prompt, output, prefix_tokens, prefixes } => {
            let shared = match (prefix_tokens, prefixes) {
                (0, _) => "nothing shared".to_owned(),
                (tokens, 1) => format!("the first {tokens} shared by all"),
                (tokens, many) => format!("the first {tokens} one of {many} shared prefixes"),
            };
            format!(
                "prompts of {} to {} tokens, {shared}, answers of {} to {}",
                prompt.0, prompt.1, output.0, output.1
            )
        }
    };
    let load = match stream.rate {
        Rate::Load(load) => format!(" ({} × capacity)", number(load * pace.load)),
        Rate::PerS(_) => String::new(),
    };
    format!(
        "stream: {} requests from {} at {}/s{load}, {shape}, class {}, tenant {}",
        stream.requests,
        stream.from,
        number(pace.of(stream.rate)),
        stream.class.as_deref().unwrap_or("by share"),
        stream.tenant.as_deref().unwrap_or("by share"),
    )
}

/// What happens, in words.
fn happening(what: &What) -> String {
    let workers = |who: &Who| match who {
        Who::One(place) => format!("worker {place}"),
        Who::All => "all workers".to_owned(),
    };
    match what {
        What::Lost(who) => format!("{} lost", workers(who)),
        What::Back(who) => format!("{} back", workers(who)),
        What::Slowed(who, factor) => {
            format!("{} slowed, a step takes {} ×", workers(who), number(*factor))
        }
        What::Drained(who) => format!("{} drained", workers(who)),
        What::CapacityTold(who) => format!("capacity of {} told", workers(who)),
        What::Mode(mode) => format!("the mode becomes {mode}"),
        What::ShutDown => "the pool takes nothing new".to_owned(),
    }
}
