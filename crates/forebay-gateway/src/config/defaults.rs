//! Holds the one table of the gateway's keys: for each what it may be, what holds without it, and
//! why. The tables that the lab reads too have theirs in `forebay-service`.

use forebay_service::{Count, Key};

/// A key that holds a text, a list of texts, or a yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The table it belongs to, without brackets.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub wanted: &'static str,
    /// What holds where the key is missing, and why, as the rest of a sentence.
    pub why: &'static str,
}

/// The tables, in the order of the reference: each with what it is for.
pub const TABLES: [(&str, &str); 14] = [
    ("listen", "Where the gateway listens, and its bounds on connections and requests."),
    ("listen.tls", "TLS towards clients. Without this table it is not spoken."),
    ("pool", "Each `[[pool]]` is a group of workers that serve the same models."),
    ("pool.tls", "TLS towards workers whose URL begins with `https://`."),
    (
        "key",
        "Each `[[key]]` is one that clients present as `Authorization: Bearer`. One with `admin = \
         true` opens `/admin/`, and may ask for models, too, unless it has `models = []` ([an \
         admin key](../guides/drain-a-worker.md#an-admin-key)). Keys are drawn by \
         `key=$(openssl rand -hex 24)`, and their digests by `printf %s \"$key\" | sha256sum`.",
    ),
    ("timeouts", "How long things may take."),
    ("retries", "How much of what broke is tried again on another worker, before the first byte."),
    ("health", "How workers are probed. What is seen of their traffic counts too."),
    ("scrape", "How workers' own metrics are read."),
    ("progress", "Comment lines for streaming clients that wait. Without `interval_ms`, none."),
    ("record", "The recordings for `forebay replay` and `forebay explain`. Without `dir`, none."),
    ("log", "The access log."),
    ("tickets", "The places that refused clients keep for their next attempt."),
    (
        "otel",
        "Where each request goes as a trace, by OpenTelemetry's protocol; see [trace \
         requests](../guides/trace-requests.md). **Only in builds with the feature `otel`** \
         (`cargo build --release --features otel`); without it this table is a fault. Without \
         this table nothing is traced.",
    ),
];

/// The sentence without which nobody may use a gateway that others can reach.
pub const ANYONE: &str = "anyone may use it";

const fn word(
    table: &'static str,
    name: &'static str,
    wanted: &'static str,
    why: &'static str,
) -> Word {
    Word { table, name, wanted, why }
}

