//! Turns a service file as typed into what is meant, and finds what contradicts itself.

use std::collections::BTreeMap;
use std::str::FromStr;

use forebay_core::{
    Bucket, ClassSettings, GateSettings, Limits, Mode, Overload, PoolId, Span, TenantSettings,
};

use super::defaults as keys;
use super::defaults::{Count, Key};
use super::document::{ClassTable, Document, GateTable, LimitsTable, PoolTable, TenantTable};
use super::reader::{At, Gathered, listed, nearest};
use super::{Class, MAIN_POOL, Pool, Service, Tenant};
use crate::engine::Preset;

/// What a class does about overload, as it is spelt.
const OVERLOADS: [&str; 3] = ["queue", "shed", "spill"];
/// The wait that a class accepts which spills without naming a limit: too short to be felt, and
/// long enough not to send away what would start at once.
const SPILL_WAIT: Span = Span::secs(1);
/// Stands for a pool that is not there. Only in files with faults, which nobody acts on.
const NO_POOL: PoolId = PoolId(u16::MAX);

/// What the document means. Where it has faults the result only serves to look for more of them.
pub(super) fn resolve(document: &Document, found: &mut Gathered) -> Service {
    if document.classes.is_empty() {
        let remedy = "add one: `[[class]]`, `name = \"public\"`, `overload = \"queue\"`";
        found.add(1, "the file has no class of service", remedy);
    }
    // With more, numbers would not tell them apart, so nothing else is looked at.
    let classes = document.classes.get(keys::CLASSES_MAX.most).map(|table| table.line);
    let pools = document.pools.get(keys::POOLS_MAX.most).map(|table| table.line);
    too_many(&keys::CLASSES_MAX, classes, document.classes.len(), found);
    too_many(&keys::POOLS_MAX, pools, document.pools.len(), found);
    if classes.or(pools).is_some() {
        return single();
    }
    unique("[[class]]", document.classes.iter().map(|table| (&table.name, table.line)), found);
    unique("[[tenant]]", document.tenants.iter().map(|table| (&table.name, table.line)), found);
    unique("[[pool]]", document.pools.iter().map(|table| (&table.name, table.line)), found);

    let pools: Vec<Pool> =
        document.pools.iter().map(|table| pool(table, document, found)).collect();
    let classes: Vec<Class> =
        document.classes.iter().map(|table| class(table, document, found)).collect();
    loops(document, &classes, &pools, found);
    let tenants: Vec<Tenant> =
        document.tenants.iter().map(|table| tenant(table, document, found)).collect();
    some_traffic("[[class]]", document.classes.first().map(|table| table.line), &classes, found);
    some_traffic("[[tenant]]", document.tenants.first().map(|table| table.line), &tenants, found);

    let plain = single();
    Service {
        classes,
        tenants: if tenants.is_empty() { plain.tenants } else { tenants },
        tenant_default: document
            .tenant_default
            .as_ref()
            .map_or(plain.tenant_default, |table| entitled(table, found)),
        pools,
        gate: gate(&document.gate, found),
        limits: limits(&document.limits),
    }
}

/// A fault, where there is a table beyond the last that may be there.
fn too_many(count: &Count, line: Option<usize>, tables: usize, found: &mut Gathered) {
    if let Some(line) = line {
        let Count { table, most, why } = count;
        let what = format!("{tables} tables `[[{table}]]`, of at most {most}");
        found.add(line, what, format!("leave some out: {why}"));
    }
}

