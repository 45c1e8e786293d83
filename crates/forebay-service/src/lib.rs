//! Reads what was configured: classes, tenants and pools, from a file that a person writes.
//!
//! The file goes through two forms. `document.rs` holds it exactly as typed; `resolve.rs` turns
//! that into what is meant, and finds every fault on the way, not the first only. [`defaults`] is
//! the one table of what holds where nothing was said, with a reason for each. The lab and the
//! gateway read the same file with it, and neither knows the other.

pub mod defaults;
mod document;
mod pools;
pub mod reader;
mod resolve;
mod start;
#[cfg(test)]
mod tests;
pub mod text_file;

use std::fmt;
use std::path::{Path, PathBuf};

use forebay_core::{ClassSettings, GateSettings, Knowledge, Limits, Mode, Overload, PoolId};
use forebay_core::{Settings, TenantId, TenantSettings, Tokens};

pub use defaults::{COUNTS, Count, Key, NOTES, TABLE};
pub use pools::mode;
use reader::{Gathered, Section};
pub use resolve::{too_many, unique};
pub use start::Start;
use text_file::UnreadableFile;

/// The name of the pool whose fleet the command line gives.
pub const MAIN_POOL: &str = "main";

/// What happens at the door, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// The classes of service, at least one.
    pub classes: Vec<Class>,
    /// The tenants that the file names, at least one.
    pub tenants: Vec<Tenant>,
    /// What holds for a tenant that only the trace names.
    pub tenant_default: TenantSettings,
    /// The pools that classes may spill to; the fleet of the command line is not among them.
    pub pools: Vec<Pool>,
    /// The KV gate.
    pub gate: GateSettings,
    /// Bounds on everything that could grow.
    pub limits: Limits,
}

/// One class of service.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name in the trace, in tables and in metrics.
    pub name: String,
    /// What the core is told of it.
    pub settings: ClassSettings,
    /// Its part of the requests whose class the trace doesn't name, in relation to the others'.
    pub traffic: f64,
    /// The agreed share of refusals, 0 to 1: nothing enforces it, reports hold it against the
    /// facts.
    pub reject_share_max: Option<f64>,
}

/// One tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its name in the trace, in tables and in metrics.
    pub name: String,
    /// What the core is told of it.
    pub settings: TenantSettings,
    /// The class of its requests where the trace names none: a place in [`Service::classes`].
    pub class: Option<usize>,
    /// Its part of the requests whose tenant the trace doesn't name, in relation to the others'.
    pub traffic: f64,
}

/// A pool that others may spill to.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Number of its workers.
    pub workers: u32,
    /// Their preset; `None` takes that of the main pool's first worker.
    pub engine: Option<String>,
    /// How it chooses; `None` takes the main pool's mode.
    pub mode: Option<Mode>,
    /// Where it passes on what it can't run within the class's limit.
    pub spill_to: Option<PoolId>,
}

/// One fault of a file: where, what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Every fault of a file at once, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The file.
    pub file: PathBuf,
    /// Its faults, at least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, fault) in self.faults.iter().enumerate() {
            let gap = if nth == 0 { "" } else { "\n" };
            let file = self.file.display();
            write!(f, "{gap}{file}:{}: {}\nhint: {}", fault.line, fault.what, fault.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Why a service file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// It could not be read at all.
    #[error(transparent)]
    Unreadable(#[from] UnreadableFile),
    /// It was read, and these are its faults.
    #[error(transparent)]
    Faulty(#[from] Faults),
}

/// Says what is wrong with an engine of this name and what to do, fault by fault; nothing where it
/// is known. Which engines there are is not for this crate to know.
pub type EngineCheck<'a> = &'a dyn Fn(&str) -> Vec<(String, String)>;

impl Service {
    /// Reads a service file.
    pub fn load(file: &Path, check: EngineCheck<'_>) -> Result<Self, ServiceError> {
        Ok(Self::parse(file, &text_file::read(file)?, check)?)
    }

    /// Reads the text of a service file; `file` only names it in faults.
    pub fn parse(file: &Path, text: &str, check: EngineCheck<'_>) -> Result<Self, Faults> {
        let mut found = Gathered::new(text);
        let document = document::Document::read(text, &mut found);
        let service = resolve::resolve(&document, check, &mut found);
        found.finish(file, service)
    }

    /// Reads the tables of a service file that stand in a larger file. Without a class there is one
    /// that queues.
    pub fn part(root: &mut Section<'_>, check: EngineCheck<'_>, found: &mut Gathered) -> Self {
        let document = document::Document::part(root, found).or_plain();
        resolve::resolve(&document, check, found)
    }

    /// Reads the tables of a service file that stand in a larger file, all but its `[[pool]]`: the
    /// pools that classes spill to are `pools`, and their [`PoolId`]s are places in that list.
    pub fn door(root: &mut Section<'_>, pools: &[&str], found: &mut Gathered) -> Self {
        let document = document::Document::door(root, found).or_plain();
        resolve::door(&document, &pools::Pools::named(pools), found)
    }

    /// What holds without a file: one class that queues without a limit of time, and one tenant.
    pub fn single() -> Self {
        resolve::single()
    }

    /// What the core of one pool is told. [`PoolId`] 0 is the main pool, n the n-th of
    /// [`Service::pools`].
    ///
    /// Only the main pool applies the tenants' rates and limits of concurrency: what was let in
    /// there and then spilled is the same request, and must not be counted twice.
    pub fn settings(&self, pool: PoolId, door: Door) -> Settings {
        let class = |class: &Class| self.class_in(pool, class.settings);
        self.settings_of(self.classes.iter().map(class).collect(), pool.0 == 0, door)
    }

    /// What a core is told that has these classes, and through which requests come in (then it
    /// applies the tenants' rates and limits of concurrency) or are only spilled.
    pub fn settings_of(&self, classes: Vec<ClassSettings>, lets_in: bool, door: Door) -> Settings {
        let of_tenant = |settings: TenantSettings| {
            if lets_in {
                settings
            } else {
                TenantSettings { rate: None, tokens: None, concurrency_max: None, ..settings }
            }
        };
        let tenants = self.tenants.iter().enumerate();
        Settings {
            accepting: true,
            mode: door.mode,
            knowledge: door.knowledge,
            block_size: door.block_size,
            expected_output: door.expected_output,
            classes,
            tenant_default: of_tenant(self.tenant_default),
            tenants: tenants
                .map(|(nth, tenant)| (TenantId(nth as u32), of_tenant(tenant.settings)))
                .collect(),
            gate: self.gate,
            limits: self.limits,
        }
    }

    /// A class as a pool that is spilled to sees it: it queues there without a limit of time,
    /// unless that pool passes it on.
    fn class_in(&self, pool: PoolId, settings: ClassSettings) -> ClassSettings {
        let (Overload::Spill(_), Some(nth)) = (settings.overload, pool.0.checked_sub(1)) else {
            return settings;
        };
        match self.pools.get(usize::from(nth)).and_then(|pool| pool.spill_to) {
            Some(next) => ClassSettings { overload: Overload::Spill(next), ..settings },
            None => ClassSettings { overload: Overload::Queue, wait_max: None, ..settings },
        }
    }
}

/// What the command line says of one pool's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// How a worker is chosen, and whether requests are held.
    pub mode: Mode,
    /// Where knowledge of the caches comes from.
    pub knowledge: Knowledge,
    /// Tokens in one block.
    pub block_size: u32,
    /// A constant in place of the learned mean output.
    pub expected_output: Option<Tokens>,
}
