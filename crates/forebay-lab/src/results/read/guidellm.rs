//! Reads one benchmark of guidellm's `benchmarks.json`, which holds one for each load it tried.

use std::path::Path;

use forebay_core::Span;
use serde_json::Value;

use super::super::{
    About, Attempt, Fault, Outcome, ROWS_MAX, Results, ResultsError, Row, Run, Usage,
};
use super::document::{count, lag, late, millis, number, ordered, row, secs, text};

/// Where guidellm puts requests, and how those ended.
const LISTS: [(&str, Outcome); 3] = [
    ("successful", Outcome::Completed),
    ("errored", Outcome::Failed),
    ("incomplete", Outcome::Cancelled),
];

pub(super) fn read(
    path: &Path,
    file: &Value,
    benchmarks: &[Value],
    place: Option<usize>,
) -> Result<Results, ResultsError> {
    let many = benchmarks.len();
    let benchmark = match place {
        None if many == 1 => &benchmarks[0],
        Some(place) if place < many => &benchmarks[place],
        _ => {
            let what = format!("holds {many} benchmarks, and one is read");
            let remedy = format!("name one as {}#1 (to #{many})", path.display());
            return Err(ResultsError::of(path, what, remedy));
        }
    };
    let lists = LISTS.map(|(name, outcome)| {
        (benchmark["requests"][name].as_array().map_or(&[][..], Vec::as_slice), outcome)
    });
    let requests = || lists.iter().flat_map(|(list, end)| list.iter().map(move |one| (one, *end)));
    let seen = requests().count() as u64;
    if seen == 0 || seen > ROWS_MAX {
        let what = format!("holds {seen} requests");
        return Err(ResultsError::of(
            path,
            what,
            "keep the requests when guidellm writes its file",
        ));
    }
    let origin = requests().filter_map(|(one, _)| due(one)).reduce(f64::min).unwrap_or(0.0);
    let rows = ordered(requests().map(|(one, end)| request(one, end, origin)).collect());
    let version = text(&file["metadata"]["guidellm_version"]);
    let generator = lag(&rows);
    let about = About {
        tool: format!("guidellm {version}").trim_end().to_owned(),
        started_unix_ms: (origin.clamp(0.0, 1e11) * 1e3) as u64,
        notes: vec![
            "latencies count from when guidellm aimed to send, where it says so".into(),
            "which requests were refused is told by the words of their errors".into(),
        ],
        invalid: late(generator.as_ref()).into_iter().collect(),
        generator,
        is_closed_loop: is_closed_loop(benchmark),
        ..About::default()
    };
    Ok(Results::Run(Box::new(Run { about, rows })))
}

/// Whether a request was sent when another had ended, by the strategy of a benchmark. Up to 0.3 it
/// stood among the arguments.
fn is_closed_loop(benchmark: &Value) -> bool {
    let strategies = [&benchmark["config"]["strategy"], &benchmark["args"]["strategy"]];
    let mut kinds = strategies.into_iter().filter_map(|it| it["type_"].as_str());
    kinds.any(|kind| matches!(kind, "synchronous" | "concurrent" | "throughput"))
}

/// A moment of a request, in seconds since 1970.
fn moment(one: &Value, name: &str) -> Option<f64> {
    number(&one["info"]["timings"][name]).filter(|it| *it > 0.0)
}

fn start(one: &Value) -> Option<f64> {
    number(&one["request_start_time"])
        .filter(|it| *it > 0.0)
        .or_else(|| moment(one, "request_start"))
        .or_else(|| moment(one, "resolve_start"))
}

fn due(one: &Value) -> Option<f64> {
    moment(one, "targeted_start").or_else(|| start(one))
}

fn request(one: &Value, end: Outcome, origin: f64) -> Row {
    let at = |moment: f64| secs(moment - origin).unwrap_or(Span::ZERO);
    let scheduled = due(one).map_or(Span::ZERO, at);
    let sent = start(one).map(at);
    let begun = sent.unwrap_or(scheduled);
    let error = text(&one["info"]["error"]);
    let status = [(503, "503"), (429, "429"), (529, "529")];
    let status = status.iter().find(|(_, word)| error.contains(word)).map(|(code, _)| *code);
    let outcome = match status {
        Some(_) if end == Outcome::Failed => Outcome::Refused,
        _ => end,
    };
    let is_served = outcome == Outcome::Completed;
    // As its own gaps between tokens do, to the last token, and not to the mark after it.
    let over = moment(one, "last_token_iteration").filter(|_| is_served);
    let over = over.or_else(|| number(&one["request_end_time"]));
    let over = over.or_else(|| moment(one, "request_end"));
    let ttft = number(&one["time_to_first_token_ms"]).and_then(millis);
    let usage = Usage {
        prompt_tokens: count(&one["prompt_tokens"]),
        output_tokens: count(&one["output_tokens"]),
        cached_tokens: count(&one["cached_tokens"]),
    };
    let attempt = Attempt {
        dequeued: moment(one, "targeted_start").and(sent),
        first_token: ttft.map(|ttft| begun + ttft),
        end: over.filter(|it| *it > 0.0).map_or(begun, at).max(scheduled),
        status: if is_served { Some(200) } else { status },
        usage: if is_served { usage } else { Usage::default() },
        outcome,
        fault: (outcome == Outcome::Failed).then_some(Fault::Unknown),
        error: (!error.is_empty()).then(|| error.chars().take(200).collect::<String>().into()),
        ..Attempt::new(scheduled, 0)
    };
    Row { prompt_tokens: count(&one["prompt_tokens"]), ..row(scheduled, attempt) }
}
