//! Lists every metric: its name, what it means, and what to do when it moves.
//!
//! The page that is scraped and the reference in `docs/` are both made from this list.

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Values by size.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, without the unit and without a counter's `_total`.
    pub name: &'static str,
    /// Its unit, which ends its name; empty for plain counts.
    pub unit: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The labels that tell its series apart.
    pub labels: &'static [&'static str],
    /// What it means, in one sentence.
    pub means: &'static str,
    /// What to do when it moves.
    pub advice: &'static str,
}

impl Metric {
    /// Its name as it is scraped.
    pub fn full_name(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!("_{}", self.unit) };
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{unit}{total}", self.name)
    }
}

const POOL_CLASS: &[&str] = &["pool", "class"];
const WITH_REASON: &[&str] = &["pool", "class", "reason"];
const POOL: &[&str] = &["pool"];
const WORKER: &[&str] = &["pool", "worker"];

/// Declares metrics, and the list of them in this order.
macro_rules! metrics {
    ($($id:ident = $kind:ident $name:literal $unit:literal $labels:expr;
       $means:literal $advice:literal)+) => {
        $(pub(super) const $id: Metric = Metric {
            name: concat!("forebay_", $name),
            unit: $unit,
            kind: Kind::$kind,
            labels: $labels,
            means: $means,
            advice: $advice,
        };)+
        /// Every metric, in the order of the page and of the reference.
        pub const METRICS: &[&Metric] = &[$(&$id),+];
    };
}