/// Every key that holds no number, in the order of the reference.
pub const WORDS: [Word; 34] = [
    word(
        "listen",
        "address",
        "an IP address and a port",
        "it is 127.0.0.1:8080: who only tries it should not serve the neighbours",
    ),
    word(
        "listen",
        "without_keys",
        "the sentence \"anyone may use it\"",
        "a request needs a key, unless there are none and only this machine can connect",
    ),
    word("listen.tls", "cert", "a PEM file: the certificate and those above it", "it must be said"),
    word("listen.tls", "key", "a PEM file: the private key", "it must be said"),
    word(
        "listen.tls",
        "client_ca",
        "a PEM file: who signs clients' certificates",
        "clients need no certificate",
    ),
    word("pool", "name", "a text", "an only pool is called `main`; of several, each needs one"),
    word(
        "pool",
        "models",
        "names of models",
        "an only pool serves whatever its workers say, and passes any name on to them; of several, \
         it only takes what is spilled",
    ),
    word("pool", "mode", "a [mode](modes.md)", "it is `hold`: the others bind requests early"),
    word(
        "pool",
        "knowledge",
        "`own`",
        "it is `own`, from what was dispatched: that works with every engine",
    ),
    word(
        "pool",
        "worker",
        "URLs of workers",
        "there are those of `dns`; `worker = []` says that they join by the admin API",
    ),
    word("pool", "dns", "URLs with names: each address behind one is a worker", "none is asked"),
    word("pool", "headers", "texts such as \"Name: value\" for the workers", "none is added"),
    word(
        "pool",
        "key_file",
        "a file with the workers' key",
        "none is sent: a client's own key is never passed on",
    ),
    word(
        "pool",
        "ask_usage",
        "true or false: whether streams are made to tell their `usage`, which their clients then \
         do not see unless they asked",
        "bodies go to workers byte for byte, and the length of a token is learned only from \
         clients that ask",
    ),
    word(
        "pool.tls",
        "ca",
        "a PEM file: who signs the workers' certificates",
        "it is the system's authorities",
    ),
    word("pool.tls", "cert", "a PEM file: what is presented to workers", "nothing is presented"),
    word("pool.tls", "key", "a PEM file: its private key", "it must be said if `cert` is"),
    word(
        "pool.tls",
        "server_name",
        "the name in the workers' certificates",
        "it is the host of the URL",
    ),
    word(
        "key",
        "sha256",
        "the digest of the key in hex, as `sha256sum` prints it",
        "it must be said: the key itself belongs in no file",
    ),
    word(
        "key",
        "tenant",
        "the name of a `[[tenant]]`",
        "it must be said where there are any, unless the key is for the admin API",
    ),
    word("key", "class", "the name of a `[[class]]`", "it is the tenant's"),
    word("key", "models", "names of models it may ask for", "it may ask for all"),
    word("key", "admin", "true or false", "it does not open the admin API"),
    word("health", "path", "a path", "it is /health, as in vLLM and SGLang"),
    word("scrape", "path", "a path", "it is /metrics, as in vLLM and SGLang"),
    word("record", "dir", "a folder", "nothing is recorded: a recording takes room on the disk"),
    word("log", "access", "`off` or `json`", "it is `off`: names of tenants are personal data"),
    word("log", "file", "a file to append to", "it is standard error"),
    word(
        "tickets",
        "secret_file",
        "a file of at least 32 bytes",
        "it is drawn at the start, so \
        places are lost with a restart, and several gateways do not know each other's",
    ),
    word(
        "otel",
        "endpoint",
        "the URL of a collector, without `/v1/traces`",
        "it is that of `OTEL_EXPORTER_OTLP_ENDPOINT`, else http://127.0.0.1:4318",
    ),
    word(
        "otel",
        "protocol",
        "`http/protobuf`",
        "it is `http/protobuf`, mostly on port 4318; gRPC, mostly on 4317, is not spoken",
    ),
    word(
        "otel",
        "ca",
        "a PEM file: who signs the collector's certificate",
        "it is the system's authorities",
    ),
    word(
        "otel",
        "headers_file",
        "a file of lines such as `Name: value` for the collector, for instance a key",
        "they are those of `OTEL_EXPORTER_OTLP_HEADERS`, else none",
    ),
    word("otel", "service_name", "a text", "it is that of `OTEL_SERVICE_NAME`, else forebay"),
];

/// A day in milliseconds: nothing here takes longer, and a larger figure is a mistake of unit.
const DAY_MS: f64 = 86_400_000.0;
/// Bytes that no bound on memory exceeds: 1 TiB.
const BYTES_MAX: f64 = 1_099_511_627_776.0;

pub(super) const THREADS: Key = Key::count("listen", "threads", (0.0, 1024.0))
    .or(0.0, "it is 0, which is one for each core: what they do hardly ever waits");
pub(super) const CONNECTIONS_MAX: Key = Key::count("listen", "connections_max", (1.0, 1e7)).or(
    16_384.0,
    "16384 may be open: some hundred megabytes if all are idle, and a descriptor each",
);
pub(super) const CONNECTIONS_PER_PEER_MAX: Key =
    Key::count("listen", "connections_per_peer_max", (1.0, 1e7))
        .or_none("one address may have them all: behind a proxy or a NAT that is many clients");
pub(super) const HEADERS_BYTES_MAX: Key =
    Key::count("listen", "headers_bytes_max", (8192.0, 1_048_576.0))
        .or(65_536.0, "64 KiB: room for large tokens, and ten times what clients send");
pub(super) const HEADERS_MAX: Key = Key::count("listen", "headers_max", (16.0, 4096.0))
    .or(100.0, "100: clients and a chain of proxies send a third of it");
pub(super) const HEADER_MS_MAX: Key = Key::count("listen", "header_ms_max", (1.0, DAY_MS))
    .or(10_000.0, "10 s: one packet on any line; slower is who wants to hold a connection");
pub(super) const BODY_BYTES_MAX: Key = Key::count("listen", "body_bytes_max", (1.0, BYTES_MAX))
    .or(67_108_864.0, "64 MiB: a dozen images, and a hundred times the longest prompt");
pub(super) const BODY_MS_MAX: Key = Key::count("listen", "body_ms_max", (1.0, DAY_MS))
    .or(60_000.0, "60 s: the largest body over 9 Mbit/s");