/// One class that queues without a limit of time, one tenant, no other pool.
pub(super) fn single() -> Service {
    let entitled = TenantSettings { weight: 1, rate: None, tokens: None, concurrency_max: None };
    let settings = ClassSettings {
        overload: Overload::Queue,
        wait_max: None,
        queue_len_max: keys::SINGLE_QUEUE_LEN_MAX,
        share: keys::SHARE.value() as u32,
        ageing: keys::AGEING.value(),
        promise: keys::PROMISE.value(),
    };
    let name = "default".to_owned();
    let class = Class { name: name.clone(), settings, traffic: 1.0, reject_share_max: None };
    Service {
        classes: vec![class],
        tenants: vec![Tenant { name, settings: entitled, class: None, traffic: 1.0 }],
        tenant_default: entitled,
        pools: Vec::new(),
        gate: gate(&GateTable::default(), &mut Gathered::new("")),
        limits: limits(&LimitsTable::default()),
    }
}

fn or_default(typed: Option<&At<f64>>, key: &Key) -> f64 {
    typed.map_or_else(|| key.value(), |at| at.value)
}

fn class(table: &ClassTable, document: &Document, found: &mut Gathered) -> Class {
    let overload = overload(table, document, found);
    let typed_wait = table.wait_ms_max.as_ref().map(|at| Span::millis(at.value as u64));
    let wait_max = match overload {
        Overload::Queue => typed_wait,
        Overload::Shed => {
            if typed_wait.is_none() {
                let what = "a class that sheds has no `wait_ms_max`";
                let remedy = "say what wait is still accepted, such as `wait_ms_max = 2000`";
                found.add(table.line, what, remedy);
            }
            typed_wait
        }
        Overload::Spill(_) => Some(typed_wait.unwrap_or(SPILL_WAIT)),
    };
    Class {
        name: table.name.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        settings: ClassSettings {
            overload,
            wait_max,
            queue_len_max: or_default(table.queue_len_max.as_ref(), &keys::QUEUE_LEN_MAX) as u32,
            share: or_default(table.share.as_ref(), &keys::SHARE) as u32,
            ageing: or_default(table.ageing.as_ref(), &keys::AGEING),
            promise: or_default(table.promise.as_ref(), &keys::PROMISE),
        },
        traffic: or_default(table.traffic.as_ref(), &keys::TRAFFIC),
        reject_share_max: table.reject_share_max.as_ref().map(|at| at.value),
    }
}

fn overload(table: &ClassTable, document: &Document, found: &mut Gathered) -> Overload {
    let choice = "`queue` waits, `shed` refuses at arrival, `spill` goes to another pool";
    let Some(typed) = &table.overload else {
        found.add(
            table.line,
            "a class does not say what happens under overload",
            format!("choose one: `overload = \"queue\"`; {choice}"),
        );
        return Overload::Queue;
    };
    if typed.value != "spill"
        && let Some(target) = &table.spill_to
    {
        found.add(
            target.line,
            format!("a class names a pool to spill to, but its overload is `{}`", typed.value),
            "leave `spill_to` out, or say `overload = \"spill\"`",
        );
    }
    match typed.value.as_str() {
        "queue" => Overload::Queue,
        "shed" => Overload::Shed,
        "spill" => Overload::Spill(spill_to(table, typed.line, document, found)),
        other => {
            let remedy = match nearest(other, OVERLOADS.into_iter()) {
                Some(near) => format!("did you mean `{near}`? {choice}"),
                None => choice.to_owned(),
            };
            found.add(typed.line, format!("unknown overload `{other}`"), remedy);
            Overload::Queue
        }
    }
}

/// Where a class that spills does so. No pool at all is a fault.
fn spill_to(table: &ClassTable, line: usize, document: &Document, found: &mut Gathered) -> PoolId {
    if let Some(target) = &table.spill_to {
        return pool_id(target, document, found);
    }
    let pools = pool_names(document);
    let remedy = if pools.is_empty() {
        "add a `[[pool]]` and name it: `spill_to = \"overnight\"`".to_owned()
    } else {
        format!("add `spill_to`; the pools are {pools}")
    };
    found.add(line, "a class that spills does not say where to", remedy);
    NO_POOL
}

fn pool_names(document: &Document) -> String {
    listed(document.pools.iter().filter_map(|pool| pool.name.as_ref()).map(|at| at.value.as_str()))
}

