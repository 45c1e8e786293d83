//! Reads what `AIPerf` 0.8 to 0.13 leaves behind.
//!
//! Its latencies count from the send. Where a row says when its credit was issued, that is taken
//! for the moment it was due; how late the credit itself was is not in its files.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::Span;
use serde::Deserialize;
use serde_json::Value;

use super::super::{
    AIPERF_SUMMARY_FILE, About, Attempt, Fault, Figures, Outcome, ROWS_MAX, Results, ResultsError,
    Row, Run, Spread, Usage,
};
use super::document::{
    count, lag, late, millis, number, ordered, row, spread, target, text, unserved,
};
use super::{beside, lines::Lines};

/// A line of `profile_export.jsonl`.
#[derive(Deserialize)]
struct Line {
    metadata: Metadata,
    #[serde(default)]
    metrics: BTreeMap<String, Metric>,
    error: Option<Value>,
}

/// Moments are nanoseconds since 1970.
#[derive(Deserialize)]
struct Metadata {
    session_num: Option<u64>,
    turn_index: Option<u32>,
    credit_issued_ns: Option<u64>,
    request_start_ns: u64,
    request_ack_ns: Option<u64>,
    request_end_ns: u64,
    #[serde(default)]
    benchmark_phase: String,
    #[serde(default)]
    was_cancelled: bool,
}

/// A figure of one request.
#[derive(Deserialize)]
struct Metric {
    #[serde(default)]
    value: Value,
}

impl Line {
    fn due(&self) -> u64 {
        self.metadata.credit_issued_ns.unwrap_or(self.metadata.request_start_ns)
    }

    fn metric(&self, tag: &str) -> &Value {
        self.metrics.get(tag).map_or(&Value::Null, |metric| &metric.value)
    }

    fn tokens(&self, tags: [&str; 2]) -> Option<u64> {
        tags.iter().find_map(|tag| count(self.metric(tag)))
    }

    fn time(&self, tag: &str) -> Option<Span> {
        number(self.metric(tag)).and_then(millis)
    }

    /// When each event with a token came.
    fn chunks(&self, first: Option<Span>) -> Vec<Span> {
        let (Some(first), Some(gaps)) = (first, self.metric("inter_chunk_latency").as_array())
        else {
            return Vec::new();
        };
        let mut at = first;
        let gaps = gaps.iter().filter_map(|gap| number(gap).and_then(millis));
        let later = gaps.map(|gap| {
            at = at + gap;
            at
        });
        std::iter::once(first).chain(later).collect()
    }

    fn row(&self, origin: u64) -> Row {
        let at = |nanos: u64| Span(nanos.saturating_sub(origin));
        let (due, start) = (at(self.due()), at(self.metadata.request_start_ns));
        let ended = at(self.metadata.request_end_ns);
        let first = self.time("time_to_first_token").map(|ttft| start + ttft);
        let error = self.error.as_ref();
        let status = error.and_then(|it| count(&it["code"])).and_then(|it| u16::try_from(it).ok());
        let outcome = match error {
            _ if self.metadata.was_cancelled => Outcome::Cancelled,
            None => Outcome::Completed,
            Some(it) if text(&it["type"]).contains("Timeout") => Outcome::TimedOut,
            Some(_) => unserved(status),
        };
        let fault = if status.is_some_and(|it| it >= 400) { Fault::Status } else { Fault::Unknown };
        let usage = Usage {
            prompt_tokens: self.tokens(["usage_prompt_tokens", "input_sequence_length"]),
            output_tokens: self.tokens(["usage_completion_tokens", "output_sequence_length"]),
            cached_tokens: count(self.metric("usage_prompt_cache_read_tokens")),
        };
        let attempt = Attempt {
            dequeued: self.metadata.credit_issued_ns.map(|_| start),
            first_byte: self.metadata.request_ack_ns.map(at),
            first_token: first,
            chunks: self.chunks(first),
            end: self.time("request_latency").map_or(ended, |took| start + took),
            status: status.or((outcome == Outcome::Completed).then_some(200)),
            usage: if outcome == Outcome::Completed { usage } else { Usage::default() },
            outcome,
            fault: (outcome == Outcome::Failed).then_some(fault),
            error: error
                .map(|it| text(&it["message"]).chars().take(200).collect::<String>().into()),
            ..Attempt::new(due, 0)
        };
        Row {
            is_warmup: self.metadata.benchmark_phase == "warmup",
            session: self.metadata.session_num,
            turn: self.metadata.turn_index.unwrap_or(0),
            prompt_tokens: self.tokens(["input_sequence_length", "error_isl"]),
            ..row(due, attempt)
        }
    }
}

/// Reads the rows, and what they were from the summary beside them.
pub(super) fn open(rows: &Path) -> Result<Results, ResultsError> {
    let file = rows;
    let summary = beside(file, AIPERF_SUMMARY_FILE)?;
    let mut about = summary.as_ref().map_or_else(unknown, about);
    let (lines, note): (Vec<Line>, _) = Lines::open(rows)?.each(ROWS_MAX, |_| Ok(()))?;
    about.notes.extend(note);
    let origin = lines.iter().map(Line::due).min().unwrap_or(0);
    about.started_unix_ms = origin / 1_000_000;
    about.notes.push(if lines.iter().any(|line| line.metadata.credit_issued_ns.is_some()) {
        "latencies count from AIPerf's credits: how late those were is not in its files".into()
    } else {
        "latencies count from the send: how late the generator was is not in its files".into()
    });
    let rows = ordered(lines.iter().map(|line| line.row(origin)).collect());
    reconcile(file, summary.as_ref(), &rows)?;
    about.generator = lag(&rows);
    about.invalid.extend(late(about.generator.as_ref()));
    Ok(Results::Run(Box::new(Run { about, rows })))
}