metrics! {
    OFFERED = Counter "requests_offered" "" POOL_CLASS;
        "Requests that came. One that spills is offered to both pools. Without a pool and a class \
         are those that ended before either was known: refused, on a path that there is not, or \
         given up while their body came."
        "Compare its rate with that of completed requests: a lasting difference is overload."
    DISPATCHED = Counter "requests_dispatched" "" POOL_CLASS;
        "Requests that were sent to a worker, each counted once."
        "When it stands still while requests wait, look at `forebay_worker_usable` and at the gate."
    COMPLETED = Counter "requests_completed" "" POOL_CLASS;
        "Requests that a worker answered to the end."
        "This is what clients got; alert on its share of the offered ones, never on latency alone."
    REFUSED = Counter "requests_refused" "" WITH_REASON;
        "Requests that were refused, by reason."
        "Look the reason up in [refusals](refusals.md); each has its own remedy."
    FAILED = Counter "requests_failed" "" WITH_REASON;
        "Requests that a worker failed and that could not run elsewhere."
        "Look for the worker that broke or fell silent in the access log."
    CLIENT_FAULTS = Counter "requests_client_faults" "" POOL_CLASS;
        "Requests that a worker said were at fault themselves."
        "Tell the tenant; nothing is wrong with the service."
    ABANDONED = Counter "requests_abandoned" "" POOL_CLASS;
        "Requests whose client went away before the end."
        "When it rises with the queue wait, clients have shorter timeouts than the class has waits."
    SPILLED = Counter "requests_spilled" "" POOL_CLASS;
        "Requests that this pool handed to another one."
        "A lasting rate says that this pool is too small for its classes."
    OPEN = Gauge "requests_open" "" POOL_CLASS;
        "Requests that have not ended: offered less completed, refused, failed, client faults, \
         abandoned and spilled."
        "When it grows without `forebay_requests_offered_total` growing faster, answers became \
         slower."
    WAITING = Gauge "requests_waiting" "" POOL_CLASS;
        "Requests that wait for a worker now."
        "It is meant to be above zero under load; compare its wait with what the class accepts."
    RUNNING = Gauge "requests_running" "" POOL;
        "Requests on workers now."
        "Compare it with what the engines say that they run."
    RETRIES = Counter "request_retries" "" POOL_CLASS;
        "Further attempts of requests whose worker refused or failed them before the first byte."
        "A burst follows the loss of a worker; a lasting rate means that engines refuse what they \
         are sent: lower the gate."
    QUEUE_WAIT = Histogram "queue_wait" "seconds" POOL_CLASS;
        "From arrival to the first dispatch. Without those that were never dispatched."
        "When it nears what the class accepts, add workers or let the class shed."
    PREDICTED = Histogram "predicted_wait" "seconds" POOL_CLASS;
        "The wait that was predicted at arrival, under first-come, for those that were dispatched \
         and had a prediction."
        "Compare its mean with that of `forebay_queue_wait_seconds`."
    PREDICTION = Histogram "wait_to_prediction" "ratio" POOL_CLASS;
        "The wait divided by the predicted one, where that was at least 100 ms."
        "Below 1 the order was kinder than first-come. Mostly above 2: predictions are too low, \
         and so is every Retry-After."
    TTFT = Histogram "time_to_first_token" "seconds" POOL_CLASS;
        "From arrival to the first token that passed, of streamed answers. Counted when the \
         answer ends."
        "Take the queue wait away: what is left is the engine's prefill and its own queue."
    GAP = Histogram "inter_token" "seconds" POOL;
        "Between two pieces of a streamed answer, after its first token."
        "A long tail means that engines prefill between tokens or swap: lower the gate or chunk \
         prefill."
    LATENCY = Histogram "request_duration" "seconds" POOL_CLASS;
        "From arrival to the end of the answer, of completed requests."
        "Read it with the lengths of answers: it is long where they are."
    UNCACHED = Histogram "prompt_uncached" "tokens" POOL_CLASS;
        "Prompt tokens that the chosen worker was not believed to hold."
        "When it grows with equal prompts, caches are too small or placement spreads what belongs \
         together."
    RETRY_AFTER = Histogram "retry_after" "seconds" POOL_CLASS;
        "The Retry-After of refusals that carried one. Its count is the number of promises."
        "Values at the cap are sustained overload."
    RETURNED = Counter "retry_after_returned" "" POOL_CLASS;
        "Requests that came back with the place that was kept for them."
        "Far fewer than promises: clients do not retry, or change their request when they do."
    RETURNED_WAIT = Histogram "returned_wait" "seconds" POOL_CLASS;
        "How long those that came back waited until their dispatch: how well the promise was kept."
        "It should be far below `forebay_queue_wait_seconds`."
    RETURNED_REFUSED = Counter "retry_after_broken" "" POOL_CLASS;
        "Requests that came back with their place and were refused again."
        "Any rate of it says that capacity fell after the promise was made."
    WORKER_USABLE = Gauge "worker_usable" "" WORKER;
        "1 if the worker may be sent requests now."
        "Alert when it is 0 for longer than a restart takes; `state` and `probe_fault` in \
         `/admin/fleet` say why."
    WORKER_RUNNING = Gauge "worker_running" "" WORKER;
        "Requests on the worker, as accounted here."
        "Compare workers: an outlier is slow, or holds what many ask for."
    WORKER_BACKLOG = Gauge "worker_backlog" "tokens" WORKER;
        "Prompt tokens sent to the worker whose first token has not come."
        "High on all workers: prefill is the bottleneck."
    WORKER_COMMITTED = Gauge "worker_kv_committed" "tokens" WORKER;
        "KV tokens that its requests hold and will hold on average."
        "Near capacity times the gate: memory is the bottleneck."
    WORKER_CAPACITY = Gauge "worker_kv_capacity" "tokens" WORKER;
        "KV tokens that the worker holds, told or learned."
        "When it differs from what the engine prints at its start, its metrics can't be read."
    WORKER_GATE = Gauge "worker_gate" "ratio" WORKER;
        "The part of the capacity that may be committed."
        "When it falls, the engine preempts: outputs are longer than expected."
    WORKER_SILENCE = Gauge "worker_silence" "seconds" WORKER;
        "Since the last byte from the worker, on whatever connection."
        "When it grows while requests run there, the worker has stalled."
    FIGURES_AGE = Gauge "worker_figures_age" "seconds" WORKER;
        "Since the worker's own metrics were last read. Missing where they never were."
        "Above `stale_ms_max` they are not believed: the engine is too busy to answer, or \
         they moved."
    ENGINE_RUNNING = Gauge "worker_engine_running" "" WORKER;
        "Requests that the engine itself says it runs. Missing while its metrics are stale."
        "Far from `forebay_worker_running`: somebody else sends requests to it."
    ENGINE_WAITING = Gauge "worker_engine_waiting" "" WORKER;
        "Requests that the engine itself says wait inside it. Missing while its metrics are stale."
        "It should be near 0: what waits in there can't be reordered. Lower the gate if it is not."
    PREEMPTIONS = Counter "worker_preemptions" "" WORKER;
        "Requests that the engine took back from running for want of KV memory, since it started."
        "Any lasting rate: the gate is too wide, or outputs are longer than expected."
    DECISION = Histogram "decision" "seconds" POOL;
        "Time of one round of the pool's core, under its lock."
        "Above 100 µs the core is a bottleneck of a busy pool: look for very many waiting requests."
    TOKEN_BYTES = Gauge "token" "bytes" POOL;
        "Bytes of text in one token, as learned from what engines say."
        "When it leaves 3 to 6, the pool's models differ or prompts are not text."
    HELD = Gauge "bodies_held" "bytes" &[];
        "Bytes of request bodies in memory."
        "Near `bodies_bytes_max` new requests are refused as `gateway_full`."
    READY = Gauge "ready" "" &[];
        "1 if `/readyz` says so."
        "0 takes the gateway out of its load balancer."
    CONNECTIONS = Gauge "connections_open" "" &[];
        "Connections of clients that are open."
        "Near `connections_max`, newcomers are refused."
    ACCEPTED = Counter "connections_accepted" "" &[];
        "Connections of clients that were taken in."
        "Far more than requests: clients do not keep their connections."
    CONNECTION_FAULTS = Counter "connection_faults" "" &["reason"];
        "Connections and requests that went wrong before anybody could read them, by reason: \
         `refused` (too many connections), `accept_failed` (no descriptor), `handshake_failed`, \
         `header_timeout`, `idle_timeout`, `write_timeout` (the client does not read), \
         `bad_request` (no HTTP, headers above their bounds, or a method that nobody serves), \
         `cut` (at the end of a stop)."
        "`refused` and `accept_failed` turn clients away: raise the limit on connections or \
         descriptors. The others are clients' doing."
    LOG_DROPPED = Counter "access_log_dropped" "" &[];
        "Lines of the access log that were dropped since they could not be written fast enough."
        "Any rate: the disk or whoever reads the log is too slow."
    SPANS_EXPORTED = Counter "spans_exported" "" &[];
        "Spans that the collector has taken. Only where requests are traced."
        "When it stands still while requests end, the log says why."
    SPANS_DROPPED = Counter "spans_dropped" "" &["reason"];
        "Spans that were not sent, by reason: `queue_full` (too many requests waited to be sent), \
         `export_failed` (the collector could not be reached, or did not take them). Only where \
         requests are traced."
        "`queue_full`: lower `sample_ratio`, or raise `queue_len_max`. `export_failed`: look at \
         the collector and the log."
    RECORDING = Gauge "recording" "" POOL;
        "1 while the pool's decisions are recorded, 0 once the recording has ended at its bound."
        "When it turns 0 before the incident, allow the recording more bytes, and restart."
    RECORDED = Counter "recorded" "bytes" POOL;
        "Bytes of the pool's recording."
        "Its rate says how long the bound will last."
    UPTIME = Gauge "uptime" "seconds" &[];
        "Since the gateway started."
        "A fall is a restart that somebody should know of."
}