pub(super) const BODIES_BYTES_MAX: Key = Key::count("listen", "bodies_bytes_max", (1.0, BYTES_MAX))
    .or(
        1_073_741_824.0,
        "1 GiB over all that wait: 30000 prompts of 32 KB; give half of the memory",
    );
pub(super) const IDLE_MS_MAX: Key = Key::count("listen", "idle_ms_max", (1.0, DAY_MS))
    .or(75_000.0, "75 s: longer than the 60 s of usual load balancers, so that they close first");
pub(super) const STREAMS_MAX: Key = Key::count("listen", "streams_max", (1.0, 65_536.0))
    .or(256.0, "256: a proxy's connection carries many clients, and RFC 9113 advises at least 100");

pub(super) const BLOCK_SIZE: Key = Key::count("pool", "block_size", (1.0, 65_536.0)).or_none(
    "the engine's own, doubled until the longest prompt of its model has at most 512; 128 \
         where no worker tells: then a prompt of 220 KB has 430",
);
pub(super) const BYTES_PER_TOKEN: Key = Key::number("pool", "bytes_per_token", (0.25, 64.0))
    .or(4.0, "4 at the start, about English in today's vocabularies; then learned from `usage`");
pub(super) const EXPECTED_OUTPUT: Key =
    Key::count("pool", "expected_output", (0.0, 1e7)).or_none("the mean output is learned");
pub(super) const KV_CAPACITY_TOKENS: Key = Key::count("pool", "kv_capacity_tokens", (1.0, 1e12))
    .or_none("what the engine's metrics say holds, else it is learned from late first tokens");
pub(super) const BATCH_TOKENS_MAX: Key = Key::count("pool", "batch_tokens_max", (1.0, 1e7))
    .or(2048.0, "2048: vLLM's server takes it on all but the largest GPUs");
pub(super) const SEQS_MAX: Key = Key::count("pool", "seqs_max", (1.0, 1e6))
    .or(256.0, "256: vLLM's server takes it on all but the largest GPUs");
pub(super) const DNS_INTERVAL_MS: Key = Key::count("pool", "dns_interval_ms", (100.0, DAY_MS))
    .or(5000.0, "5 s: as long as cluster DNS keeps an answer");

pub(super) const CONNECT_MS: Key = Key::count("timeouts", "connect_ms", (1.0, 600_000.0))
    .or(4000.0, "4 s: bears two lost packets, which are sent again after 1 and 3 s");
pub(super) const FIRST_BYTE_MS_MAX: Key =
    Key::count("timeouts", "first_byte_ms_max", (0.0, DAY_MS)).or(
        600_000.0,
        "600 s, the patience of the official SDKs: a full engine is slow, not dead; 0 is no limit",
    );
pub(super) const STALL_MS_MAX: Key = Key::count("timeouts", "idle_ms_max", (1.0, DAY_MS))
    .or(60_000.0, "60 s without a byte of an answer that has begun: no engine preempts that long");
pub(super) const TOTAL_MS_MAX: Key = Key::count("timeouts", "total_ms_max", (1.0, DAY_MS))
    .or(3_600_000.0, "an hour from arrival to end: 100000 tokens at 28 a second");
pub(super) const DRAIN_MS_MAX: Key = Key::count("timeouts", "drain_ms_max", (0.0, DAY_MS)).or(
    30_000.0,
    "30 s, as long as Kubernetes waits before it kills; long answers want more on both sides",
);

pub(super) const BUDGET_SHARE: Key = Key::number("retries", "budget_share", (0.0, 1.0)).or(
    0.2,
    "0.2 of a tenant's requests: an outage costs the others a fifth more load, not twice as much",
);
pub(super) const BUDGET_FLOOR: Key = Key::count("retries", "budget_floor", (0.0, 1e6))
    .or(10.0, "10 beside the share: a fifth of a tenant's first requests would be none");

pub(super) const HEALTH_INTERVAL_MS: Key = Key::count("health", "interval_ms", (10.0, DAY_MS)).or(
    2000.0,
    "2 s: traffic shows a dead worker sooner, and one that is well again is soon found",
);
pub(super) const HEALTH_TIMEOUT_MS: Key = Key::count("health", "timeout_ms", (1.0, DAY_MS))
    .or(5000.0, "5 s: a busy engine tokenizes for seconds before it answers");
pub(super) const HEALTH_FAILURES: Key =
    Key::count("health", "failures", (1.0, 1000.0)).or(2.0, "2 in a row: one alone is chance");
