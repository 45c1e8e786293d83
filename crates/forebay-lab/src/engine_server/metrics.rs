//! Counts what a worker does, and shows it as vLLM's `/metrics` does.
//!
//! Names, labels, buckets and help are those of vLLM 0.32. Families that would only ever be zero
//! here, as those of multi-modal caches and of KV transfer, are left out. Times are seconds of the
//! wall: to whoever looks, an engine of ten times the speed is a faster engine.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::exposition::{Exposition, Histogram};
use crate::engine::{Gauges, Preset};

/// Bounds of times to the first token, in seconds.
const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
/// Bounds of times between tokens, in seconds.
const BETWEEN_TOKENS: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
/// Bounds of times of a whole request, in seconds.
const WHOLE: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
/// Bounds of answers to a request.
const ANSWERS: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// What happened since a worker's start.
#[derive(Debug)]
pub(super) struct Metrics {
    model: String,
    cache: String,
    /// Start of the worker, in seconds since the epoch of Unix.
    created: f64,
    /// Prompt tokens of admitted requests.
    pub(super) prompt_tokens: u64,
    /// Of those, the ones found in the cache.
    pub(super) cached_tokens: u64,
    /// Generated tokens.
    pub(super) generated_tokens: u64,
    /// Requests that ended by themselves.
    pub(super) stopped: u64,
    /// Requests that ended at their limit.
    pub(super) limited: u64,
    /// Requests refused since too many were inside.
    pub(super) rejected: u64,
    /// Preemptions.
    pub(super) preemptions: u64,
    /// Prompt tokens of each request.
    pub(super) prompts: Histogram,
    /// Generated tokens of each request.
    pub(super) answers: Histogram,
    /// Answers that each request asked for.
    pub(super) params_n: Histogram,
    /// The limit of each request's answer, in tokens.
    pub(super) params_max_tokens: Histogram,
    /// Seconds to the first token.
    pub(super) first_token: Histogram,
    /// Seconds between tokens.
    pub(super) between_tokens: Histogram,
    /// Mean seconds between the tokens of each request.
    pub(super) per_token: Histogram,
    /// Seconds of each request.
    pub(super) whole: Histogram,
    /// Seconds before the first admission.
    pub(super) queued: Histogram,
    /// Seconds from the first admission to the end.
    pub(super) inference: Histogram,
    /// Seconds from the first admission to the first token.
    pub(super) prefill: Histogram,
    /// Seconds from the first token to the end.
    pub(super) decode: Histogram,
    /// Prompt tokens of each request that were computed.
    pub(super) computed: Histogram,
    /// Answers by handler, method and class of status.
    http: BTreeMap<(&'static str, &'static str, u16), u64>,
}

impl Metrics {
    /// Nothing yet, for a worker that starts `created` seconds after the epoch of Unix.
    pub(super) fn new(preset: &Preset, model: &str, tokens_max: u32, created: f64) -> Self {
        let lengths = lengths_up_to(tokens_max);
        let whole = || Histogram::new(&WHOLE);
        let lengths = || Histogram::new(&lengths);
        Self {
            model: model.to_owned(),
            cache: cache_labels(preset, tokens_max),
            created,
            prompt_tokens: 0,
            cached_tokens: 0,
            generated_tokens: 0,
            stopped: 0,
            limited: 0,
            rejected: 0,
            preemptions: 0,
            prompts: lengths(),
            answers: lengths(),
            params_n: Histogram::new(&ANSWERS),
            params_max_tokens: lengths(),
            first_token: Histogram::new(&FIRST_TOKEN),
            between_tokens: Histogram::new(&BETWEEN_TOKENS),
            per_token: Histogram::new(&BETWEEN_TOKENS),
            whole: whole(),
            queued: whole(),
            inference: whole(),
            prefill: whole(),
            decode: whole(),
            computed: lengths(),
            http: BTreeMap::new(),
        }
    }

    /// Counts an answer to HTTP.
    pub(super) fn answered(&mut self, handler: &'static str, method: &'static str, status: u16) {
        *self.http.entry((handler, method, status / 100)).or_default() += 1;
    }