/// The pool of this name. An unknown one is a fault, and stands for none.
fn pool_id(target: &At<String>, document: &Document, found: &mut Gathered) -> PoolId {
    if target.value == MAIN_POOL {
        return PoolId(0);
    }
    let names = || document.pools.iter().filter_map(|pool| pool.name.as_ref());
    let place = document
        .pools
        .iter()
        .position(|pool| pool.name.as_ref().is_some_and(|name| name.value == target.value));
    if let Some(place) = place {
        return PoolId(place as u16 + 1);
    }
    let remedy = match nearest(&target.value, names().map(|at| at.value.as_str())) {
        Some(near) => format!("did you mean `{near}`?"),
        None if document.pools.is_empty() => {
            format!("add it: `[[pool]]`, `name = \"{}\"`, `workers = 2`", target.value)
        }
        None => format!("the pools are {}", pool_names(document)),
    };
    found.add(target.line, format!("unknown pool `{}`", target.value), remedy);
    NO_POOL
}

fn pool(table: &PoolTable, document: &Document, found: &mut Gathered) -> Pool {
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
    if let Some(engine) = &table.engine
        && let Err(error) = Preset::resolve(&engine.value)
    {
        for fault in error.faults {
            let place = fault.line.map_or_else(String::new, |line| format!(":{line}"));
            let what = format!("engine {}{place}: {}", fault.file.display(), fault.what);
            found.add(engine.line, what, fault.remedy);
        }
    }
    let mode = table.mode.as_ref().and_then(|typed| match Mode::from_str(&typed.value) {
        Ok(mode) => Some(mode),
        Err(error) => {
            let names = Mode::ALL.map(Mode::name);
            let near = nearest(&typed.value, names.into_iter()).unwrap_or("hold");
            found.add(typed.line, error.to_string(), format!("did you mean `{near}`?"));
            None
        }
    });
    Pool {
        name: table.name.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        workers: table.workers.as_ref().map_or(1, |at| at.value as u32),
        engine: table.engine.as_ref().map(|at| at.value.clone()),
        mode,
        spill_to: table.spill_to.as_ref().map(|target| pool_id(target, document, found)),
    }
}

