//! Holds a service file exactly as typed: every key optional, every value with its line.

use toml::de::DeTable;

use super::defaults as keys;
use super::reader::{At, Gathered, Section};

/// The whole file.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Each `[[class]]`.
    pub(super) classes: Vec<ClassTable>,
    /// Each `[[tenant]]`.
    pub(super) tenants: Vec<TenantTable>,
    /// The `[tenant_default]`.
    pub(super) tenant_default: Option<TenantTable>,
    /// Each `[[pool]]`.
    pub(super) pools: Vec<PoolTable>,
    /// The `[gate]`.
    pub(super) gate: GateTable,
    /// The `[limits]`.
    pub(super) limits: LimitsTable,
}

/// One `[[class]]`.
#[derive(Debug)]
pub(super) struct ClassTable {
    pub(super) line: usize,
    pub(super) name: Option<At<String>>,
    pub(super) overload: Option<At<String>>,
    pub(super) spill_to: Option<At<String>>,
    pub(super) wait_ms_max: Option<At<f64>>,
    pub(super) queue_len_max: Option<At<f64>>,
    pub(super) share: Option<At<f64>>,
    pub(super) reject_share_max: Option<At<f64>>,
    pub(super) ageing: Option<At<f64>>,
    pub(super) promise: Option<At<f64>>,
    pub(super) traffic: Option<At<f64>>,
}

impl ClassTable {
    /// The class that holds where none is written: it queues, as long as the pool lets it.
    pub(super) fn plain() -> Self {
        let text = |text: &str| Some(At { value: text.to_owned(), line: 1 });
        let queue_len_max = Some(At { value: f64::from(keys::SINGLE_QUEUE_LEN_MAX), line: 1 });
        Self {
            line: 1,
            name: text("default"),
            overload: text("queue"),
            spill_to: None,
            wait_ms_max: None,
            queue_len_max,
            share: None,
            reject_share_max: None,
            ageing: None,
            promise: None,
            traffic: None,
        }
    }
}

/// One `[[tenant]]`, or the `[tenant_default]`, which has no name, class or traffic.
#[derive(Debug)]
pub(super) struct TenantTable {
    pub(super) line: usize,
    pub(super) name: Option<At<String>>,
    pub(super) class: Option<At<String>>,
    pub(super) weight: Option<At<f64>>,
    pub(super) traffic: Option<At<f64>>,
    pub(super) requests_per_s: Option<At<f64>>,
    pub(super) requests_burst: Option<At<f64>>,
    pub(super) tokens_per_s: Option<At<f64>>,
    pub(super) tokens_burst: Option<At<f64>>,
    pub(super) concurrency_max: Option<At<f64>>,
}

/// One `[[pool]]`.
#[derive(Debug)]
pub(super) struct PoolTable {
    pub(super) line: usize,
    pub(super) name: Option<At<String>>,
    pub(super) workers: Option<At<f64>>,
    pub(super) engine: Option<At<String>>,
    pub(super) mode: Option<At<String>>,
    pub(super) spill_to: Option<At<String>>,
}

/// The `[gate]`.
#[derive(Debug, Default)]
pub(super) struct GateTable {
    pub(super) fraction_start: Option<At<f64>>,
    pub(super) fraction_min: Option<At<f64>>,
    pub(super) fraction_max: Option<At<f64>>,
    pub(super) backlog_steps_max: Option<At<f64>>,
}

/// The `[limits]`.
#[derive(Debug, Default)]
pub(super) struct LimitsTable {
    pub(super) queue_len_max: Option<At<f64>>,
    pub(super) running_max: Option<At<f64>>,
    pub(super) workers_max: Option<At<f64>>,
    pub(super) tenants_max: Option<At<f64>>,
    pub(super) means_max: Option<At<f64>>,
    pub(super) promises_max: Option<At<f64>>,
    pub(super) attempts_max: Option<At<f64>>,
    pub(super) retry_after_s_max: Option<At<f64>>,
    pub(super) mark_ms: Option<At<f64>>,
}

