//! Reads the file of a live drill, and finds all of its faults with their lines.

mod load;

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_service::defaults::Key;
use forebay_service::reader::{At, Gathered, Section};
use forebay_service::{Faults, text_file};

use super::design::{Arm, Blocks, Command, Design, Engines, Exporter, Hook};
use super::{fill, keys};
use crate::engine::Preset;
use crate::report::SignOff;
use crate::slo::Held;

/// Arms of a drill at most: each costs all blocks.
const ARMS_MAX: usize = 32;

/// Why a live drill can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be read.
    #[error(transparent)]
    Unreadable(#[from] text_file::UnreadableFile),
    /// It has faults.
    #[error(transparent)]
    Faults(#[from] Faults),
}

impl Design {
    /// Reads a file.
    pub fn load(file: &Path) -> Result<Self, ReadError> {
        Ok(Self::parse(file, &text_file::read(file)?)?)
    }

    /// Reads the text of a file; paths in it begin at the file's folder.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let mut found = Gathered::new(text);
        let table = found.toml(text);
        let mut root = Section::root(&table);
        let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new(".")).to_owned();
        let mut reader = Reader { folder: &folder, found: &mut found };
        let design = reader.design(file, &mut root);
        root.finish(&mut found);
        match design {
            Some(design) => found.finish(file, design),
            None => Err(Faults { file: file.to_owned(), faults: found.into_sorted() }),
        }
    }
}

struct Reader<'a> {
    folder: &'a Path,
    found: &'a mut Gathered,
}

