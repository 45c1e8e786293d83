//! Holds the gateway's file as typed: every key optional, every value with its line.

use std::time::Duration;

use forebay_core::Mode;
use forebay_service::Key;
use forebay_service::reader::{At, Gathered, Section};

use super::defaults::TABLE;

/// The whole file but for what the lab reads too.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) listen: ListenTable,
    pub(super) pools: Vec<PoolTable>,
    pub(super) keys: Vec<KeyTable>,
    pub(super) timeouts: Numbers,
    pub(super) retries: Numbers,
    pub(super) health: PathTable,
    pub(super) scrape: PathTable,
    pub(super) progress: Numbers,
    pub(super) record: RecordTable,
    pub(super) access: Option<At<String>>,
    pub(super) log_file: Option<At<String>>,
    pub(super) ticket_secret: Option<At<String>>,
    pub(super) otel: Option<OtelTable>,
}

/// The `[listen]`.
#[derive(Debug, Default)]
pub(super) struct ListenTable {
    pub(super) address: Option<At<String>>,
    pub(super) without_keys: Option<At<String>>,
    pub(super) numbers: Numbers,
    pub(super) tls: Option<TlsTable>,
}

/// A `[listen.tls]` or a `[pool.tls]`.
#[derive(Debug)]
pub(super) struct TlsTable {
    pub(super) line: usize,
    pub(super) cert: Option<At<String>>,
    pub(super) key: Option<At<String>>,
    /// `client_ca` of the one, `ca` of the other.
    pub(super) ca: Option<At<String>>,
    pub(super) server_name: Option<At<String>>,
}

/// One `[[pool]]`.
#[derive(Debug, Default)]
pub(super) struct PoolTable {
    pub(super) line: usize,
    pub(super) name: Option<At<String>>,
    pub(super) models: Vec<At<String>>,
    pub(super) mode: Option<At<String>>,
    pub(super) knowledge: Option<At<String>>,
    pub(super) workers: Option<Vec<At<String>>>,
    pub(super) dns: Vec<At<String>>,
    pub(super) headers: Vec<At<String>>,
    pub(super) key_file: Option<At<String>>,
    pub(super) ask_usage: bool,
    pub(super) numbers: Numbers,
    pub(super) tls: Option<TlsTable>,
}

/// One `[[key]]`.
#[derive(Debug)]
pub(super) struct KeyTable {
    pub(super) line: usize,
    pub(super) sha256: Option<At<String>>,
    /// A key in clear, under whatever name.
    pub(super) clear: Option<At<String>>,
    pub(super) tenant: Option<At<String>>,
    pub(super) class: Option<At<String>>,
    pub(super) models: Option<Vec<At<String>>>,
    pub(super) admin: bool,
}

/// The `[health]` or the `[scrape]`.
#[derive(Debug, Default)]
pub(super) struct PathTable {
    pub(super) path: Option<At<String>>,
    pub(super) numbers: Numbers,
}

/// The `[record]`.
#[derive(Debug, Default)]
pub(super) struct RecordTable {
    pub(super) dir: Option<At<String>>,
    pub(super) numbers: Numbers,
}

/// The `[otel]`.
#[derive(Debug)]
pub(super) struct OtelTable {
    pub(super) line: usize,
    pub(super) endpoint: Option<At<String>>,
    pub(super) protocol: Option<At<String>>,
    pub(super) ca: Option<At<String>>,
    pub(super) headers_file: Option<At<String>>,
    pub(super) service_name: Option<At<String>>,
    pub(super) numbers: Numbers,
}

/// The numbers of one table of the file: those that were typed.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<(&'static str, At<f64>)>);

impl Numbers {
    /// Reads every number that the table may have.
    fn read(table: &str, section: &mut Section<'_>, found: &mut Gathered) -> Self {
        let keys = TABLE.iter().filter(|key| key.table == table);
        Self(keys.filter_map(|key| Some((key.name, section.number(key, found)?))).collect())
    }

    /// What was typed under this key.
    pub(super) fn typed(&self, key: &Key) -> Option<&At<f64>> {
        self.0.iter().find(|(name, _)| *name == key.name).map(|(_, at)| at)
    }

    /// What holds of this key, which has a default.
    pub(super) fn value(&self, key: &Key) -> f64 {
        self.typed(key).map_or_else(|| key.value(), |at| at.value)
    }

    /// What holds of this key, in milliseconds.
    pub(super) fn millis(&self, key: &Key) -> Duration {
        Duration::from_millis(self.value(key) as u64)
    }
}