impl Document {
    /// Reads the text; whatever can't be read is left out and becomes a fault.
    pub(super) fn read(text: &str, found: &mut Gathered) -> Self {
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let line = error.span().map_or(1, |span| found.line(span.start));
            found.add(line, format!("not TOML: {}", error.message()), "mend the line's syntax");
        }
        let mut root = Section::new("the file", root.get_ref(), 1);
        let document = Self::part(&mut root, found);
        root.finish(found);
        document
    }

    /// Reads the tables of a service file that stand in a larger file.
    pub(super) fn part(root: &mut Section<'_>, found: &mut Gathered) -> Self {
        let classes = root.sections("class", found);
        let tenants = root.sections("tenant", found);
        let tenant_default = root.section("tenant_default", found);
        let pools = root.sections("pool", found);
        let gate = root.section("gate", found);
        let limits = root.section("limits", found);
        Self {
            classes: classes.into_iter().map(|table| class(table, found)).collect(),
            tenants: tenants.into_iter().map(|table| tenant(table, true, found)).collect(),
            tenant_default: tenant_default.map(|table| tenant(table, false, found)),
            pools: pools.into_iter().map(|table| pool(table, found)).collect(),
            gate: gate.map_or_else(GateTable::default, |table| self::gate(table, found)),
            limits: limits.map_or_else(LimitsTable::default, |table| self::limits(table, found)),
        }
    }
}

fn class(mut table: Section<'_>, found: &mut Gathered) -> ClassTable {
    let read = ClassTable {
        line: table.line,
        name: table.text("name", found),
        overload: table.text("overload", found),
        spill_to: table.text("spill_to", found),
        wait_ms_max: table.number(&keys::WAIT_MS_MAX, found),
        queue_len_max: table.number(&keys::QUEUE_LEN_MAX, found),
        share: table.number(&keys::SHARE, found),
        reject_share_max: table.number(&keys::REJECT_SHARE_MAX, found),
        ageing: table.number(&keys::AGEING, found),
        promise: table.number(&keys::PROMISE, found),
        traffic: table.number(&keys::TRAFFIC, found),
    };
    table.finish(found);
    read
}

fn tenant(mut table: Section<'_>, named: bool, found: &mut Gathered) -> TenantTable {
    let read = TenantTable {
        line: table.line,
        name: if named { table.text("name", found) } else { None },
        class: if named { table.text("class", found) } else { None },
        weight: table.number(&keys::WEIGHT, found),
        traffic: if named { table.number(&keys::TENANT_TRAFFIC, found) } else { None },
        requests_per_s: table.number(&keys::RATE, found),
        requests_burst: table.number(&keys::RATE_BURST, found),
        tokens_per_s: table.number(&keys::TOKENS, found),
        tokens_burst: table.number(&keys::TOKENS_BURST, found),
        concurrency_max: table.number(&keys::CONCURRENCY, found),
    };
    table.finish(found);
    read
}

fn pool(mut table: Section<'_>, found: &mut Gathered) -> PoolTable {
    let read = PoolTable {
        line: table.line,
        name: table.text("name", found),
        workers: table.number(&keys::WORKERS, found),
        engine: table.text("engine", found),
        mode: table.text("mode", found),
        spill_to: table.text("spill_to", found),
    };
    table.finish(found);
    read
}

fn gate(mut table: Section<'_>, found: &mut Gathered) -> GateTable {
    let read = GateTable {
        fraction_start: table.number(&keys::FRACTION, found),
        fraction_min: table.number(&keys::FRACTION_MIN, found),
        fraction_max: table.number(&keys::FRACTION_MAX, found),
        backlog_steps_max: table.number(&keys::BACKLOG_STEPS, found),
    };
    table.finish(found);
    read
}

fn limits(mut table: Section<'_>, found: &mut Gathered) -> LimitsTable {
    let read = LimitsTable {
        queue_len_max: table.number(&keys::ALL_QUEUE_LEN_MAX, found),
        running_max: table.number(&keys::RUNNING_MAX, found),
        workers_max: table.number(&keys::WORKERS_MAX, found),
        tenants_max: table.number(&keys::TENANTS_MAX, found),
        means_max: table.number(&keys::MEANS_MAX, found),
        promises_max: table.number(&keys::PROMISES_MAX, found),
        attempts_max: table.number(&keys::ATTEMPTS_MAX, found),
        retry_after_s_max: table.number(&keys::RETRY_AFTER_S_MAX, found),
        mark_ms: table.number(&keys::MARK_MS, found),
    };
    table.finish(found);
    read
}