/// Refuses rows of which some are missing: their summary says how many were served.
fn reconcile(file: &Path, summary: Option<&Value>, rows: &[Row]) -> Result<(), ResultsError> {
    let Some(summary) = summary else { return Ok(()) };
    let counts = figures(summary).counts;
    let said: u64 = counts.values().sum();
    let found = rows.iter().filter(|row| !row.is_warmup).count() as u64;
    if said == 0 || found >= said {
        return Ok(());
    }
    let what = format!("{said} requests are in {AIPERF_SUMMARY_FILE}, and {found} in the rows");
    let remedy =
        "rows are missing: copy the folder again, name the summary alone, or measure again";
    Err(ResultsError::of(file, what, remedy))
}

fn unknown() -> About {
    About { tool: "aiperf".into(), ..About::default() }
}

fn about(summary: &Value) -> About {
    let endpoint = &summary["input_config"]["endpoint"];
    let words = |value: &Value| -> Vec<String> {
        let many = value.as_array().into_iter().flatten();
        many.filter_map(|it| it.as_str().or(it["name"].as_str())).map(str::to_owned).collect()
    };
    let models = words(&endpoint["model_names"]);
    let models =
        if models.is_empty() { words(&summary["input_config"]["models"]["items"]) } else { models };
    let urls = words(&endpoint["urls"]);
    About {
        tool: format!("aiperf {}", text(&summary["aiperf_version"])).trim_end().to_owned(),
        targets: urls.iter().map(|url| target(url)).collect(),
        model: models.join(", "),
        is_closed_loop: is_closed_loop(&summary["input_config"]),
        was_interrupted: summary["was_cancelled"].as_bool().unwrap_or(false),
        ..About::default()
    }
}

/// Whether a request was sent when another had ended: a phase of the type `concurrency` (0.13), or
/// in older configurations nothing that says when requests come, for which `AIPerf` takes one at a
/// time.
fn is_closed_loop(config: &Value) -> bool {
    if let Some(phases) = config["phases"].as_array() {
        let is_measured =
            |phase: &&Value| phase["kind"].as_str().is_none_or(|it| it == "profiling");
        return phases.iter().filter(is_measured).any(|phase| phase["type"] == "concurrency");
    }
    let (load, input) = (&config["loadgen"], &config["input"]);
    let is_told = |value: &Value| !value.is_null() && *value != Value::Bool(false);
    let paced = [
        &load["request_rate"],
        &load["user_centric_rate"],
        &input["fixed_schedule"],
        &input["custom_dataset_type"],
    ];
    let is_trace = |value: &Value| value.as_str().is_none_or(|kind| kind.ends_with("_trace"));
    config.is_object() && !paced.iter().any(|value| is_told(value) && is_trace(value))
}

/// Reads `profile_export_aiperf.json`: figures over the requests it calls valid.
pub(super) fn figures(summary: &Value) -> Figures {
    let scalar = |tag: &str| count(&summary[tag]["avg"]);
    let mut counts: BTreeMap<Outcome, u64> = BTreeMap::new();
    *counts.entry(Outcome::Completed).or_default() += scalar("request_count").unwrap_or(0);
    let mut told = 0;
    for error in summary["error_summary"].as_array().into_iter().flatten() {
        let status = count(&error["error_details"]["code"]).and_then(|it| u16::try_from(it).ok());
        let many = count(&error["count"]).unwrap_or(0);
        *counts.entry(unserved(status)).or_default() += many;
        told += many;
    }
    // The tag is absent where there was none.
    let untold = scalar("error_request_count").unwrap_or(0).saturating_sub(told);
    if untold > 0 {
        *counts.entry(Outcome::Failed).or_default() += untold;
    }
    let mut about = about(summary);
    about.notes.push("figures only, over completed requests, counted from the send".into());
    Figures {
        about,
        counts,
        ttft_ms: times(&summary["time_to_first_token"]),
        itl_ms: times(&summary["inter_token_latency"]),
        e2e_ms: times(&summary["request_latency"]),
        duration_s: number(&summary["benchmark_duration"]["avg"]),
        prompt_tokens: scalar("total_isl"),
        output_tokens: scalar("total_osl").or_else(|| scalar("total_output_tokens")),
    }
}

/// A distribution of times.
fn times(tag: &Value) -> Option<Spread> {
    let factor = match tag["unit"].as_str()? {
        "ms" => 1.0,
        "s" | "sec" | "seconds" => 1e3,
        "us" => 1e-3,
        "ns" => 1e-6,
        _ => return None,
    };
    let of = |name: &str| number(&tag[if name == "mean" { "avg" } else { name }]);
    spread(count(&tag["count"]), factor, of, |nth| number(&tag[format!("p{nth}")]))
}