pub(super) const HEALTH_SUCCESSES: Key = Key::count("health", "successes", (1.0, 1000.0))
    .or(1.0, "1: a worker that is well is needed, and traffic tells if it is not");

pub(super) const SCRAPE_INTERVAL_MS: Key = Key::count("scrape", "interval_ms", (10.0, DAY_MS)).or(
    1000.0,
    "1 s: a reading costs an engine milliseconds, and what changes sooner is counted here",
);
pub(super) const STALE_MS_MAX: Key = Key::count("scrape", "stale_ms_max", (10.0, DAY_MS))
    .or(5000.0, "5 s: five readings missed in a row are no accident");

pub(super) const PROGRESS_MS: Key = Key::count("progress", "interval_ms", (1000.0, 600_000.0))
    .or_none("none: the first line commits the status 200, so that a later refusal has none");

pub(super) const RECORD_BYTES_MAX: Key = Key::count("record", "bytes_max", (65_536.0, BYTES_MAX))
    .or(
        2_147_483_648.0,
        "2 GiB for each pool: hours of a busy one, and less than a disk of today notices",
    );

pub(super) const SAMPLE_RATIO: Key = Key::number("otel", "sample_ratio", (0.0, 1.0)).or(
    1.0,
    "1, all of them, where the client has not decided: its `traceparent` says so if it has",
);
pub(super) const SPANS_QUEUE_LEN_MAX: Key = Key::count("otel", "queue_len_max", (1.0, 1e6)).or(
    2048.0,
    "2048 requests wait to be sent, some megabytes; what comes on top is dropped and counted",
);
pub(super) const SPANS_BATCH_LEN_MAX: Key = Key::count("otel", "batch_len_max", (1.0, 4096.0))
    .or(256.0, "256 requests go out together: about a third of a megabyte");
pub(super) const SPANS_INTERVAL_MS: Key = Key::count("otel", "interval_ms", (1.0, 60_000.0))
    .or(1000.0, "1 s: who looks at a trace does not want to wait, and a small batch costs little");
pub(super) const SPANS_TIMEOUT_MS: Key = Key::count("otel", "timeout_ms", (1.0, 60_000.0))
    .or(5000.0, "5 s for one batch, from the connection to the answer; then it is tried again");

/// Every key that holds a number, in the order of the reference.
pub const TABLE: [&Key; 38] = [
    &THREADS,
    &CONNECTIONS_MAX,
    &CONNECTIONS_PER_PEER_MAX,
    &HEADERS_BYTES_MAX,
    &HEADERS_MAX,
    &HEADER_MS_MAX,
    &BODY_BYTES_MAX,
    &BODY_MS_MAX,
    &BODIES_BYTES_MAX,
    &IDLE_MS_MAX,
    &STREAMS_MAX,
    &BLOCK_SIZE,
    &BYTES_PER_TOKEN,
    &EXPECTED_OUTPUT,
    &KV_CAPACITY_TOKENS,
    &BATCH_TOKENS_MAX,
    &SEQS_MAX,
    &DNS_INTERVAL_MS,
    &CONNECT_MS,
    &FIRST_BYTE_MS_MAX,
    &STALL_MS_MAX,
    &TOTAL_MS_MAX,
    &DRAIN_MS_MAX,
    &BUDGET_SHARE,
    &BUDGET_FLOOR,
    &HEALTH_INTERVAL_MS,
    &HEALTH_TIMEOUT_MS,
    &HEALTH_FAILURES,
    &HEALTH_SUCCESSES,
    &SCRAPE_INTERVAL_MS,
    &STALE_MS_MAX,
    &PROGRESS_MS,
    &RECORD_BYTES_MAX,
    &SAMPLE_RATIO,
    &SPANS_QUEUE_LEN_MAX,
    &SPANS_BATCH_LEN_MAX,
    &SPANS_INTERVAL_MS,
    &SPANS_TIMEOUT_MS,
];

/// The bound on pools, whose numbers have 16 bits.
pub(super) const POOLS_MAX: Count = Count {
    table: "pool",
    most: 1000,
    why: "each has a core of its own, and a thousand models are more than a fleet serves",
};
/// The bound on keys.
pub(super) const KEYS_MAX: Count =
    Count { table: "key", most: 100_000, why: "each is read again with every change of the file" };

/// Every bound on the number of tables.
pub const COUNTS: [Count; 2] = [POOLS_MAX, KEYS_MAX];
