//! Reads who serves, who asks, and what happens to them.

use forebay_core::{HoldOrder, Knowledge, Limits, Mode, Span, Tokens};
use forebay_service::reader::{At, Section};

use super::Reader;
use crate::engine::Preset;
use crate::scenario::{Fleet, Timed, What, keys};
use crate::simulate::{Client, Patience, Who};

/// The preset of a fleet that names none.
const ENGINE: &str = "a100-40gb/qwen3-8b";

impl Reader<'_> {
    /// The fleet; without a table one worker of the preset that the evidence had.
    pub(super) fn fleet(&mut self, table: Option<Section<'_>>, limits: &Limits) -> Fleet {
        let mut fleet = Fleet {
            workers: Vec::new(),
            mode: Mode::Hold(HoldOrder::Aged),
            knowledge: Knowledge::Events,
            expected_output: None,
            capacity_error_pct: 0.0,
            capacity_told: true,
        };
        let Some(mut table) = table else {
            fleet.workers.extend(self.preset(&At { value: ENGINE.to_owned(), line: 1 }));
            return fleet;
        };
        let engines = table.texts("engine", self.found);
        let workers = table.number(&keys::WORKERS, self.found);
        fleet.workers = self.workers(engines, workers, table.line);
        if fleet.workers.len() > limits.workers_max as usize {
            let (many, most) = (fleet.workers.len(), limits.workers_max);
            let what = format!("{many} workers, of at most {most}");
            self.found.add(table.line, what, "raise `workers_max` under `[limits]`");
        }
        if let Some(mode) = table.text("mode", self.found) {
            fleet.mode = self.mode(&mode).unwrap_or(fleet.mode);
        }
        match table.text("knowledge", self.found).map(|at| (at.value, at.line)) {
            None => {}
            Some((name, _)) if name == "events" => {}
            Some((name, _)) if name == "own" => fleet.knowledge = Knowledge::Own,
            Some((other, line)) => {
                let what = format!("`knowledge` can't be `{other}`");
                self.found.add(line, what, "choose `events` or `own`");
            }
        }
        let expected_output = table.number(&keys::EXPECTED_OUTPUT, self.found);
        fleet.expected_output = expected_output.map(|at| Tokens(at.value as u64));
        let capacity_error = table.number(&keys::CAPACITY_ERROR, self.found);
        fleet.capacity_error_pct = capacity_error.map_or(0.0, |at| at.value);
        fleet.capacity_told = table.flag("capacity_told", self.found).is_none_or(|at| at.value);
        table.finish(self.found);
        fleet
    }

    /// So many workers of one engine, or one worker of each.
    fn workers(
        &mut self,
        mut engines: Vec<At<String>>,
        workers: Option<At<f64>>,
        line: usize,
    ) -> Vec<Preset> {
        if engines.is_empty() {
            engines.push(At { value: ENGINE.to_owned(), line });
        }
        let mut presets: Vec<Preset> =
            engines.iter().filter_map(|name| self.preset(name)).collect();
        let Some(workers) = workers else { return presets };
        match &presets[..] {
            [one] => presets = vec![one.clone(); workers.value as usize],
            several if several.len() != workers.value as usize => {
                let what = format!("{} engines for {} workers", engines.len(), workers.value);
                self.found.add(workers.line, what, "name one engine, or one for each worker");
            }
            _ => {}
        }
        presets
    }

    fn preset(&mut self, name: &At<String>) -> Option<Preset> {
        match Preset::resolve(&self.path(&name.value)) {
            Ok(preset) => Some(preset),
            Err(error) => {
                for fault in error.faults {
                    let place = fault.line.map(|line| format!("{}:{line}: ", fault.file.display()));
                    let what = format!("{}{}", place.unwrap_or_default(), fault.what);
                    self.found.add(name.line, what, fault.remedy);
                }
                None
            }
        }
    }

    /// How clients take a refusal and a wait.
    pub(super) fn clients(&mut self, table: Option<Section<'_>>) -> (Client, Option<Patience>) {
        let Some(mut table) = table else { return (Client::None, None) };
        let retry = table.text("retry", self.found);
        let fixed = table.number(&keys::PATIENCE_S, self.found);
        let mean = table.number(&keys::PATIENCE_S_MEAN, self.found);
        table.finish(self.found);
        let client = retry.and_then(|retry| self.client(&retry)).unwrap_or(Client::None);
        let patience = match (fixed, mean) {
            (Some(_), Some(mean)) => {
                let what = "clients have both a `patience_s` and a `patience_s_mean`";
                self.found.add(mean.line, what, "drop one");
                None
            }
            (Some(fixed), None) => Some(Patience::Fixed(Span::secs_f64(fixed.value))),
            (None, mean) => mean.map(|at| Patience::Exponential(Span::secs_f64(at.value))),
        };
        (client, patience)
    }

    /// The clients of this name.
    pub(super) fn client(&mut self, name: &At<String>) -> Option<Client> {
        match name.value.parse::<Client>() {
            Ok(client) => Some(client),
            Err(error) => {
                self.found.add(name.line, error.to_string(), "choose one of them");
                None
            }
        }
    }

    /// Something that happens to a fleet of so many workers.
    pub(super) fn event(&mut self, mut table: Section<'_>, workers: usize) -> Option<Timed> {
        let line = table.line;
        let at = table.number(&keys::AT_S, self.found);
        let at = self.required(at, line, "at_s", "say when it happens, in seconds from the start");
        let worker = table.number(&keys::WORKER, self.found);
        let factor = table.number(&keys::FACTOR, self.found);
        let mode = table.text("mode", self.found);
        let what = table.text("what", self.found);
        table.finish(self.found);
        if let Some(worker) = worker.as_ref().filter(|worker| worker.value as usize >= workers) {
            let what = format!("there is no worker {}", worker.value);
            self.found.add(worker.line, what, format!("they are 0 to {}", workers.max(1) - 1));
        }
        let who = worker.as_ref().map_or(Who::All, |at| Who::One(at.value as u32));
        let names = ["lost", "back", "slowed", "drained", "capacity-told", "mode", "shut-down"];
        let what = self.required(what, line, "what", &format!("it is one of {}", names.join(", ")));
        let what = what?;
        let happens = match what.value.as_str() {
            "lost" => What::Lost(who),
            "back" => What::Back(who),
            "drained" => What::Drained(who),
            "capacity-told" => What::CapacityTold(who),
            "shut-down" => What::ShutDown,
            "slowed" => {
                let remedy = "say how many times as long a step takes; 1 is back to normal";
                What::Slowed(who, self.required(factor, line, "factor", remedy)?.value)
            }
            "mode" => {
                let remedy = "say which mode the pool goes on in";
                let mode = self.required(mode, line, "mode", remedy)?;
                What::Mode(self.mode(&mode)?)
            }
            other => {
                let fault = format!("nothing like `{other}` happens");
                self.found.add(what.line, fault, format!("choose one of {}", names.join(", ")));
                return None;
            }
        };
        Some(Timed { at: Span::secs_f64(at?.value), what: happens })
    }
}
