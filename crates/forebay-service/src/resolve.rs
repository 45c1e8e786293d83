//! Turns a service file as typed into what is meant, and finds what contradicts itself.

use std::collections::BTreeMap;

use forebay_core::{Bucket, ClassSettings, GateSettings, Limits, Overload, Span, TenantSettings};

use crate::defaults as keys;
use crate::defaults::{Count, Key};
use crate::document::{ClassTable, Document, GateTable, LimitsTable, TenantTable};
use crate::pools::{Pools, loops, pool};
use crate::reader::{At, Gathered, listed, nearest};
use crate::{Class, EngineCheck, Pool, Service, Tenant};

/// What a class does about overload, as it is spelt.
const OVERLOADS: [&str; 3] = ["queue", "shed", "spill"];
/// The wait that a class accepts which spills without naming a limit: too short to be felt, and
/// long enough not to send away what would start at once.
const SPILL_WAIT: Span = Span::secs(1);

/// What the document means. Where it has faults the result only serves to look for more of them.
pub(crate) fn resolve(
    document: &Document,
    check: EngineCheck<'_>,
    found: &mut Gathered,
) -> Service {
    // With more, numbers would not tell them apart, so nothing else is looked at.
    let lines = document.pools.iter().map(|table| table.line);
    if too_many(&keys::POOLS_MAX, lines, found) {
        return single();
    }
    unique("[[pool]]", document.pools.iter().map(|table| (&table.name, table.line)), found);
    let pools: Vec<Pool> =
        document.pools.iter().map(|table| pool(table, document, check, found)).collect();
    let door = door(document, &Pools::beside_main(document), found);
    loops(document, &door.classes, &pools, found);
    Service { pools, ..door }
}

/// What the document means for pools that it does not describe.
pub(crate) fn door(document: &Document, pools: &Pools<'_>, found: &mut Gathered) -> Service {
    if document.classes.is_empty() {
        let remedy = "add one: `[[class]]`, `name = \"public\"`, `overload = \"queue\"`";
        found.add(1, "the file has no class of service", remedy);
    }
    let lines = document.classes.iter().map(|table| table.line);
    if too_many(&keys::CLASSES_MAX, lines, found) {
        return single();
    }
    unique("[[class]]", document.classes.iter().map(|table| (&table.name, table.line)), found);
    unique("[[tenant]]", document.tenants.iter().map(|table| (&table.name, table.line)), found);
    let classes: Vec<Class> =
        document.classes.iter().map(|table| class(table, pools, found)).collect();
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
        pools: Vec::new(),
        gate: gate(&document.gate, found),
        limits: limits(&document.limits),
    }
}

/// Whether there are more tables than may be there, which is a fault of the first too many.
pub fn too_many(
    count: &Count,
    mut lines: impl ExactSizeIterator<Item = usize>,
    found: &mut Gathered,
) -> bool {
    let (Count { table, most, why }, tables) = (count, lines.len());
    let Some(line) = lines.nth(*most) else { return false };
    let what = format!("{tables} tables `[[{table}]]`, of at most {most}");
    found.add(line, what, format!("leave some out: {why}"));
    true
}

/// One class that queues without a limit of time, one tenant, no other pool.
pub(crate) fn single() -> Service {
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

/// What was typed under a key, or its default.
pub(crate) fn or_default(typed: Option<&At<f64>>, key: &Key) -> f64 {
    typed.map_or_else(|| key.value(), |at| at.value)
}

fn class(table: &ClassTable, pools: &Pools<'_>, found: &mut Gathered) -> Class {
    let overload = overload(table, pools, found);
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

fn overload(table: &ClassTable, pools: &Pools<'_>, found: &mut Gathered) -> Overload {
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
        "spill" => Overload::Spill(pools.of_class(table, typed.line, found)),
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
pub fn unique<'d>(
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
