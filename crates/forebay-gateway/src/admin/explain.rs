//! Tells what was decided for a request lately, by the name that its client knows it by.

use std::fmt::Write as _;
use std::sync::Arc;

use forebay_core::{GateView, Moment, Refusal, RefusalReason, RequestId, Span, Why, WorkerId};
use http::header::ACCEPT;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{answer, decoded, text};
use crate::gateway::Gateway;
use crate::observe::rfc3339;
use crate::pool::{Arrived, Pool, Remembered, Verdict, Waits};
use crate::refuse::Denial;
use crate::request::ReplyBody;
use crate::rules::Rules;

/// What comes before the request's name in a path.
pub(super) const PREFIX: &str = "/admin/explain/";

/// A request in one pool, and what was decided there.
struct Found<'a> {
    pool: &'a Arc<Pool>,
    request: RequestId,
    arrived: Arrived,
    decided: Vec<Remembered>,
    waits: Option<Waits>,
}

/// The page of the request that the path names.
pub(super) fn page(gateway: &Gateway, head: &Parts) -> Result<Response<ReplyBody>, Denial> {
    let name = decoded(head.uri.path().strip_prefix(PREFIX).unwrap_or_default());
    let found = find(gateway, &name);
    if found.is_empty() {
        let what = "No request of this name came lately. Names are those of `x-request-id` in the \
                    answer; those refused before a pool was chosen are in the access log only.";
        return Err(Denial::because(RefusalReason::UnknownEndpoint, what));
    }
    let rules = gateway.rules();
    let accepted = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    if accepted.is_some_and(|accept| accept.contains("application/json")) {
        let requests: Vec<Value> = found.iter().map(|it| json(gateway, &rules, it)).collect();
        let body = json!({ "request": name, "requests": requests }).to_string();
        return Ok(answer(StatusCode::OK, "application/json", body));
    }
    let stories: Vec<String> = found.iter().map(|it| story(gateway, &rules, it)).collect();
    Ok(text(StatusCode::OK, stories.join("\n\n") + "\n"))
}

/// Every request of this name, in the order of arrival. One that spilled was in several pools.
fn find<'a>(gateway: &'a Gateway, name: &str) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    for pool in &gateway.pools {
        for (request, arrived) in pool.named(name) {
            let decided = pool.explain(request);
            let waits = pool.waits(request, arrived.at);
            found.push(Found { pool, request, arrived, decided, waits });
        }
    }
    found.sort_by_key(|it| (it.arrived.at, it.pool.id));
    found
}

/// A paragraph for each thing that is known.
fn story(gateway: &Gateway, rules: &Rules, found: &Found<'_>) -> String {
    let Found { pool, request, arrived, decided, waits } = found;
    let mut story = format!(
        "{} came at {} as {request} of pool {}, class {}, tenant {}, with a prompt of {}.",
        arrived.name,
        time(gateway, arrived.at),
        pool.name,
        class(rules, arrived),
        tenant(rules, arrived),
        arrived.prompt,
    );
    for Remembered { at, what } in decided {
        let at = time(gateway, *at);
        let told = match what {
            Verdict::Dispatched(worker, why) => {
                write!(story, "\n\nAt {at} it was sent to {worker}. {why}")
            }
            Verdict::Spilled(to, why) => {
                let to = gateway.pools.get(usize::from(to.0)).map_or("?", |pool| &pool.name);
                write!(story, "\n\nAt {at} it was handed to pool {to}. {why}")
            }
            Verdict::Refused(refusal) => {
                let what = if refusal.reason.is_failure() { "failed" } else { "was refused" };
                write!(story, "\n\nAt {at} it {what}: {refusal}")
            }
        };
        debug_assert!(told.is_ok(), "a string takes anything");
    }
    if let Some(waits) = waits {
        story.push_str("\n\n");
        story.push_str(&waiting(waits));
    } else if decided.is_empty() {
        story.push_str("\n\nIt does not wait, and what was decided for it was too long ago.");
    }
    with_urls(&story, pool)
}

/// A paragraph for a request that waits.
fn waiting(waits: &Waits) -> String {
    let Waits { waited, predicted, queue_len, workers } = waits;
    let why = match workers {
        0 => "no worker of its pool may be sent anything".to_owned(),
        workers => format!("none of the workers that may be sent requests ({workers}) has room"),
    };
    let predicted = predicted.map_or_else(
        || "nothing was known to predict its wait by".to_owned(),
        |wait| format!("first-come was predicted to cost it {wait}"),
    );
    format!(
        "It waits: {why}. It has waited {waited} since it came, where {predicted}. With it, \
         {queue_len} wait in the pool."
    )
}

