//! Holds the one table of defaults: for each number of a service file its range, what holds without
//! it, and why.

/// A key of the service file that holds a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// The table it belongs to, without brackets.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether only whole numbers make sense.
    pub whole: bool,
    /// The least it may be.
    pub least: f64,
    /// The most it may be.
    pub most: f64,
    /// What holds where the key is missing; `None` where nothing does.
    pub default: Option<f64>,
    /// What holds where the key is missing, and why, as the rest of a sentence.
    pub why: &'static str,
}

impl Key {
    /// A key for whole numbers from the least to the most, with no default yet.
    pub const fn count(table: &'static str, name: &'static str, range: (f64, f64)) -> Self {
        Self { table, name, whole: true, least: range.0, most: range.1, default: None, why: "" }
    }
    /// A key for any numbers from the least to the most, with no default yet.
    pub const fn number(table: &'static str, name: &'static str, range: (f64, f64)) -> Self {
        Self { whole: false, ..Self::count(table, name, range) }
    }
    /// With this default, and why.
    #[must_use]
    pub const fn or(self, default: f64, why: &'static str) -> Self {
        Self { default: Some(default), why, ..self }
    }
    /// With what holds without the key, where that is no number.
    #[must_use]
    pub const fn or_none(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// What kind of value is right, as the object of "give".
    pub fn wanted(&self) -> String {
        let kind = if self.whole { "a whole number" } else { "a number" };
        if self.most.is_infinite() {
            format!("{kind} of at least {}, or `inf`", self.least)
        } else {
            format!("{kind} from {} to {}", self.least, self.most)
        }
    }

    /// The default, of a key that has one in the table.
    pub fn value(&self) -> f64 {
        self.default.expect("asked only of keys whose default stands in the table")
    }
}

/// A day in milliseconds: nobody waits longer, and a larger figure is a mistake of unit.
const DAY_MS: f64 = 86_400_000.0;

pub(crate) const WAIT_MS_MAX: Key = Key::count("class", "wait_ms_max", (0.0, DAY_MS)).or_none(
    "a class that queues waits without a limit of time, one that spills accepts a second, and \
     one that sheds must say it",
);
pub(crate) const QUEUE_LEN_MAX: Key = Key::count("class", "queue_len_max", (0.0, 1e6)).or(
    2000.0,
    "2000 requests may wait: minutes of work for a few workers, and more than that \
     is an outage, not a queue",
);
pub(crate) const SHARE: Key = Key::count("class", "share", (1.0, 1e6))
    .or(1.0, "the share is 1: classes weigh the same until somebody says otherwise");
pub(crate) const REJECT_SHARE_MAX: Key = Key::number("class", "reject_share_max", (0.0, 1.0))
    .or_none("no limit is agreed, and reports compare with none");
pub(crate) const AGEING: Key = Key::number("class", "ageing", (0.0, 1e6))
    .or(3.0, "K is 3: the best mean of those tried at 1.0 to 2.0 × capacity");
pub(crate) const PROMISE: Key = Key::number("class", "promise", (1.0, f64::INFINITY)).or(
    1.5,
    "γ is 1.5: with what runs counted once it keeps all within twice first-come, at 1.0 to \
     2.0 × capacity",
);
pub(crate) const TRAFFIC: Key = Key::number("class", "traffic", (0.0, 1e9))
    .or(1.0, "it gets as much of the unnamed traffic as each of the others");

pub(crate) const TENANT_TRAFFIC: Key = Key { table: "tenant", ..TRAFFIC };
pub(crate) const WEIGHT: Key = Key::count("tenant", "weight", (1.0, 1e6))
    .or(1.0, "the weight is 1: tenants weigh the same until somebody says otherwise");
pub(crate) const RATE: Key = Key::number("tenant", "requests_per_s_max", (1e-6, 1e9))
    .or_none("its requests are not limited by rate");
pub(crate) const RATE_BURST: Key = Key::number("tenant", "requests_burst_max", (1.0, 1e9))
    .or_none("a burst may be as large as one second's worth, and at least one request");
pub(crate) const TOKENS: Key = Key::number("tenant", "tokens_per_s_max", (1e-3, 1e12))
    .or_none("its prompt tokens are not limited by rate");
pub(crate) const TOKENS_BURST: Key = Key::number("tenant", "tokens_burst_max", (1.0, 1e12))
    .or_none(
        "a burst may be as large as one minute's worth: a long prompt alone is many seconds' worth",
    );
pub(crate) const CONCURRENCY: Key = Key::count("tenant", "concurrency_max", (1.0, 1e6))
    .or_none("it may have any number of requests open");

pub(crate) const WORKERS: Key =
    Key::count("pool", "workers", (1.0, 10_000.0)).or_none("a pool must say how many it has");

pub(crate) const FRACTION: Key = Key::number("gate", "fraction_start", (0.01, 2.0)).or(
    0.95,
    "0.95 of the KV may be committed at the start: 0.9 to 1.0 is a plateau, 1.1 doubles the \
     mean TTFT",
);
pub(crate) const FRACTION_MIN: Key = Key::number("gate", "fraction_min", (0.01, 2.0)).or(
    0.60,
    "feedback goes no lower than 0.60: that bears a capacity that is told a half too large",
);
pub(crate) const FRACTION_MAX: Key = Key::number("gate", "fraction_max", (0.01, 2.0)).or(
    1.0,
    "feedback goes no higher where preemptions are dear, a half more where they are cheap",
);
pub(crate) const BACKLOG_STEPS: Key = Key::number("gate", "backlog_steps_max", (0.01, 1e6)).or(
    1.5,
    "1.5 full steps of prefill keep a worker busy over one decision without binding requests early",
);

pub(crate) const ALL_QUEUE_LEN_MAX: Key = Key::count("limits", "queue_len_max", (1.0, 1e7)).or(
    100_000.0,
    "100000 requests may wait over all classes: about 100 MB of memory, far above any \
     queue worth having",
);
pub(crate) const RUNNING_MAX: Key = Key::count("limits", "running_max", (1.0, 1e8))
    .or(1e6, "1000000 may run: a bound on memory only, far above what engines run");
pub(crate) const WORKERS_MAX: Key = Key::count("limits", "workers_max", (1.0, 1e6))
    .or(10_000.0, "10000 workers may join: ten times the largest fleet that is measured");
pub(crate) const TENANTS_MAX: Key = Key::count("limits", "tenants_max", (1.0, 1e7))
    .or(10_000.0, "10000 tenants are told apart; others share one account");
pub(crate) const MEANS_MAX: Key = Key::count("limits", "means_max", (1.0, 1e8))
    .or(65_536.0, "65536 prefix classes have a mean output of their own: a few megabytes");
pub(crate) const PROMISES_MAX: Key = Key::count("limits", "promises_max", (1.0, 1e7)).or(
    10_000.0,
    "10000 Retry-After promises a class are remembered: above that all are cut anyway",
);
pub(crate) const ATTEMPTS_MAX: Key = Key::count("limits", "attempts_max", (1.0, 100.0))
    .or(3.0, "a request runs at most 3 times: one that kills three workers is likely the cause");
pub(crate) const RETRY_AFTER_S_MAX: Key =
    Key::count("limits", "retry_after_s_max", (1.0, 86_400.0))
        .or(60.0, "Retry-After is at most 60 s: an official SDK ignores larger figures");
pub(crate) const MARK_MS: Key = Key::count("limits", "mark_ms", (1.0, DAY_MS)).or(
    1000.0,
    "a mark on a worker stands for 1 s: shorter than a user notices, longer than a step",
);

/// What has to be known of all keys of a table, as a sentence: by table.
pub const NOTES: [(&str, &str); 1] = [(
    "tenant",
    "Rates and `concurrency_max` hold in each pool that clients ask for a model, and each counts \
     for itself: with two such pools a tenant may have twice as much. Where the sum must hold, \
     give as much as one pool may take. What spills into another pool is not counted again there.",
)];

/// How many tables of one sort a service file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The table, without brackets.
    pub table: &'static str,
    /// The most of them.
    pub most: usize,
    /// Why no more, as the rest of a sentence.
    pub why: &'static str,
}

