//! Holds a live drill: every cell, round by round, until the criteria are settled.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use super::block::{Done, Seen, Setting};
use super::design::{Arm, Cell, Design};
use super::error::LiveError;
use super::process;
use super::requests::Block;
use super::sending::Ready;
use super::simulated::{self, Simulated};
use super::start::Fleet;
use crate::compare::{self, Comparison, ServerCount};
use crate::drill::verdict::Outcome;
use crate::load::{Tokenizer, Words};
use crate::results::{FolderOptions, Results, RunFolder};
use crate::stats::looks;

/// The file of a drill's folder that holds the comparison of each cell.
pub const COMPARISON_FILE: &str = "comparison.json";
/// The copy of the drill's own file.
pub const DESIGN_FILE: &str = "drill.toml";
/// What is left of the confidence when nobody looks twice.
const CONFIDENCE: f64 = 0.95;

/// What came of a drill.
#[derive(Debug)]
pub struct Drill {
    /// What it was.
    pub design: Design,
    /// Every cell that was begun.
    pub cells: Vec<CellDone>,
    /// It was stopped before its end.
    pub was_interrupted: bool,
}

/// One cell.
#[derive(Debug)]
pub struct CellDone {
    /// Which.
    pub cell: Cell,
    /// Rounds that every arm has run.
    pub rounds: u32,
    /// Each arm's blocks, in the order of the arms.
    pub blocks: Vec<Vec<Done>>,
    /// The same requests simulated, for the arms that have a mode.
    pub simulated: Vec<Option<Simulated>>,
    /// What the blocks come to; `None` before the first round has ended.
    pub comparison: Option<Comparison>,
}

/// What happens while a drill is held.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A block of an arm begins.
    Begins {
        /// The cell.
        cell: Cell,
        /// The round, from 0.
        round: u32,
        /// The arm.
        arm: &'a str,
    },
    /// It has ended.
    Ended {
        /// The cell.
        cell: Cell,
        /// The round, from 0.
        round: u32,
        /// The arm.
        arm: &'a str,
        /// What it came to.
        done: &'a Done,
    },
    /// The criteria of a cell are settled.
    Settled {
        /// The cell.
        cell: Cell,
        /// Rounds that were run.
        rounds: u32,
    },
}

impl Design {
    /// Refuses a folder that a drill can't be written to, before anything is started.
    pub fn check(&self, out: &Path) -> Result<(), LiveError> {
        match fs::read_dir(out) {
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => Err(LiveError::Taken(out.to_owned())),
            },
            Err(said) if said.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(said) => Err(LiveError::Unwritable { file: out.to_owned(), said }),
        }
    }
}

/// Holds the drill, and writes every run below `out`. Once `stop` is ready, the block under way is
/// given up, and what the complete rounds come to is the result.
pub async fn hold(
    design: Design,
    out: &Path,
    mut tell: impl FnMut(Event<'_>),
    stop: impl Future<Output = ()>,
) -> Result<Drill, LiveError> {
    let mut stop = std::pin::pin!(stop);
    let ready = design.ready()?;
    let logs = out.join("logs");
    fs::create_dir_all(&logs).map_err(unwritable(&logs))?;
    let copy = out.join(DESIGN_FILE);
    let text = fs::read(&design.file).map_err(unwritable(&design.file))?;
    fs::write(&copy, text).map_err(unwritable(&copy))?;
    let words = match &design.load.tokenizer {
        None => Words::letters(),
        Some(folder) => Tokenizer::open(folder)?.words()?,
    };
    let mut drill = Drill { design, cells: Vec::new(), was_interrupted: false };
    for cell in drill.design.cells() {
        let mut done = CellDone::empty(cell, drill.design.arms.len());
        let mut holder = Holder {
            design: &drill.design,
            ready: &ready,
            out,
            logs: &logs,
            words: &words,
            tell: &mut tell,
        };
        let ended = holder.cell(&mut done, stop.as_mut()).await;
        // What was measured before a fault is kept on disk, and the fault ends the drill.
        let was_stopped = ended?;
        drill.cells.push(done);
        if was_stopped {
            drill.was_interrupted = true;
            break;
        }
    }
    write_json(&out.join(COMPARISON_FILE), &drill.value())?;
    Ok(drill)
}

struct Holder<'a, T> {
    design: &'a Design,
    ready: &'a Ready,
    out: &'a Path,
    logs: &'a Path,
    words: &'a Words,
    tell: &'a mut T,
}

