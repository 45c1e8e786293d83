//! Holds a service file exactly as typed: every key optional, every value with its line.

use crate::defaults as keys;
use crate::reader::{At, Gathered, Section};

/// The whole file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Each `[[class]]`.
    pub(crate) classes: Vec<ClassTable>,
    /// Each `[[tenant]]`.
    pub(crate) tenants: Vec<TenantTable>,
    /// The `[tenant_default]`.
    pub(crate) tenant_default: Option<TenantTable>,
    /// Each `[[pool]]`.
    pub(crate) pools: Vec<PoolTable>,
    /// The `[gate]`.
    pub(crate) gate: GateTable,
    /// The `[limits]`.
    pub(crate) limits: LimitsTable,
}

/// One `[[class]]`.
#[derive(Debug)]
pub(crate) struct ClassTable {
    pub(crate) line: usize,
    pub(crate) name: Option<At<String>>,
    pub(crate) overload: Option<At<String>>,
    pub(crate) spill_to: Option<At<String>>,
    pub(crate) wait_ms_max: Option<At<f64>>,
    pub(crate) queue_len_max: Option<At<f64>>,
    pub(crate) share: Option<At<f64>>,
    pub(crate) reject_share_max: Option<At<f64>>,
    pub(crate) ageing: Option<At<f64>>,
    pub(crate) promise: Option<At<f64>>,
    pub(crate) traffic: Option<At<f64>>,
}

impl ClassTable {
    /// The class that holds where none is written: it queues, as long as the pool lets it.
    pub(crate) fn plain() -> Self {
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
pub(crate) struct TenantTable {
    pub(crate) line: usize,
    pub(crate) name: Option<At<String>>,
    pub(crate) class: Option<At<String>>,
    pub(crate) weight: Option<At<f64>>,
    pub(crate) traffic: Option<At<f64>>,
    pub(crate) requests_per_s: Option<At<f64>>,
    pub(crate) requests_burst: Option<At<f64>>,
    pub(crate) tokens_per_s: Option<At<f64>>,
    pub(crate) tokens_burst: Option<At<f64>>,
    pub(crate) concurrency_max: Option<At<f64>>,
}

/// One `[[pool]]`.
#[derive(Debug)]
pub(crate) struct PoolTable {
    pub(crate) line: usize,
    pub(crate) name: Option<At<String>>,
    pub(crate) workers: Option<At<f64>>,
    pub(crate) engine: Option<At<String>>,
    pub(crate) mode: Option<At<String>>,
    pub(crate) spill_to: Option<At<String>>,
}

/// The `[gate]`.
#[derive(Debug, Default)]
pub(crate) struct GateTable {
    pub(crate) fraction_start: Option<At<f64>>,
    pub(crate) fraction_min: Option<At<f64>>,
    pub(crate) fraction_max: Option<At<f64>>,
    pub(crate) backlog_steps_max: Option<At<f64>>,
}

/// The `[limits]`.
#[derive(Debug, Default)]
pub(crate) struct LimitsTable {
    pub(crate) queue_len_max: Option<At<f64>>,
    pub(crate) running_max: Option<At<f64>>,
    pub(crate) workers_max: Option<At<f64>>,
    pub(crate) tenants_max: Option<At<f64>>,
    pub(crate) means_max: Option<At<f64>>,
    pub(crate) promises_max: Option<At<f64>>,
    pub(crate) attempts_max: Option<At<f64>>,
    pub(crate) retry_after_s_max: Option<At<f64>>,
    pub(crate) mark_ms: Option<At<f64>>,
}

impl Document {
    /// Reads the text; whatever can't be read is left out and becomes a fault.
    pub(crate) fn read(text: &str, found: &mut Gathered) -> Self {
        let table = found.toml(text);
        let mut root = Section::root(&table);
        let document = Self::part(&mut root, found);
        root.finish(found);
        document
    }

    /// Reads the tables of a service file that stand in a larger file.
    pub(crate) fn part(root: &mut Section<'_>, found: &mut Gathered) -> Self {
        let mut document = Self::door(root, found);
        let pools = root.sections("pool", found);
        document.pools = pools.into_iter().map(|table| pool(table, found)).collect();
        document
    }

    /// The same without the pools.
    pub(crate) fn door(root: &mut Section<'_>, found: &mut Gathered) -> Self {
        let classes = root.sections("class", found);
        let tenants = root.sections("tenant", found);
        let tenant_default = root.section("tenant_default", found);
        let gate = root.section("gate", found);
        let limits = root.section("limits", found);
        Self {
            classes: classes.into_iter().map(|table| class(table, found)).collect(),
            tenants: tenants.into_iter().map(|table| tenant(table, true, found)).collect(),
            tenant_default: tenant_default.map(|table| tenant(table, false, found)),
            pools: Vec::new(),
            gate: gate.map_or_else(GateTable::default, |table| self::gate(table, found)),
            limits: limits.map_or_else(LimitsTable::default, |table| self::limits(table, found)),
        }
    }

    /// With a class that queues, where there is none.
    pub(crate) fn or_plain(mut self) -> Self {
        if self.classes.is_empty() {
            self.classes.push(ClassTable::plain());
        }
        self
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