/// The bound on classes. Their numbers have 16 bits, and each has accounts and metrics of its own.
pub(crate) const CLASSES_MAX: Count = Count {
    table: "class",
    most: 1000,
    why: "each has a queue and metrics of its own, and nobody agrees on as many services",
};
/// The bound on pools, whose numbers have 16 bits too.
pub(crate) const POOLS_MAX: Count = Count {
    table: "pool",
    most: 1000,
    why: "each has a core of its own, and spills go from one to the next",
};

/// Every bound on the number of tables.
pub const COUNTS: [Count; 2] = [CLASSES_MAX, POOLS_MAX];

/// The longest queue of the one class that holds without a file: as long as the pool lets it be.
pub(crate) const SINGLE_QUEUE_LEN_MAX: u32 = 100_000;

/// Every key that holds a number, in the order of the reference.
pub const TABLE: [&Key; 28] = [
    &WAIT_MS_MAX,
    &QUEUE_LEN_MAX,
    &SHARE,
    &REJECT_SHARE_MAX,
    &AGEING,
    &PROMISE,
    &TRAFFIC,
    &WEIGHT,
    &TENANT_TRAFFIC,
    &RATE,
    &RATE_BURST,
    &TOKENS,
    &TOKENS_BURST,
    &CONCURRENCY,
    &WORKERS,
    &FRACTION,
    &FRACTION_MIN,
    &FRACTION_MAX,
    &BACKLOG_STEPS,
    &ALL_QUEUE_LEN_MAX,
    &RUNNING_MAX,
    &WORKERS_MAX,
    &TENANTS_MAX,
    &MEANS_MAX,
    &PROMISES_MAX,
    &ATTEMPTS_MAX,
    &RETRY_AFTER_S_MAX,
    &MARK_MS,
];
