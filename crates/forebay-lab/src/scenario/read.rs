//! Reads a scenario file, and finds all of its faults with their lines.

use std::path::{Path, PathBuf};

use forebay_core::{Knowledge, Mode, Span, Tokens};
use toml::de::DeTable;

use super::expect::{Against, Expectation, Figure, Of};
use super::{Arm, Fleet, Rate, Scenario, Shape, Stream, Timed, What, keys};
use crate::engine::Preset;
use crate::service::reader::{At, Gathered, Section, listed, nearest};
use crate::service::{Faults, Service};
use crate::simulate::{Client, Patience, Who};
use crate::trace::synth::Description;

/// The seeds of a scenario that names none.
const SEEDS: [u64; 3] = [1, 2, 3];
/// The preset of a fleet that names none.
const ENGINE: &str = "a100-40gb/qwen3-8b";

/// Reads the text of a scenario file.
pub(super) fn read(file: &Path, text: &str) -> Result<Scenario, Faults> {
    let mut found = Gathered::new(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let line = error.span().map_or(1, |span| found.line(span.start));
        found.add(line, format!("not TOML: {}", error.message()), "mend the line's syntax");
    }
    let mut root = Section::new("the file", root.get_ref(), 1);
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
        let service = Service::part(root, self.found);
        let streams = root.sections("stream", self.found);
        if streams.is_empty() {
            self.found.add(1, "the file has no requests", "add a `[[stream]]`");
        }
        let streams: Vec<Option<Stream>> =
            streams.into_iter().map(|table| self.stream(table, &service)).collect();
        let fleet = root.section("fleet", self.found);
        let fleet = self.fleet(fleet);
        let clients = root.section("clients", self.found);
        let (client, patience) = self.clients(clients);
        let events = root.sections("event", self.found);
        let events: Vec<Option<Timed>> =
            events.into_iter().map(|table| self.event(table, fleet.workers.len())).collect();
        let arms = root.sections("arm", self.found);
        let mut arms: Vec<Arm> =
            arms.into_iter().map(|table| self.arm(table, &fleet, &service)).collect();
        let expectations = root.sections("expect", self.found);
        if expectations.is_empty() {
            self.found.add(1, "the file expects nothing", "add an `[[expect]]`");
        }
        let expectations: Vec<Option<Expectation>> = expectations
            .into_iter()
            .map(|table| self.expectation(table, &fleet, &service, &mut arms))
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

    fn stream(&mut self, mut table: Section<'_>, service: &Service) -> Option<Stream> {
        let line = table.line;
        let requests = table.number(&keys::REQUESTS, self.found);
        let requests = self.required(requests, line, "requests", "say how many there are");
        let from = table.number(&keys::FROM_S, self.found);
        let load = table.number(&keys::LOAD, self.found);
        let per_s = table.number(&keys::PER_S, self.found);
        if let (Some(_), Some(per_s)) = (&load, &per_s) {
            self.found.add(per_s.line, "a stream has both a `load` and a `per_s`", "drop one");
        }
        let class = table.text("class", self.found);
        let classes = service.classes.iter().map(|class| class.name.as_str());
        self.known(class.as_ref(), "class", classes);
        let tenant = table.text("tenant", self.found);
        let tenants = service.tenants.iter().map(|tenant| tenant.name.as_str());
        self.known(tenant.as_ref(), "tenant", tenants);
        let shape = self.shape(&mut table);
        table.finish(self.found);
        let text = |at: Option<At<String>>| at.map(|at| at.value);
        Some(Stream {
            requests: requests?.value as u64,
            from: Span::secs_f64(from.map_or(0.0, |at| at.value)),
            rate: match per_s {
                Some(per_s) => Rate::PerS(per_s.value),
                None => Rate::Load(load.map_or(1.0, |at| at.value)),
            },
            shape: shape?,
            class: text(class),
            tenant: text(tenant),
        })
    }

    fn shape(&mut self, table: &mut Section<'_>) -> Option<Shape> {
        let line = table.line;
        let prompt = table.numbers(&keys::PROMPT, self.found);
        let output = table.numbers(&keys::OUTPUT, self.found);
        let prefix_tokens = table.number(&keys::PREFIX_TOKENS, self.found);
        let prefixes = table.number(&keys::PREFIXES, self.found);
        if let Some(synth) = table.text("synth", self.found) {
            if !(prompt.is_empty() && output.is_empty() && prefix_tokens.is_none()) {
                let what = "a stream has both a `synth` and lengths of its own";
                self.found.add(synth.line, what, "drop one");
            }
            return match Description::find(&self.path(&synth.value)) {
                Ok(description) => Some(Shape::Synth(Box::new(description))),
                Err(error) => {
                    self.found.add(synth.line, error.what, error.remedy);
                    None
                }
            };
        }
        let prompt = self.range(&prompt, line, "prompt");
        let output = self.range(&output, line, "output");
        let (prompt, output) = (prompt?, output?);
        let prefix_tokens = prefix_tokens.map_or(0, |at| at.value as u64);
        if prefix_tokens >= prompt.0 {
            let what = format!("a prefix of {prefix_tokens} tokens fills its shortest prompt");
            self.found.add(line, what, "make the prefix shorter than the shortest prompt");
        }
        let prefixes = prefixes.map_or(1, |at| at.value as u64);
        Some(Shape::Plain { prompt, output, prefix_tokens, prefixes })
    }

    /// One number, or the least and the most.
    fn range(&mut self, numbers: &[At<f64>], line: usize, key: &str) -> Option<(u64, u64)> {
        let remedy = format!("give one number or two, such as `{key} = [200, 800]`");
        match numbers {
            [one] => Some((one.value as u64, one.value as u64)),
            [least, most] if least.value <= most.value => {
                Some((least.value as u64, most.value as u64))
            }
            [] => {
                self.found.add(line, format!("a stream has neither `synth` nor `{key}`"), remedy);
                None
            }
            [first, ..] => {
                self.found.add(first.line, format!("`{key}` is no range"), remedy);
                None
            }
        }
    }

    fn fleet(&mut self, table: Option<Section<'_>>) -> Fleet {
        let mut fleet = Fleet {
            workers: Vec::new(),
            mode: Mode::Hold(forebay_core::HoldOrder::Aged),
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
        let mode = table.text("mode", self.found);
        let knowledge = table.text("knowledge", self.found);
        let expected_output = table.number(&keys::EXPECTED_OUTPUT, self.found);
        let capacity_error = table.number(&keys::CAPACITY_ERROR, self.found);
        let capacity_told = table.flag("capacity_told", self.found);
        let line = table.line;
        table.finish(self.found);
        let engines =
            if engines.is_empty() { vec![At { value: ENGINE.to_owned(), line }] } else { engines };
        let presets: Vec<Preset> = engines.iter().filter_map(|name| self.preset(name)).collect();
        fleet.workers = match (&presets[..], &workers) {
            ([one], Some(workers)) => vec![one.clone(); workers.value as usize],
            (several, Some(workers)) if several.len() != workers.value as usize => {
                let what = format!("{} engines for {} workers", several.len(), workers.value);
                self.found.add(workers.line, what, "name one engine, or one for each worker");
                presets
            }
            _ => presets,
        };
        if let Some(mode) = &mode {
            fleet.mode = self.mode(mode).unwrap_or(fleet.mode);
        }
        match knowledge.as_ref().map(|at| (at.value.as_str(), at.line)) {
            None | Some(("events", _)) => {}
            Some(("own", _)) => fleet.knowledge = Knowledge::Own,
            Some((other, line)) => {
                let what = format!("`knowledge` can't be `{other}`");
                self.found.add(line, what, "choose `events` or `own`");
            }
        }
        fleet.expected_output = expected_output.map(|at| Tokens(at.value as u64));
        fleet.capacity_error_pct = capacity_error.map_or(0.0, |at| at.value);
        fleet.capacity_told = capacity_told.is_none_or(|at| at.value);
        fleet
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

    fn clients(&mut self, table: Option<Section<'_>>) -> (Client, Option<Patience>) {
        let Some(mut table) = table else { return (Client::None, None) };
        let retry = table.text("retry", self.found);
        let fixed = table.number(&keys::PATIENCE_S, self.found);
        let mean = table.number(&keys::PATIENCE_S_MEAN, self.found);
        table.finish(self.found);
        let client = match retry.map(|at| (at.value.parse::<Client>(), at.line)) {
            None => Client::None,
            Some((Ok(client), _)) => client,
            Some((Err(error), line)) => {
                self.found.add(line, error.to_string(), "choose one of them");
                Client::None
            }
        };
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

    fn event(&mut self, mut table: Section<'_>, workers: usize) -> Option<Timed> {
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

    fn arm(&mut self, mut table: Section<'_>, fleet: &Fleet, service: &Service) -> Arm {
        let line = table.line;
        let name = table.text("name", self.found);
        let name = self.required(name, line, "name", "name it, so that `against` can");
        let mode = table.text("mode", self.found);
        let workers = table.number(&keys::ARM_WORKERS, self.found);
        let tenants = table.texts("tenants", self.found);
        let events = table.flag("events", self.found);
        table.finish(self.found);
        let fleet_len = fleet.workers.len();
        if let Some(at) = workers.as_ref().filter(|at| at.value as usize > fleet_len) {
            let what = format!("an arm of {} workers", at.value);
            self.found.add(at.line, what, format!("the fleet has {fleet_len}"));
        }
        for tenant in &tenants {
            let known = service.tenants.iter().map(|tenant| tenant.name.as_str());
            self.known(Some(tenant), "tenant", known);
        }
        Arm {
            name: name.map(|at| at.value).unwrap_or_default(),
            mode: mode.and_then(|mode| self.mode(&mode)).unwrap_or(fleet.mode),
            workers: workers.map_or(fleet_len, |at| at.value as usize),
            tenants: tenants.into_iter().map(|at| at.value).collect(),
            events: events.is_none_or(|at| at.value),
        }
    }

    fn expectation(
        &mut self,
        mut table: Section<'_>,
        fleet: &Fleet,
        service: &Service,
        arms: &mut Vec<Arm>,
    ) -> Option<Expectation> {
        let line = table.line;
        let figure = table.text("figure", self.found);
        let class = table.text("class", self.found);
        let tenant = table.text("tenant", self.found);
        let arm = table.text("arm", self.found);
        let against = table.text("against", self.found);
        let at_least = table.number(&keys::AT_LEAST, self.found);
        let at_most = table.number(&keys::AT_MOST, self.found);
        table.finish(self.found);
        if at_least.is_none() && at_most.is_none() {
            let what = "an expectation has no limit";
            self.found.add(line, what, "give `at_least`, `at_most` or both");
        }
        self.known(class.as_ref(), "class", service.classes.iter().map(|one| one.name.as_str()));
        self.known(tenant.as_ref(), "tenant", service.tenants.iter().map(|one| one.name.as_str()));
        if let (Some(_), Some(tenant)) = (&class, &tenant) {
            let what = "an expectation is about a class and a tenant";
            self.found.add(tenant.line, what, "make it two");
        }
        for arm in [&arm, &against].into_iter().flatten() {
            self.arm_named(arm, fleet, arms);
        }
        let figure = self.required(figure, line, "figure", "name one, such as `ttft_ms.p99`")?;
        let Some(known) = Figure::named(&figure.value) else {
            let names = Figure::names();
            let remedy = nearest(&figure.value, names.iter().map(String::as_str)).map_or_else(
                || format!("the figures are {}", listed(names.iter().map(String::as_str))),
                |near| format!("did you mean `{near}`?"),
            );
            self.found.add(figure.line, format!("there is no figure `{}`", figure.value), remedy);
            return None;
        };
        Some(Expectation {
            line,
            figure: known,
            of: match (class, tenant) {
                (Some(class), _) => Of::Class(class.value),
                (None, Some(tenant)) => Of::Tenant(tenant.value),
                (None, None) => Of::All,
            },
            arm: arm.map(|at| at.value),
            against: against.map(|at| Against { arm: at.value }),
            at_least: at_least.map(|at| at.value),
            at_most: at_most.map(|at| at.value),
        })
    }

    /// An arm that is only a mode's name needs no `[[arm]]`.
    fn arm_named(&mut self, name: &At<String>, fleet: &Fleet, arms: &mut Vec<Arm>) {
        if arms.iter().any(|arm| arm.name == name.value) {
            return;
        }
        match name.value.parse::<Mode>() {
            Ok(mode) => arms.push(Arm {
                name: name.value.clone(),
                mode,
                workers: fleet.workers.len(),
                tenants: Vec::new(),
                events: true,
            }),
            Err(_) => {
                let what = format!("there is no arm `{}`", name.value);
                self.found.add(name.line, what, "name an `[[arm]]` or a mode");
            }
        }
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