impl Document {
    /// Reads all tables but those of a service file; whatever can't be read is left out and becomes
    /// a fault.
    pub(super) fn read(root: &mut Section<'_>, found: &mut Gathered) -> Self {
        let mut document = Self::default();
        if let Some(table) = root.section("listen", found) {
            document.listen = listen(table, found);
        }
        let pools = root.sections("pool", found);
        document.pools = pools.into_iter().map(|table| pool(table, found)).collect();
        let keys = root.sections("key", found);
        document.keys = keys.into_iter().map(|table| key(table, found)).collect();
        document.timeouts = numbers("timeouts", root, found);
        document.retries = numbers("retries", root, found);
        document.health = with_path("health", root, found);
        document.scrape = with_path("scrape", root, found);
        document.progress = numbers("progress", root, found);
        if let Some(mut table) = root.section("record", found) {
            document.record.dir = table.text("dir", found);
            document.record.numbers = Numbers::read("record", &mut table, found);
            table.finish(found);
        }
        if let Some(mut table) = root.section("log", found) {
            document.access = table.text("access", found);
            document.log_file = table.text("file", found);
            table.finish(found);
        }
        if let Some(mut table) = root.section("tickets", found) {
            document.ticket_secret = table.text("secret_file", found);
            table.finish(found);
        }
        document.otel = root.section("otel", found).map(|table| otel(table, found));
        document
    }

    /// What flags say, as if it stood in a file: each on a line of its own, so that faults come in
    /// their order.
    pub(super) fn of_flags(listen: Option<&str>, mode: Mode, workers: &[String]) -> Self {
        let at = |line, text: &str| At { value: text.to_owned(), line };
        let workers = workers.iter().zip(3..).map(|(worker, line)| at(line, worker)).collect();
        let pool = PoolTable {
            line: 1,
            mode: Some(at(2, mode.name())),
            workers: Some(workers),
            ..PoolTable::default()
        };
        let listen =
            ListenTable { address: listen.map(|text| at(1, text)), ..ListenTable::default() };
        Self { listen, pools: vec![pool], ..Self::default() }
    }

    /// The names of the pools, in the order of their numbers.
    pub(super) fn pool_names(&self) -> Vec<&str> {
        self.pools.iter().map(PoolTable::called).collect()
    }
}

impl PoolTable {
    /// Its name.
    pub(super) fn called(&self) -> &str {
        self.name.as_ref().map_or("main", |at| at.value.as_str())
    }
}

fn numbers(name: &'static str, root: &mut Section<'_>, found: &mut Gathered) -> Numbers {
    let Some(mut table) = root.section(name, found) else { return Numbers::default() };
    let read = Numbers::read(name, &mut table, found);
    table.finish(found);
    read
}

fn with_path(name: &'static str, root: &mut Section<'_>, found: &mut Gathered) -> PathTable {
    let Some(mut table) = root.section(name, found) else { return PathTable::default() };
    let path = table.text("path", found);
    let read = PathTable { path, numbers: Numbers::read(name, &mut table, found) };
    table.finish(found);
    read
}

fn listen(mut table: Section<'_>, found: &mut Gathered) -> ListenTable {
    let read = ListenTable {
        address: table.text("address", found),
        without_keys: table.text("without_keys", found),
        numbers: Numbers::read("listen", &mut table, found),
        tls: table.section("tls", found).map(|table| tls(table, "client_ca", found)),
    };
    table.finish(found);
    read
}

fn tls(mut table: Section<'_>, ca: &'static str, found: &mut Gathered) -> TlsTable {
    let read = TlsTable {
        line: table.line,
        cert: table.text("cert", found),
        key: table.text("key", found),
        ca: table.text(ca, found),
        server_name: if ca == "ca" { table.text("server_name", found) } else { None },
    };
    table.finish(found);
    read
}

fn otel(mut table: Section<'_>, found: &mut Gathered) -> OtelTable {
    let read = OtelTable {
        line: table.line,
        endpoint: table.text("endpoint", found),
        protocol: table.text("protocol", found),
        ca: table.text("ca", found),
        headers_file: table.text("headers_file", found),
        service_name: table.text("service_name", found),
        numbers: Numbers::read("otel", &mut table, found),
    };
    table.finish(found);
    read
}

fn pool(mut table: Section<'_>, found: &mut Gathered) -> PoolTable {
    let lists_workers = table.has("worker");
    let workers = table.texts("worker", found);
    let read = PoolTable {
        line: table.line,
        name: table.text("name", found),
        models: table.texts("models", found),
        mode: table.text("mode", found),
        knowledge: table.text("knowledge", found),
        workers: lists_workers.then_some(workers),
        dns: table.texts("dns", found),
        headers: table.texts("headers", found),
        key_file: table.text("key_file", found),
        ask_usage: table.flag("ask_usage", found).is_some_and(|at| at.value),
        numbers: Numbers::read("pool", &mut table, found),
        tls: table.section("tls", found).map(|table| tls(table, "ca", found)),
    };
    table.finish(found);
    read
}

fn key(mut table: Section<'_>, found: &mut Gathered) -> KeyTable {
    let limits_models = table.has("models");
    let sha256 = table.text("sha256", found);
    let tenant = table.text("tenant", found);
    let class = table.text("class", found);
    let models = table.texts("models", found);
    let admin = table.flag("admin", found).is_some_and(|at| at.value);
    // Not keys of the file, but what people write: told apart, so that the remedy can help.
    let mut clear = None;
    for name in ["key", "token", "secret", "value"] {
        if table.has(name) {
            clear = clear.or(table.text(name, found));
        }
    }
    let line = table.line;
    table.finish(found);
    let models = limits_models.then_some(models);
    KeyTable { line, sha256, clear, tenant, class, models, admin }
}