/// A request that spills in a circle would never run and never be refused.
fn loops(document: &Document, classes: &[Class], pools: &[Pool], found: &mut Gathered) {
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

fn tenant(table: &TenantTable, document: &Document, found: &mut Gathered) -> Tenant {
    let class = table.class.as_ref().and_then(|typed| {
        let names = document.classes.iter().filter_map(|class| class.name.as_ref());
        let known = document
            .classes
            .iter()
            .position(|class| class.name.as_ref().is_some_and(|name| name.value == typed.value));
        if known.is_none() {
            let remedy = match nearest(&typed.value, names.clone().map(|at| at.value.as_str())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the classes are {}", listed(names.map(|at| at.value.as_str()))),
            };
            found.add(typed.line, format!("unknown class `{}`", typed.value), remedy);
        }
        known
    });
    Tenant {
        name: table.name.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        settings: entitled(table, found),
        class,
        traffic: or_default(table.traffic.as_ref(), &keys::TENANT_TRAFFIC),
    }
}

fn entitled(table: &TenantTable, found: &mut Gathered) -> TenantSettings {
    let mut bucket = |rate: Option<&At<f64>>, burst: Option<&At<f64>>, seconds: f64, key: &Key| {
        if let (None, Some(burst)) = (rate, burst) {
            let what = "a burst is given without the rate that it exceeds";
            found.add(burst.line, what, format!("add `{}`, or leave the burst out", key.name));
        }
        rate.map(|rate| Bucket {
            per_second: rate.value,
            burst: burst.map_or((rate.value * seconds).max(1.0), |burst| burst.value),
        })
    };
    let rate =
        bucket(table.requests_per_s.as_ref(), table.requests_burst.as_ref(), 1.0, &keys::RATE);
    let tokens =
        bucket(table.tokens_per_s.as_ref(), table.tokens_burst.as_ref(), 60.0, &keys::TOKENS);
    TenantSettings {
        weight: or_default(table.weight.as_ref(), &keys::WEIGHT) as u32,
        rate,
        tokens,
        concurrency_max: table.concurrency_max.as_ref().map(|at| at.value as u32),
    }
}

fn gate(table: &GateTable, found: &mut Gathered) -> GateSettings {
    let start = or_default(table.fraction_start.as_ref(), &keys::FRACTION);
    let min = or_default(table.fraction_min.as_ref(), &keys::FRACTION_MIN);
    let max = or_default(table.fraction_max.as_ref(), &keys::FRACTION_MAX);
    let typed = [&table.fraction_start, &table.fraction_min, &table.fraction_max];
    if !(min <= start && start <= max)
        && let Some(at) = typed.into_iter().flatten().next()
    {
        let what = format!("[gate] starts at {start}, which is not within {min} to {max}");
        found.add(at.line, what, "keep fraction_min ≤ fraction_start ≤ fraction_max");
    }
    GateSettings {
        fraction_start: start,
        fraction_min: min,
        fraction_max: max,
        backlog_steps_max: or_default(table.backlog_steps_max.as_ref(), &keys::BACKLOG_STEPS),
    }
}

fn limits(table: &LimitsTable) -> Limits {
    let count = |typed: &Option<At<f64>>, key: &Key| or_default(typed.as_ref(), key) as u32;
    Limits {
        queue_len_max: count(&table.queue_len_max, &keys::ALL_QUEUE_LEN_MAX),
        running_max: count(&table.running_max, &keys::RUNNING_MAX),
        workers_max: count(&table.workers_max, &keys::WORKERS_MAX),
        tenants_max: count(&table.tenants_max, &keys::TENANTS_MAX),
        means_max: count(&table.means_max, &keys::MEANS_MAX),
        promises_max: count(&table.promises_max, &keys::PROMISES_MAX),
        attempts_max: count(&table.attempts_max, &keys::ATTEMPTS_MAX),
        retry_after_max: Span::secs(or_default(
            table.retry_after_s_max.as_ref(),
            &keys::RETRY_AFTER_S_MAX,
        ) as u64),
        mark: Span::millis(or_default(table.mark_ms.as_ref(), &keys::MARK_MS) as u64),
    }
}

/// Names must be there, not empty, and unlike each other.
fn unique<'d>(
    title: &str,
    names: impl Iterator<Item = (&'d Option<At<String>>, usize)>,
    found: &mut Gathered,
) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, line) in names {
        match name {
            None => found.add(line, format!("{title} has no `name`"), "add `name = \"…\"`"),
            Some(name) if name.value.trim().is_empty() => {
                found.add(name.line, format!("{title} has an empty `name`"), "give it a name");
            }
            Some(name) => {
                if let Some(first) = seen.get(name.value.as_str()) {
                    let what = format!("{title} `{}` is there twice", name.value);
                    found.add(name.line, what, format!("rename one; the first is on line {first}"));
                } else {
                    seen.insert(&name.value, name.line);
                }
            }
        }
    }
}

/// Has a part of the traffic that the trace doesn't attribute.
trait Draws {
    fn traffic(&self) -> f64;
}

impl Draws for Class {
    fn traffic(&self) -> f64 {
        self.traffic
    }
}

impl Draws for Tenant {
    fn traffic(&self) -> f64 {
        self.traffic
    }
}

/// At least one must take the unnamed traffic.
fn some_traffic(title: &str, line: Option<usize>, all: &[impl Draws], found: &mut Gathered) {
    if let Some(line) = line
        && all.iter().all(|one| one.traffic() <= 0.0)
    {
        let what = format!("every {title} has `traffic` = 0, so nothing takes unnamed requests");
        found.add(line, what, "give one of them a traffic above 0");
    }
}
