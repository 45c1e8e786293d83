//! Reads what `vllm bench serve --save-result` leaves behind: rows with `--save-detailed`, else
//! figures.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::Span;
use serde_json::Value;

use super::super::{
    About, Attempt, Fault, Figures, Outcome, ROWS_MAX, Results, ResultsError, Row, Run, Spread,
    Usage,
};
use super::document::{count, lag, late, number, ordered, row, secs, spread, text, unserved};

pub(super) fn read(path: &Path, value: &Value) -> Result<Results, ResultsError> {
    let about = About {
        label: text(&value["label"]),
        tool: "vllm bench serve".into(),
        model: text(&value["model_id"]),
        // A rate that is infinite sends everything at once, and is written as a word.
        is_closed_loop: !value["max_concurrency"].is_null(),
        ..About::default()
    };
    let list = |name: &str| value[name].as_array().map(Vec::as_slice);
    let lists = (list("start_times"), list("ttfts"), list("itls"), list("errors"));
    if let (Some(starts), Some(ttfts), Some(itls), Some(errors)) = lists {
        let same = [ttfts.len(), itls.len(), errors.len()].iter().all(|len| *len == starts.len());
        if !same || starts.len() as u64 > ROWS_MAX {
            let what = "its lists of requests are not equally long, or too long";
            return Err(ResultsError::of(path, what, "measure again with --save-detailed"));
        }
        if let Some(all) = count(&value["num_prompts"]).filter(|all| *all != starts.len() as u64) {
            let what = format!("num_prompts is {all}, and its lists hold {}", starts.len());
            let remedy = "requests that failed are not in it: measure again with a newer vllm";
            return Err(ResultsError::of(path, what, remedy));
        }
        return Ok(Results::Run(Box::new(run(about, value, starts))));
    }
    Ok(Results::Figures(Box::new(figures(path, about, value)?)))
}

fn run(mut about: About, value: &Value, starts: &[Value]) -> Run {
    // Moments are seconds of a clock that began some time.
    let begun = |nth: usize| number(&starts[nth]).filter(|it| *it > 0.0);
    let waited = |nth: usize| number(&value["queue_times"][nth]).filter(|it| *it >= 0.0);
    let due = |nth: usize| begun(nth).map(|start| start - waited(nth).unwrap_or(0.0));
    let origin = (0..starts.len()).filter_map(due).reduce(f64::min).unwrap_or(0.0);
    let rows = (0..starts.len()).map(|nth| {
        let scheduled = due(nth).and_then(|at| secs(at - origin)).unwrap_or(Span::ZERO);
        let start = begun(nth).and_then(|at| secs(at - origin)).unwrap_or(scheduled);
        one(value, nth, scheduled, start)
    });
    let rows = ordered(rows.collect());
    about.notes.push("latencies count from when a request was sent, or waited for its turn".into());
    about.notes.push("which requests were refused is told by the words of their errors".into());
    about.generator = lag(&rows);
    about.invalid.extend(late(about.generator.as_ref()));
    Run { about, rows }
}

fn one(value: &Value, nth: usize, scheduled: Span, start: Span) -> Row {
    let error = text(&value["errors"][nth]);
    let status = refusal(&error);
    let outcome = if error.is_empty() { Outcome::Completed } else { unserved(status) };
    let is_served = outcome == Outcome::Completed;
    let ttft = number(&value["ttfts"][nth]).filter(|it| *it > 0.0).and_then(secs);
    let first = ttft.map(|ttft| start + ttft);
    let mut chunks: Vec<Span> = first.into_iter().collect();
    let gaps = value["itls"][nth].as_array().into_iter().flatten();
    for gap in gaps.filter_map(|gap| number(gap).and_then(secs)) {
        chunks.extend(chunks.last().map(|last| *last + gap));
    }
    let took = number(&value["latencies"][nth]).and_then(secs).map(|took| start + took);
    let end = took.or(chunks.last().copied()).unwrap_or(start);
    let tokens = |name: &str| count(&value[name][nth]);
    let usage = Usage { output_tokens: tokens("output_lens"), ..Usage::default() };
    let attempt = Attempt {
        first_token: first,
        chunks,
        end: end.max(scheduled),
        status: status.or(is_served.then_some(200)),
        usage: if is_served { usage } else { Usage::default() },
        outcome,
        fault: (outcome == Outcome::Failed).then_some(Fault::Unknown),
        error: (!is_served).then(|| error.chars().take(200).collect::<String>().into()),
        ..Attempt::new(scheduled, 0)
    };
    Row { prompt_tokens: tokens("input_lens"), ..row(scheduled, attempt) }
}

/// The status of a refusal, which is told by its words only.
fn refusal(error: &str) -> Option<u16> {
    match error {
        _ if error.contains("Service Unavailable") => Some(503),
        _ if error.contains("Too Many Requests") => Some(429),
        _ => None,
    }
}

fn figures(path: &Path, mut about: About, value: &Value) -> Result<Figures, ResultsError> {
    let odd = |what: String| Err(ResultsError::of(path, what, "measure it again"));
    let Some(completed) = count(&value["completed"]) else {
        return odd(format!("completed is {}, which is no count", value["completed"]));
    };
    let told = count(&value["failed"]).unwrap_or(0);
    let all = count(&value["num_prompts"]).unwrap_or(completed + told);
    if completed + told > all {
        return odd(format!("{completed} completed and {told} failed are more than {all} in all"));
    }
    let failed = all - completed;
    if failed > told {
        about.notes.push(format!(
            "{} of {all} requests are neither completed nor failed in it: they count as failed",
            failed - told
        ));
    }
    about.notes.push("figures only, over completed requests; refusals count as failed".into());
    let times = |what: &str| -> Option<Spread> {
        let of = |name: &str| number(&value[format!("{name}_{what}_ms")]);
        let percentile = |nth| match nth {
            50 => of("median"),
            nth => of(&format!("p{nth}")),
        };
        spread(Some(completed), 1.0, of, percentile)
    };
    Ok(Figures {
        about,
        counts: BTreeMap::from([(Outcome::Completed, completed), (Outcome::Failed, failed)]),
        ttft_ms: times("ttft"),
        // Its "tpot" is the mean gap of each request, its "itl" that of all events.
        itl_ms: times("tpot"),
        e2e_ms: times("e2el"),
        duration_s: number(&value["duration"]),
        prompt_tokens: count(&value["total_input_tokens"]),
        output_tokens: count(&value["total_output_tokens"]),
    })
}