impl<T: FnMut(Event<'_>)> Holder<'_, T> {
    /// Runs a cell; whether it was stopped.
    async fn cell<S: Future<Output = ()>>(
        &mut self,
        done: &mut CellDone,
        mut stop: Pin<&mut S>,
    ) -> Result<bool, LiveError> {
        let (design, cell) = (self.design, done.cell);
        let fleet = match &design.engines {
            None => Fleet::none(self.ready),
            Some(engines) => {
                let whole = (design, self.ready);
                tokio::select! {
                    fleet = Fleet::start(engines, cell.workers, whole, self.logs) => fleet?,
                    () = stop.as_mut() => return Ok(true),
                }
            }
        };
        for round in 0..design.blocks.most {
            let requests = Block::of(design, cell, round)?;
            for request in &requests.requests {
                self.ready.names.of(request)?;
            }
            for place in design.order(round) {
                let arm = &design.arms[place];
                (self.tell)(Event::Begins { cell, round, arm: &arm.name });
                let setting = Setting {
                    design,
                    cell,
                    round,
                    arm,
                    place,
                    ready: self.ready,
                    fleet: &fleet,
                    requests: &requests,
                    words: self.words,
                    logs: self.logs,
                };
                let block = tokio::select! {
                    block = setting.run() => block?,
                    () = stop.as_mut() => {
                        done.blocks.iter_mut().for_each(|blocks| blocks.truncate(round as usize));
                        done.compare(design)?;
                        return Ok(true);
                    }
                };
                self.write(cell, round, &arm.name, &block)?;
                (self.tell)(Event::Ended { cell, round, arm: &arm.name, done: &block });
                done.blocks[place].push(block);
            }
            done.rounds = round + 1;
            if let Some(preset) = &design.simulated {
                simulated::add(&mut done.simulated, design, cell, preset, &requests)?;
            }
            if done.rounds >= design.blocks.least {
                done.compare(design)?;
                if done.is_settled() && done.rounds < design.blocks.most {
                    (self.tell)(Event::Settled { cell, rounds: done.rounds });
                    break;
                }
            }
        }
        Ok(false)
    }

    /// Writes a block's run, and what the servers say of it beside it.
    fn write(&self, cell: Cell, round: u32, arm: &str, block: &Done) -> Result<(), LiveError> {
        let folder = self.out.join(cell.name()).join(arm);
        fs::create_dir_all(&folder).map_err(unwritable(&folder))?;
        let started_unix_ms = block.run.about.started_unix_ms;
        let options = FolderOptions { started_unix_ms, aiperf: true };
        let name = format!("block-{:02}", round + 1);
        let mut run = RunFolder::create(&folder.join(&name), options)?;
        block.run.rows.iter().try_for_each(|row| run.push(row))?;
        run.finish(&block.run.about)?;
        write_json(&folder.join(format!("{name}.servers.json")), &block.seen)
    }
}

impl CellDone {
    fn empty(cell: Cell, arms: usize) -> Self {
        let blocks = (0..arms).map(|_| Vec::new()).collect();
        let simulated = (0..arms).map(|_| None).collect();
        Self { cell, rounds: 0, blocks, simulated, comparison: None }
    }

    /// Compares the complete rounds. Every look at growing data costs a part of the error that a
    /// verdict may make.
    fn compare(&mut self, design: &Design) -> Result<(), LiveError> {
        if self.rounds == 0 {
            return Ok(());
        }
        let blocks = design.blocks;
        let planned = blocks.most - blocks.least + 1;
        let nth = self.rounds.saturating_sub(blocks.least) + 1;
        let alpha = looks::alpha_at(1.0 - CONFIDENCE, nth, planned);
        let options = compare::Options {
            seed: blocks.seed,
            confidence: 1.0 - alpha,
            ..compare::Options::default()
        };
        let arms = self.arms(design);
        self.comparison = Some(compare::compare(&arms, &design.criteria, &options)?);
        Ok(())
    }

    /// The arms with their runs, as they are compared.
    pub fn arms(&self, design: &Design) -> Vec<compare::Arm> {
        let arm = |(arm, blocks): (&Arm, &Vec<Done>)| {
            let from = format!("{}/{}", self.cell.name(), arm.name);
            let block = |(nth, done): (usize, &Done)| compare::Block {
                from: format!("{from}/block-{nth:02}"),
                results: Results::Run(Box::new(done.run.clone())),
            };
            compare::Arm { label: arm.name.clone(), runs: (1..).zip(blocks).map(block).collect() }
        };
        design.arms.iter().zip(&self.blocks).map(arm).collect()
    }

    /// What the servers of the arms counted, by name; nothing of an arm that does not count.
    pub fn counted(&self, design: &Design) -> BTreeMap<String, ServerCount> {
        let count = |(arm, blocks): (&Arm, &Vec<Done>)| {
            // What an invalid run was refused stands nowhere else either.
            let valid = || blocks.iter().filter(|done| done.run.about.is_valid());
            // One whose page could not be read agrees with nobody, whatever the others counted.
            let is_asked = |done: &&Done| !done.seen.refusals_unreadable;
            let known = valid().filter(is_asked).map(|done| done.seen.refused_by_server);
            let refused = known.sum::<Option<u64>>()?;
            let agrees = valid().all(|done| done.seen.agrees() == Some(true));
            let count = ServerCount { refused, agrees: Some(agrees) };
            (valid().count() > 0).then(|| (arm.name.clone(), count))
        };
        design.arms.iter().zip(&self.blocks).filter_map(count).collect()
    }

    /// Whether every arm has a verdict that more blocks would not be run for.
    fn is_settled(&self) -> bool {
        self.comparison.as_ref().is_some_and(|comparison| {
            comparison.arms.iter().all(|arm| arm.outcome.0 != Outcome::Inconclusive)
        })
    }

    /// Whether servers counted other refusals than clients saw: arm, round from 1, and both.
    pub fn disagreements<'a>(
        &'a self,
        design: &'a Design,
    ) -> impl Iterator<Item = (&'a str, usize, &'a Seen)> {
        design.arms.iter().zip(&self.blocks).flat_map(|(arm, blocks)| {
            let blocks = (1..).zip(blocks).filter(|(_, done)| done.seen.agrees() == Some(false));
            blocks.map(|(round, done)| (arm.name.as_str(), round, &done.seen))
        })
    }

    /// Programs that ended while they were needed: arm, round from 1, and what is to be said.
    pub fn deaths<'a>(
        &'a self,
        design: &'a Design,
    ) -> impl Iterator<Item = (&'a str, usize, &'a str)> {
        design.arms.iter().zip(&self.blocks).flat_map(|(arm, blocks)| {
            (1..).zip(blocks).flat_map(move |(round, done)| {
                let notes = done.run.about.notes.iter();
                let deaths = notes.filter(|note| note.contains(process::ENDED));
                deaths.map(move |note| (arm.name.as_str(), round, note.as_str()))
            })
        })
    }

    /// What the simulation beside it came to, by name of the arm.
    pub fn simulated(&self, design: &Design) -> BTreeMap<String, simulated::Figures> {
        let arms = design.arms.iter().zip(&self.simulated);
        arms.filter_map(|(arm, all)| Some((arm.name.clone(), all.as_ref()?.figures()))).collect()
    }

    fn json(&self, design: &Design) -> Option<serde_json::Value> {
        let comparison = serde_json::to_value(self.comparison.as_ref()?).ok()?;
        Some(serde_json::json!({
            "cell": self.cell.name(),
            "workers": self.cell.workers,
            "load": self.cell.load,
            "rounds": self.rounds,
            "comparison": comparison,
            "simulated": self.simulated(design),
        }))
    }
}