/// Puts workers' URLs where the text has their numbers.
fn with_urls(text: &str, pool: &Pool) -> String {
    const WORD: &str = "worker ";
    let (mut out, mut rest) = (String::with_capacity(text.len() + 64), text);
    while let Some(at) = rest.find(WORD) {
        let (before, from) = rest.split_at(at + WORD.len());
        let digits = from.bytes().take_while(u8::is_ascii_digit).count();
        let worker = from[..digits].parse().ok().and_then(|id| pool.roster.get(WorkerId(id)));
        if let Some(worker) = worker {
            out.push_str(&before[..at]);
            out.push_str(&worker.name);
        } else {
            out.push_str(before);
            out.push_str(&from[..digits]);
        }
        rest = &from[digits..];
    }
    out + rest
}

fn json(gateway: &Gateway, rules: &Rules, found: &Found<'_>) -> Value {
    let Found { pool, request, arrived, decided, waits } = found;
    let waits = waits.map(|it| {
        json!({
            "waited_s": it.waited.as_secs_f64(),
            "predicted_wait_s": it.predicted.map(Span::as_secs_f64),
            "queue_len": it.queue_len,
            "workers_usable": it.workers,
        })
    });
    let decisions: Vec<Value> = decided.iter().map(|it| decision(gateway, pool, it)).collect();
    json!({
        "pool": pool.name,
        "id": request.0,
        "class": class(rules, arrived),
        "tenant": tenant(rules, arrived),
        "arrived": time(gateway, arrived.at),
        "prompt_tokens": arrived.prompt.0,
        "decisions": decisions,
        "waits": waits,
    })
}

fn decision(gateway: &Gateway, pool: &Pool, remembered: &Remembered) -> Value {
    let at = time(gateway, remembered.at);
    match &remembered.what {
        Verdict::Dispatched(worker, why) => json!({
            "at": at,
            "kind": "dispatched",
            "worker": name_of(pool, *worker),
            "why": why_json(pool, why),
        }),
        Verdict::Spilled(to, why) => json!({
            "at": at,
            "kind": "spilled",
            "pool": gateway.pools.get(usize::from(to.0)).map(|pool| pool.name.as_str()),
            "why": why_json(pool, why),
        }),
        Verdict::Refused(refusal) => json!({
            "at": at,
            "kind": "refused",
            "refusal": refusal_json(refusal),
        }),
    }
}

fn why_json(pool: &Pool, why: &Why) -> Value {
    let candidates = why.candidates.iter().map(|candidate| {
        json!({
            "worker": name_of(pool, candidate.worker),
            "score": candidate.score,
            "cached_tokens": candidate.cached.0,
            "backlog_tokens": candidate.backlog.0,
        })
    });
    json!({
        "text": with_urls(&why.to_string(), pool),
        "mode": why.mode,
        "cause": why.cause.to_string(),
        "attempt": why.attempt,
        "waited_s": why.waited.as_secs_f64(),
        "predicted_wait_s": why.predicted_wait.map(Span::as_secs_f64),
        "expected_output_tokens": why.expected_output.0,
        "occupancy_tokens": why.occupancy.0,
        "workers_open": why.workers_open,
        "queue_len": why.queue_len,
        "passed": why.passed,
        "candidates": candidates.collect::<Vec<_>>(),
        "gate": why.gate.as_ref().map(gate_json),
    })
}

fn gate_json(gate: &GateView) -> Value {
    json!({
        "committed_tokens": gate.committed.0,
        "need_tokens": gate.need.0,
        "capacity_tokens": gate.capacity.0,
        "fraction": gate.fraction,
    })
}

fn refusal_json(refusal: &Refusal) -> Value {
    json!({
        "text": refusal.to_string(),
        "reason": refusal.reason.label(),
        "limit": refusal.limit,
        "waited_s": refusal.waited.as_secs_f64(),
        "predicted_wait_s": refusal.predicted_wait.map(Span::as_secs_f64),
        "retry_after_s": refusal.retry_after.map(Span::as_secs_f64),
        "sustained": refusal.sustained,
    })
}

fn name_of(pool: &Pool, worker: WorkerId) -> String {
    pool.roster.get(worker).map_or_else(|| worker.to_string(), |it| it.name.to_string())
}

fn class(rules: &Rules, arrived: &Arrived) -> String {
    let class = rules.classes.get(usize::from(arrived.class.0));
    class.map_or_else(|| arrived.class.0.to_string(), |class| class.name.clone())
}

fn tenant(rules: &Rules, arrived: &Arrived) -> String {
    let tenant = rules.tenants.get(arrived.tenant.0 as usize);
    tenant.cloned().unwrap_or_else(|| arrived.tenant.0.to_string())
}

fn time(gateway: &Gateway, at: Moment) -> String {
    rfc3339(gateway.clock.unix_millis(at))
}
