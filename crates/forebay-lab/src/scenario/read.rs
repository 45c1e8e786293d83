//! Reads a scenario file, and finds all of its faults with their lines.

mod arms;
mod fleet;
mod streams;

use std::path::{Path, PathBuf};

use forebay_core::Mode;
use forebay_service::reader::{At, Gathered, Section, listed};
use forebay_service::{Faults, Service};

use super::expect::Expectation;
use super::{Arm, Scenario, Stream, Timed, keys};
use crate::engine::Preset;

/// The seeds of a scenario that names none.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Reads the text of a scenario file.
pub(super) fn read(file: &Path, text: &str) -> Result<Scenario, Faults> {
    let mut found = Gathered::new(text);
    let table = found.toml(text);
    let mut root = Section::root(&table);
    let mut reader = Reader { folder: file.parent().unwrap_or(Path::new("")), found: &mut found };
    let scenario = reader.scenario(file, &mut root);
    root.finish(&mut found);
    let faults = found.into_sorted();
    match scenario {
        Some(scenario) if faults.is_empty() => Ok(scenario),
        _ => Err(Faults { file: file.to_owned(), faults }),
    }
}

struct Reader<'a> {
    folder: &'a Path,
    found: &'a mut Gathered,
}

impl Reader<'_> {
    fn scenario(&mut self, file: &Path, root: &mut Section<'_>) -> Option<Scenario> {
        let claim = root.text("claim", self.found);
        let claim = self.required(claim, 1, "claim", "say in one sentence what must hold");
        let seeds = root.numbers(&keys::SEEDS, self.found);
        let loads = root.numbers(&keys::LOADS, self.found);
        let drain = root.number(&keys::DRAIN_S_MAX, self.found);
        let drain = self.required(
            drain,
            1,
            "drain_s_max",
            "say within how many seconds everything must have ended once load and faults stop",
        );
        let service = Service::part(root, &Preset::faults_of, self.found);
        let streams = root.sections("stream", self.found);
        if streams.is_empty() {
            self.found.add(1, "the file has no requests", "add a `[[stream]]`");
        }
        let streams: Vec<Option<Stream>> =
            streams.into_iter().map(|table| self.stream(table, &service)).collect();
        let fleet = root.section("fleet", self.found);
        let fleet = self.fleet(fleet, &service.limits);
        let clients = root.section("clients", self.found);
        let (client, patience) = self.clients(clients);
        let events = root.sections("event", self.found);
        let events: Vec<Option<Timed>> =
            events.into_iter().map(|table| self.event(table, fleet.workers.len())).collect();
        let own = Arm {
            name: String::new(),
            mode: fleet.mode,
            workers: fleet.workers.len(),
            tenants: Vec::new(),
            events: true,
            client,
        };
        let arms = root.sections("arm", self.found);
        let mut arms: Vec<Arm> =
            arms.into_iter().map(|table| self.arm(table, &own, &service)).collect();
        let expectations = root.sections("expect", self.found);
        if expectations.is_empty() {
            self.found.add(1, "the file expects nothing", "add an `[[expect]]`");
        }
        let expectations: Vec<Option<Expectation>> = expectations
            .into_iter()
            .map(|table| self.expectation(table, &own, &service, &mut arms))
            .collect();
        Some(Scenario {
            file: file.to_owned(),
            claim: claim?.value,
            seeds: or_default(&seeds, SEEDS.to_vec(), |seed| seed as u64),
            loads: or_default(&loads, vec![1.0], |load| load),
            drain_s_max: drain?.value,
            streams: streams.into_iter().collect::<Option<_>>()?,
            fleet,
            client,
            patience,
            events: events.into_iter().collect::<Option<_>>()?,
            service,
            arms,
            expectations: expectations.into_iter().collect::<Option<_>>()?,
        })
    }

    fn required<T>(&mut self, at: Option<T>, line: usize, key: &str, remedy: &str) -> Option<T> {
        if at.is_none() {
            self.found.add(line, format!("there is no usable `{key}`"), remedy);
        }
        at
    }

    fn mode(&mut self, name: &At<String>) -> Option<Mode> {
        match name.value.parse() {
            Ok(mode) => Some(mode),
            Err(error) => {
                let error: forebay_core::UnknownMode = error;
                self.found.add(name.line, error.to_string(), "choose one of them");
                None
            }
        }
    }

    fn known<'n>(
        &mut self,
        name: Option<&At<String>>,
        kind: &str,
        mut names: impl Iterator<Item = &'n str> + Clone,
    ) {
        let Some(name) = name else { return };
        let all = names.clone();
        if !names.any(|known| known == name.value) {
            let what = format!("there is no {kind} `{}`", name.value);
            let remedy = format!("the file has {}; add a `[[{kind}]]`", listed(all));
            self.found.add(name.line, what, remedy);
        }
    }

    /// A name as it is, a path as seen from the file's folder.
    fn path(&self, text: &str) -> String {
        let from_here: PathBuf = self.folder.join(text);
        if from_here.is_file() { from_here.to_string_lossy().into_owned() } else { text.to_owned() }
    }
}

fn or_default<T>(numbers: &[At<f64>], default: Vec<T>, value: impl Fn(f64) -> T) -> Vec<T> {
    if numbers.is_empty() { default } else { numbers.iter().map(|at| value(at.value)).collect() }
}