impl Reader<'_> {
    fn design(&mut self, file: &Path, root: &mut Section<'_>) -> Option<Design> {
        let criteria = root.text("criteria", self.found);
        let criteria = self.criteria(criteria);
        let sign_off = root.text("sign_off", self.found);
        let load = root.section("load", self.found);
        let blocks = root.section("blocks", self.found);
        let engines = root.section("engines", self.found);
        let arms = root.sections("arm", self.found);
        let exporters = root.sections("exporter", self.found);
        let simulated = root.section("simulated", self.found);
        if arms.is_empty() {
            self.found.add(1, "the file has no arms", "add an `[[arm]]` for each way to compare");
        }
        if arms.len() > ARMS_MAX {
            self.found.add(1, format!("{} arms", arms.len()), format!("at most {ARMS_MAX}"));
        }
        let blocks = self.blocks(blocks);
        if load.is_none() {
            self.found.add(1, "the file has no `[load]`", "say there what is sent");
        }
        let load = load.and_then(|table| self.load(table));
        let engines = engines.map(|table| self.engines(table));
        let has_engines = engines.is_some();
        let mut names: Vec<String> = Vec::new();
        let arms: Vec<Option<Arm>> =
            arms.into_iter().map(|table| self.arm(table, has_engines, &mut names)).collect();
        let exporters: Vec<Option<Exporter>> =
            exporters.into_iter().map(|table| self.exporter(table)).collect();
        let simulated = simulated.and_then(|table| self.simulated(table));
        let criteria = criteria?;
        let mut design = Design {
            file: file.to_owned(),
            folder: self.folder.to_owned(),
            load: load?,
            blocks,
            engines,
            arms: arms.into_iter().collect::<Option<_>>()?,
            exporters: exporters.into_iter().collect::<Option<_>>()?,
            simulated,
            criteria: criteria.criteria,
            criteria_file: criteria.file,
            objectives: criteria.objectives,
            sign_off: None,
        };
        if let Some(at) = sign_off {
            let signed = SignOff::load(&self.path(&at.value)).map_err(|error| error.to_string());
            let signed = signed.and_then(|it| design.sign(it).map_err(|error| error.to_string()));
            signed.unwrap_or_else(|error| self.told(at.line, &error));
        }
        Some(design)
    }

    fn blocks(&mut self, table: Option<Section<'_>>) -> Blocks {
        let Some(mut table) = table else {
            return Blocks {
                least: keys::LEAST.value() as u32,
                most: keys::MOST.value() as u32,
                seed: keys::SEED.value() as u64,
                idle_max: Duration::from_secs_f64(keys::IDLE_S_MAX.value()),
            };
        };
        let line = table.line;
        let most = self.number(&mut table, &keys::MOST) as u32;
        // Whoever wants fewer at most than the default at least has said both.
        let least = table.number(&keys::LEAST, self.found);
        let least = least.map_or(keys::LEAST.value().min(f64::from(most)), |at| at.value) as u32;
        let seed = self.number(&mut table, &keys::SEED) as u64;
        let idle = self.number(&mut table, &keys::IDLE_S_MAX);
        table.finish(self.found);
        if least > most {
            let what = format!("at least {least} blocks, and at most {most}");
            self.found.add(line, what, "`least` must not be above `most`");
        }
        Blocks { least, most, seed, idle_max: Duration::from_secs_f64(idle) }
    }

    fn engines(&mut self, mut table: Section<'_>) -> Engines {
        let line = table.line;
        let workers = table.numbers(&keys::WORKERS, self.found);
        let urls = table.texts("urls", self.found);
        let ready = self.number(&mut table, &keys::READY_S_MAX);
        let command = self.command(&mut table, ready);
        let health = self.part(&mut table, "health", "/health");
        let reset = self.hook(&mut table);
        let metrics = self.part(&mut table, "metrics", "/metrics");
        table.finish(self.found);
        let urls: Vec<String> = urls.into_iter().map(|at| self.url(&at)).collect();
        if command.is_none() == urls.is_empty() {
            let what = "`[engines]` has to have either a `command` or `urls`";
            self.found.add(line, what, "a command starts one worker; urls are there already");
        }
        if command.is_some() && workers.is_empty() {
            self.found.add(line, "`[engines]` has no `workers`", "say how many are started");
        }
        let mut counts: Vec<u32> = workers.iter().map(|at| at.value as u32).collect();
        if let Some(most) = counts.iter().max().filter(|_| command.is_none())
            && *most as usize > urls.len()
        {
            let what = format!("{most} workers, and {} urls", urls.len());
            self.found.add(line, what, "give as many urls as the largest number of workers");
        }
        if counts.is_empty() {
            counts.push(urls.len() as u32);
        }
        counts.sort_unstable();
        counts.dedup();
        Engines { workers: counts, command, urls, health, reset, metrics }
    }

    fn arm(
        &mut self,
        mut table: Section<'_>,
        has_engines: bool,
        names: &mut Vec<String>,
    ) -> Option<Arm> {
        let line = table.line;
        let name = table.text("name", self.found);
        let ready = self.number(&mut table, &keys::ARM_READY_S_MAX);
        let command = self.command(&mut table, ready);
        let url = table.text("url", self.found).map(|at| self.url(&at));
        let health = self.part(&mut table, "health", "/health");
        let reset = self.hook(&mut table);
        let metrics = table.text("metrics", self.found).map(|at| at.value);
        let metrics_url = table.text("metrics_url", self.found).map(|at| at.value);
        let refusals: Vec<String> =
            table.texts("refusals", self.found).into_iter().map(|at| at.value).collect();
        let model = table.text("model", self.found).map(|at| at.value);
        let headers = self.headers(&mut table);
        let key_env = table.text("key_env", self.found).map(|at| at.value);
        let mode = table.text("mode", self.found);
        table.finish(self.found);
        let mode = mode.and_then(|mode| {
            let parsed = mode.value.parse();
            parsed
                .map_err(|error: forebay_core::UnknownMode| {
                    self.found.add(mode.line, error.to_string(), "choose one of them");
                })
                .ok()
        });
        let needs_workers = |command: &Command| {
            let config = command.config.iter();
            command.words.iter().chain(config).any(|text| text.contains("{worker_url"))
        };
        if !has_engines && command.as_ref().is_some_and(needs_workers) {
            let what = "the command names workers, and there are no `[engines]`";
            self.found.add(line, what, "add `[engines]`, or name the workers in the command");
        }
        if !refusals.is_empty() && metrics.is_none() {
            let what = "the refusals are to be counted, and no `metrics` say where";
            self.found.add(line, what, "add metrics = \"/metrics\"");
        }
        let name = self.arm_name(line, name, names)?;
        let url = match (url, &command) {
            (Some(url), _) => url,
            (None, Some(_)) => "http://127.0.0.1:{port}".to_owned(),
            (None, None) => {
                let what = format!("arm `{name}` has neither `url` nor `command`");
                self.found.add(line, what, "say where it is, or how it is started");
                return None;
            }
        };
        Some(Arm {
            name,
            command,
            url,
            health,
            reset,
            metrics,
            metrics_url,
            refusals,
            model,
            headers,
            key_env,
            mode,
        })
    }

    /// The name of an arm, which is that of a folder as well.
    fn arm_name(
        &mut self,
        line: usize,
        name: Option<At<String>>,
        names: &mut Vec<String>,
    ) -> Option<String> {
        let Some(name) = name else {
            self.found.add(line, "an arm has no `name`", "name it: it is a row of the table");
            return None;
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let plain = !name.value.starts_with('.') && name.value.chars().all(is_plain);
        if name.value.is_empty() || !plain || name.value.len() > 64 {
            let what = format!("an arm can't be named {:?}", name.value);
            self.found.add(name.line, what, "letters, digits, `-`, `_` and `.`: it names a folder");
        }
        if names.contains(&name.value) {
            let what = format!("there are two arms `{}`", name.value);
            self.found.add(name.line, what, "give each arm a name of its own");
        }
        names.push(name.value.clone());
        Some(name.value)
    }

    fn command(&mut self, table: &mut Section<'_>, ready: f64) -> Option<Command> {
        let words = table.texts("command", self.found);
        let stop = table.texts("stop", self.found);
        let config = table.text("config", self.found);
        for text in words.iter().chain(&stop).chain(&config) {
            if let Some(name) = fill::unknown(&text.value) {
                let what = format!("nothing stands for {{{name}}}");
                let names = fill::NAMES.map(|name| format!("{{{name}}}")).join(", ");
                self.found.add(text.line, what, format!("there are {names}"));
            }
        }
        if words.is_empty() {
            if let Some(line) = stop.first().or(config.as_ref()).map(|at| at.line) {
                let what = "there is `stop` or `config`, and no `command`";
                self.found.add(line, what, "add the command that they belong to");
            }
            return None;
        }
        let plain = |texts: Vec<At<String>>| texts.into_iter().map(|at| at.value).collect();
        Some(Command {
            words: plain(words),
            stop: plain(stop),
            config: config.map(|at| at.value),
            ready_max: Duration::from_secs_f64(ready),
        })
    }

    fn hook(&mut self, table: &mut Section<'_>) -> Option<Hook> {
        let at = table.text("reset", self.found)?;
        let hook = match at.value.split_once(' ') {
            Some(("POST", path)) => Some((http::Method::POST, path)),
            Some(("GET", path)) => Some((http::Method::GET, path)),
            _ => None,
        };
        let Some((verb, path)) = hook.filter(|(_, path)| path.starts_with('/')) else {
            let what = format!("{:?} is no request", at.value);
            self.found.add(at.line, what, "write it as \"POST /reset_prefix_cache\"");
            return None;
        };
        Some(Hook { verb, path: path.to_owned() })
    }

    fn exporter(&mut self, mut table: Section<'_>) -> Option<Exporter> {
        let line = table.line;
        let name = table.text("name", self.found);
        let url = table.text("url", self.found);
        let metrics = table.texts("metrics", self.found);
        table.finish(self.found);
        if name.is_none() || url.is_none() {
            let what = "an exporter has a `name` and a `url`";
            self.found.add(line, what, "such as \"gpu\" and \"http://10.0.0.7:9400/metrics\"");
        }
        let metrics = metrics.into_iter().map(|at| at.value).collect();
        Some(Exporter { name: name?.value, url: url.map(|at| self.url(&at))?, metrics })
    }

    fn simulated(&mut self, mut table: Section<'_>) -> Option<Preset> {
        let line = table.line;
        let engine = table.text("engine", self.found);
        table.finish(self.found);
        let Some(engine) = engine else {
            self.found.add(line, "`[simulated]` has no `engine`", "name a preset");
            return None;
        };
        match Preset::resolve(&engine.value) {
            Ok(preset) => Some(preset),
            Err(error) => {
                self.told(engine.line, &error.to_string());
                None
            }
        }
    }

    fn criteria(&mut self, file: Option<At<String>>) -> Option<Held> {
        let path = file.as_ref().map(|at| self.path(&at.value));
        let read = Held::load(path.as_deref());
        let line = file.map_or(1, |at| at.line);
        read.map_err(|error| self.told(line, &error.to_string())).ok()
    }

    /// Adds what another reader has said; it has its hint with it.
    fn told(&mut self, line: usize, error: &str) {
        let (what, remedy) = error.split_once("\nhint: ").unwrap_or((error, "see its form"));
        self.found.add(line, what, remedy);
    }

    fn url(&mut self, at: &At<String>) -> String {
        let trimmed = at.value.trim_end_matches('/');
        let has_scheme = trimmed.starts_with("http://") || trimmed.starts_with("https://");
        if !has_scheme {
            let what = format!("{:?} is no URL", at.value);
            self.found.add(at.line, what, "write it as http://HOST:PORT");
        }
        trimmed.to_owned()
    }

    fn part(&mut self, table: &mut Section<'_>, key: &'static str, otherwise: &str) -> String {
        let Some(at) = table.text(key, self.found) else { return otherwise.to_owned() };
        if !at.value.starts_with('/') {
            self.found.add(at.line, format!("`{key}` is no path"), "begin it with `/`");
        }
        at.value
    }

    fn number(&mut self, table: &mut Section<'_>, key: &Key) -> f64 {
        table.number(key, self.found).map_or_else(|| key.value(), |at| at.value)
    }

    fn path(&self, text: &str) -> PathBuf {
        self.folder.join(text)
    }
}

#[cfg(test)]
mod tests;