impl Drill {
    /// The worst verdict on the arm under test over all cells, but inconclusive where the drill was
    /// stopped, or where a server contradicts its clients.
    pub fn outcome(&self) -> Outcome {
        let under_test = self.cells.iter().map(|cell| {
            let arm = cell.comparison.as_ref().and_then(|comparison| comparison.arms.last());
            arm.map_or(Outcome::Inconclusive, |arm| arm.outcome.0)
        });
        let outcomes: Vec<Outcome> = under_test.collect();
        let is_contradicted =
            self.cells.iter().any(|cell| cell.disagreements(&self.design).next().is_some());
        if outcomes.contains(&Outcome::NoGo) && !is_contradicted {
            return Outcome::NoGo;
        }
        let is_open = outcomes.is_empty()
            || outcomes.contains(&Outcome::Inconclusive)
            || is_contradicted
            || self.was_interrupted;
        if is_open { Outcome::Inconclusive } else { Outcome::Go }
    }

    /// The exit code: that of the verdict.
    pub fn exit_code(&self) -> u8 {
        self.outcome().exit_code()
    }

    /// Every cell's comparison as one line of JSON.
    pub fn json(&self) -> String {
        self.value().to_string() + "\n"
    }

    fn value(&self) -> serde_json::Value {
        self.cells.iter().filter_map(|cell| cell.json(&self.design)).collect()
    }
}

fn write_json(file: &Path, value: &impl serde::Serialize) -> Result<(), LiveError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from);
    let written = text.and_then(|text| fs::write(file, text + "\n"));
    written.map_err(unwritable(file))
}

fn unwritable(file: &Path) -> impl FnOnce(io::Error) -> LiveError {
    let file: PathBuf = file.to_owned();
    move |said| LiveError::Unwritable { file, said }
}
