//! Finds the pools that classes and pools spill to, and the circles in which a request would go
//! round for ever.

use std::str::FromStr;

use forebay_core::{Mode, Overload, PoolId};

use crate::defaults as keys;
use crate::document::{ClassTable, Document, PoolTable};
use crate::reader::{At, Gathered, listed, nearest};
use crate::resolve::or_default;
use crate::{Class, EngineCheck, MAIN_POOL, Pool};

/// Stands for a pool that is not there. Only in files with faults, which nobody acts on.
const NO_POOL: PoolId = PoolId(u16::MAX);

/// The pools that may be spilled to, by name.
pub(crate) struct Pools<'a> {
    /// Whether number 0 is the main pool, which no file describes.
    has_main: bool,
    /// The names of the others, in the order of their numbers.
    names: Vec<Option<&'a str>>,
    /// What a pool needs besides its name.
    needs: &'static str,
}

impl<'a> Pools<'a> {
    /// Those of a service file, behind the fleet of the command line.
    pub(crate) fn beside_main(document: &'a Document) -> Self {
        let name = |pool: &'a PoolTable| pool.name.as_ref().map(|at| at.value.as_str());
        let names = document.pools.iter().map(name).collect();
        Self { has_main: true, names, needs: "workers = 2" }
    }

    /// Those that somebody else has read: `names` are in the order of their numbers, from 0.
    pub(crate) fn named(names: &[&'a str]) -> Self {
        let names = names.iter().copied().map(Some).collect();
        Self { has_main: false, names, needs: "worker = \"http://127.0.0.1:8000\"" }
    }

    fn known(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied().flatten()
    }

    /// The pool of this name. An unknown one is a fault, and stands for none.
    fn id(&self, target: &At<String>, found: &mut Gathered) -> PoolId {
        if self.has_main && target.value == MAIN_POOL {
            return PoolId(0);
        }
        let place = self.names.iter().position(|name| *name == Some(target.value.as_str()));
        if let Some(place) = place {
            return PoolId(place as u16 + u16::from(self.has_main));
        }
        let remedy = match nearest(&target.value, self.known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.names.is_empty() => {
                format!("add it: `[[pool]]`, `name = \"{}\"`, `{}`", target.value, self.needs)
            }
            None => format!("the pools are {}", listed(self.known())),
        };
        found.add(target.line, format!("unknown pool `{}`", target.value), remedy);
        NO_POOL
    }

    /// Where a class that spills does so. No pool at all is a fault.
    pub(crate) fn of_class(&self, table: &ClassTable, line: usize, found: &mut Gathered) -> PoolId {
        if let Some(target) = &table.spill_to {
            return self.id(target, found);
        }
        let remedy = if self.known().next().is_none() {
            "add a `[[pool]]` and name it: `spill_to = \"overnight\"`".to_owned()
        } else {
            format!("add `spill_to`; the pools are {}", listed(self.known()))
        };
        found.add(line, "a class that spills does not say where to", remedy);
        NO_POOL
    }
}

/// What one pool of a service file means.
pub(crate) fn pool(
    table: &PoolTable,
    document: &Document,
    check: EngineCheck<'_>,
    found: &mut Gathered,
) -> Pool {
    if let Some(name) = table.name.as_ref().filter(|name| name.value == MAIN_POOL) {
        let what = format!("a pool is called `{MAIN_POOL}`, the name of the command line's fleet");
        found.add(name.line, what, "call it something else");
    }
    if table.workers.is_none() {
        found.add(table.line, "a pool does not say how many workers it has", "add `workers = 2`");
    }
    let most = or_default(document.limits.workers_max.as_ref(), &keys::WORKERS_MAX);
    if let Some(workers) = table.workers.as_ref().filter(|workers| workers.value > most) {
        let what = format!("a pool of {} workers, of at most {most}", workers.value);
        found.add(workers.line, what, "name fewer, or raise `workers_max` under `[limits]`");
    }
    if let Some(engine) = &table.engine {
        for (what, remedy) in check(&engine.value) {
            found.add(engine.line, what, remedy);
        }
    }
    Pool {
        name: table.name.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        workers: table.workers.as_ref().map_or(1, |at| at.value as u32),
        engine: table.engine.as_ref().map(|at| at.value.clone()),
        mode: table.mode.as_ref().and_then(|typed| mode(typed, found)),
        spill_to: table
            .spill_to
            .as_ref()
            .map(|target| Pools::beside_main(document).id(target, found)),
    }
}

/// The mode of routing of this name. An unknown one is a fault.
pub fn mode(typed: &At<String>, found: &mut Gathered) -> Option<Mode> {
    match Mode::from_str(&typed.value) {
        Ok(mode) => Some(mode),
        Err(error) => {
            let names = Mode::ALL.map(Mode::name);
            let near = nearest(&typed.value, names.into_iter()).unwrap_or("hold");
            found.add(typed.line, error.to_string(), format!("did you mean `{near}`?"));
            None
        }
    }
}

/// A request that spills in a circle would never run and never be refused.
pub(crate) fn loops(document: &Document, classes: &[Class], pools: &[Pool], found: &mut Gathered) {
    let next = |pool: PoolId| {
        let nth = usize::from(pool.0).checked_sub(1)?;
        pools.get(nth).and_then(|pool| pool.spill_to)
    };
    for (table, pool) in document.pools.iter().zip(1_u16..) {
        let Some(typed) = &table.spill_to else { continue };
        let mut passed = Vec::new();
        let mut at = next(PoolId(pool));
        while let Some(here) = at
            && !passed.contains(&here)
        {
            passed.push(here);
            at = next(here);
        }
        if passed.contains(&PoolId(pool)) {
            let what = if passed[0] == PoolId(pool) { "itself" } else { "a circle of pools" };
            found.add(
                typed.line,
                format!("pool `{}` spills into {what}", pools[usize::from(pool) - 1].name),
                "a chain of spills must end in a pool without `spill_to`",
            );
        }
    }
    for (table, class) in document.classes.iter().zip(classes) {
        let Overload::Spill(mut at) = class.settings.overload else { continue };
        let mut steps = 0;
        while let Some(here) = next(at)
            && at.0 != 0
            && steps < pools.len()
        {
            at = here;
            steps += 1;
        }
        if at.0 == 0
            && let Some(typed) = &table.spill_to
        {
            found.add(
                typed.line,
                format!("class `{}` spills into the pool it comes from", class.name),
                format!("name a pool whose own spills do not lead back to `{MAIN_POOL}`"),
            );
        }
    }
}