    /// The text of `/metrics`.
    pub(super) fn show(&self, gauges: Gauges) -> String {
        let mut to = Exposition::new(&self.model, self.created);
        show_gauges(gauges, &mut to);
        self.show_counters(&mut to);
        self.show_histograms(&mut to);
        to.labelled_gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            &self.cache,
        );
        self.show_http(&mut to);
        to.finish()
    }

    fn show_counters(&self, to: &mut Exposition) {
        to.counter(
            "vllm:prefix_cache_queries",
            "Prefix cache queries, in terms of number of queried tokens.",
            &[("", self.prompt_tokens)],
        );
        to.counter(
            "vllm:prefix_cache_hits",
            "Prefix cache hits, in terms of number of cached tokens.",
            &[("", self.cached_tokens)],
        );
        to.counter(
            "vllm:num_preemptions",
            "Cumulative number of preemption from the engine.",
            &[("", self.preemptions)],
        );
        to.counter(
            "vllm:prompt_tokens",
            "Number of prefill tokens processed.",
            &[("", self.prompt_tokens)],
        );
        to.counter(
            "vllm:prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            &[
                (r#"source="local_compute""#, self.prompt_tokens - self.cached_tokens),
                (r#"source="local_cache_hit""#, self.cached_tokens),
                (r#"source="external_kv_transfer""#, 0),
            ],
        );
        to.counter(
            "vllm:prompt_tokens_cached",
            "Number of cached prompt tokens (local + external).",
            &[("", self.cached_tokens)],
        );
        to.counter(
            "vllm:generation_tokens",
            "Number of generation tokens processed.",
            &[("", self.generated_tokens)],
        );
        to.counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            &[
                (r#"finished_reason="stop""#, self.stopped),
                (r#"finished_reason="length""#, self.limited),
                (r#"finished_reason="abort""#, 0),
                (r#"finished_reason="error""#, 0),
                (r#"finished_reason="repetition""#, 0),
            ],
        );
        to.counter_of_server(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            &[
                (r#"reason="max_num_queued_reqs""#, self.rejected),
                (r#"reason="max_num_queued_tokens""#, 0),
            ],
        );
    }

    fn show_histograms(&self, to: &mut Exposition) {
        let all: [(&str, &str, &Histogram); 14] = [
            ("request_prompt_tokens", "Number of prefill tokens processed.", &self.prompts),
            ("request_generation_tokens", "Number of generation tokens processed.", &self.answers),
            ("request_params_n", "Histogram of the n request parameter.", &self.params_n),
            (
                "request_params_max_tokens",
                "Histogram of the max_tokens request parameter.",
                &self.params_max_tokens,
            ),
            (
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                &self.first_token,
            ),
            (
                "inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                &self.between_tokens,
            ),
            (
                "request_time_per_output_token_seconds",
                "Histogram of time_per_output_token_seconds per request.",
                &self.per_token,
            ),
            (
                "e2e_request_latency_seconds",
                "Histogram of e2e request latency in seconds.",
                &self.whole,
            ),
            (
                "request_queue_time_seconds",
                "Histogram of time spent in WAITING phase for request.",
                &self.queued,
            ),
            (
                "request_inference_time_seconds",
                "Histogram of time spent in RUNNING phase for request.",
                &self.inference,
            ),
            (
                "request_prefill_time_seconds",
                "Histogram of time spent in PREFILL phase for request.",
                &self.prefill,
            ),
            (
                "request_decode_time_seconds",
                "Histogram of time spent in DECODE phase for request.",
                &self.decode,
            ),
            (
                "request_prefill_kv_computed_tokens",
                "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
                &self.computed,
            ),
            (
                "request_max_num_generation_tokens",
                "Histogram of maximum number of requested generation tokens.",
                &self.answers,
            ),
        ];
        for (name, help, histogram) in all {
            to.histogram(&format!("vllm:{name}"), help, histogram);
        }
    }

    fn show_http(&self, to: &mut Exposition) {
        let help = "Total number of requests by method, status and handler.";
        let rows = self.http.iter().map(|(&(handler, method, class), &count)| {
            let labels = format!("handler=\"{handler}\",method=\"{method}\",status=\"{class}xx\"");
            (labels, count)
        });
        to.plain_counter("http_requests", help, &rows.collect::<Vec<_>>());
    }
}

fn show_gauges(gauges: Gauges, to: &mut Exposition) {
    let (running, waiting) = (f64::from(gauges.running), f64::from(gauges.waiting));
    to.process();
    to.gauge(
        "vllm:num_requests_running",
        "Number of requests in model execution batches.",
        &[("", running)],
    );
    to.gauge(
        "vllm:num_requests_waiting",
        "Number of requests waiting to be processed.",
        &[("", waiting)],
    );
    to.gauge(
        "vllm:num_requests_waiting_by_reason",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for \
         scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV \
         transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
        &[(r#"reason="capacity""#, waiting), (r#"reason="deferred""#, 0.0)],
    );
    to.gauge(
        "vllm:engine_sleep_state",
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is \
         awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        &[
            (r#"sleep_state="awake""#, 1.0),
            (r#"sleep_state="weights_offloaded""#, 0.0),
            (r#"sleep_state="discard_all""#, 0.0),
        ],
    );
    to.gauge(
        "vllm:kv_cache_usage_perc",
        "KV-cache usage. 1 means 100 percent usage.",
        &[("", gauges.kv_used)],
    );
}

/// vLLM's bounds of lengths: 1, 2, 5, 10, 20, 50 and so on up to the longest.
fn lengths_up_to(tokens_max: u32) -> Vec<f64> {
    let decades = (0..10).map(|power| 10.0_f64.powi(power));
    let bounds = decades.flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade]);
    bounds.take_while(|&bound| bound <= f64::from(tokens_max)).collect()
}

/// The labels of `vllm:cache_config_info`, from which routers take an engine's capacity.
fn cache_labels(preset: &Preset, tokens_max: u32) -> String {
    let (size, blocks) = (preset.block_size, preset.blocks());
    let tokens = u64::from(size) * u64::from(blocks);
    let concurrency = tokens as f64 / f64::from(tokens_max.max(1));
    let mut labels = String::new();
    let values: [(&str, &dyn std::fmt::Display); 17] = [
        ("_block_size_resolved", &"True"),
        ("block_size", &size),
        ("cache_dtype", &"auto"),
        ("effective_attention_block_size", &size),
        ("enable_prefix_caching", &"True"),
        ("engine", &0),
        ("gpu_memory_utilization", &"0.92"),
        ("hash_block_size", &"None"),
        ("is_attention_free", &"False"),
        ("kv_cache_max_concurrency", &concurrency),
        ("kv_cache_size_tokens", &tokens),
        ("num_cpu_blocks", &"None"),
        ("num_gpu_blocks", &blocks),
        ("num_gpu_blocks_override", &"None"),
        ("prefix_caching_hash_algo", &"sha256_cbor"),
        ("sliding_window", &"None"),
        ("user_specified_block_size", &"True"),
    ];
    for (name, value) in values {
        let comma = if labels.is_empty() { "" } else { "," };
        write!(labels, "{comma}{name}=\"{value}\"").expect("a String takes all");
    }
    labels
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Metrics, lengths_up_to};
    use crate::engine::{Gauges, Preset};

    fn shown() -> String {
        let preset = Preset::resolve("tenth/qwen3-8b").expect("it ships");
        let mut metrics = Metrics::new(&preset, "tiny", 2_048, 1_000.5);
        metrics.first_token.observe(0.004, 1);
        metrics.answered("/v1/models", "GET", 200);
        metrics.show(Gauges { running: 3, waiting: 1, kv_used: 0.25, preemptions_total: 0 })
    }

    /// Names and labels of all samples but those that only a real process has.
    fn series(text: &str) -> BTreeSet<&str> {
        text.lines()
            .filter(|line| line.starts_with("vllm:") && !line.starts_with("vllm:cache_config"))
            .filter_map(|line| line.rsplit_once(' ').map(|(series, _)| series))
            .collect()
    }

    #[test]
    fn every_series_is_one_that_was_captured() {
        let captured = series(include_str!("captured/series.txt"));
        let shown = shown();
        let unknown: Vec<_> = series(&shown).difference(&captured).copied().collect();
        assert_eq!(unknown, [""; 0]);
        assert!(series(&shown).len() > 300);
    }

    #[test]
    fn what_routers_read_is_there() {
        let shown = shown();
        for line in [
            "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 3.0",
            "vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny\"} 1.0",
            "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"tiny\"} 0.25",
            "# TYPE vllm:time_to_first_token_seconds histogram",
            "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.005\",\
             model_name=\"tiny\"} 1.0",
            "http_requests_total{handler=\"/v1/models\",method=\"GET\",status=\"2xx\"} 1.0",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}");
        }
        let config = shown.lines().find(|line| line.starts_with("vllm:cache_config_info{"));
        let config = config.expect("capacity is told");
        assert!(config.contains("block_size=\"64\""), "{config}");
        assert!(config.contains("num_gpu_blocks=\"1759\""), "{config}");
    }

    #[test]
    fn lengths_have_the_bounds_that_were_captured() {
        let bounds = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000].map(f64::from);
        assert_eq!(lengths_up_to(2_048), bounds);
    }
}
