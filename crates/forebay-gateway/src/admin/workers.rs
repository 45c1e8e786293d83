//! Shows the fleet, and takes what is asked for its workers: join, drain, undrain, leave.
//!
//! Everything can be asked twice and is done once.

use std::str::FromStr as _;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{RefusalReason, Span};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{answer, authorize};
use crate::config::WorkerUrl;
use crate::gateway::Gateway;
use crate::refuse::Denial;
use crate::request::{From, ReplyBody};
use crate::workers::{Fleet, JoinFault, Source, WorkerReport};

/// Where the fleet is shown.
pub(crate) const FLEET: &str = "/admin/fleet";
/// Where workers join; what else can be asked for them stands behind it.
pub(crate) const WORKERS: &str = "/admin/workers";
/// The most bytes of what is asked.
const BYTES_MAX: usize = 16 << 10;
/// The longest that it may take to come.
const TIME_MAX: Duration = Duration::from_secs(5);

/// What is asked for a worker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    url: String,
    /// The pool to join; may be left out where there is only one.
    pool: Option<String>,
    /// Whether to leave at once, whatever runs there.
    #[serde(default)]
    now: bool,
}

/// Whether this module answers for a path.
pub(crate) fn is_for(path: &str) -> bool {
    path == FLEET
        || path
            .strip_prefix(WORKERS)
            .is_some_and(|rest| "/".starts_with(rest) || rest.starts_with('/'))
}

/// Answers a request for one of the paths that [`is_for`] knows.
pub(crate) async fn workers(
    gateway: &Gateway,
    fleet: &Fleet,
    (head, body): (&Parts, Incoming),
    from: From,
) -> Result<Response<ReplyBody>, Denial> {
    authorize(&gateway.rules(), head, from)?;
    if head.uri.path() == FLEET {
        return match head.method {
            Method::GET | Method::HEAD => Ok(page(&shown(fleet))),
            _ => Err(unknown_endpoint()),
        };
    }
    if head.method != Method::POST {
        return Err(unknown_endpoint());
    }
    // A page of another site can't send this type without asking first.
    let kind = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
        return Err(invalid("The body must be of the type application/json."));
    }
    let whole = timeout(TIME_MAX, Limited::new(body, BYTES_MAX).collect()).await;
    let whole = whole.map_err(|_| Denial::plain(RefusalReason::BodyTimeout))?;
    let body = whole.map_err(|_| Denial::plain(RefusalReason::BodyTooLarge))?.to_bytes();
    act(fleet, head.uri.path(), &body).map(|state| page(&state))
}

fn page(page: &Value) -> Response<ReplyBody> {
    answer(StatusCode::OK, "application/json", page.to_string())
}

/// Does what is asked for a worker; what became of it.
fn act(fleet: &Fleet, path: &str, body: &Bytes) -> Result<Value, Denial> {
    let asked: Asked = serde_json::from_slice(body)
        .map_err(|error| invalid(format!("The body is not as it should be: {error}.")))?;
    let url = WorkerUrl::from_str(&asked.url).map_err(|error| invalid(error.to_string()))?;
    let name = url.to_string();
    let verb = path.strip_prefix(WORKERS).unwrap_or_default().trim_matches('/');
    let known = match verb {
        "" | "join" => {
            join(fleet, &asked, &url)?;
            true
        }
        "drain" => fleet.drain(&name),
        "undrain" => fleet.undrain(&name),
        "leave" => {
            // One that is not there has left.
            fleet.leave(&name, asked.now);
            true
        }
        _ => return Err(unknown_endpoint()),
    };
    if !known {
        let what = "There is no worker of this URL.";
        return Err(Denial::because(RefusalReason::UnknownEndpoint, what));
    }
    let state = fleet.state(&name).unwrap_or("gone");
    Ok(json!({ "url": name, "state": state }))
}

fn join(fleet: &Fleet, asked: &Asked, url: &WorkerUrl) -> Result<(), Denial> {
    let pool = match &asked.pool {
        Some(name) => fleet.pools().position(|pool| pool.name == *name),
        None => Some(0).filter(|_| fleet.pools().count() == 1),
    };
    let Some(pool) = pool else {
        return Err(invalid("The pool to join is not named, or there is none of that name."));
    };
    match fleet.join(pool, url, Source::Admin) {
        Ok(_) => Ok(()),
        Err(fault @ JoinFault::Full(_)) => {
            Err(Denial::because(RefusalReason::GatewayFull, format!("It can't join: {fault}.")))
        }
        Err(fault) => Err(invalid(format!("It can't join: {fault}."))),
    }
}

fn shown(fleet: &Fleet) -> Value {
    let pools = fleet.pools().enumerate().map(|(nth, pool)| {
        let census = pool.census();
        let workers: Vec<Value> = fleet.reports(nth).iter().map(worker).collect();
        json!({
            "name": pool.name,
            "mode": pool.settings().mode.name(),
            "block_size": pool.block_size(),
            "waiting": census.waiting,
            "running": census.running,
            "seats": census.seats,
            "workers": workers,
        })
    });
    json!({ "pools": pools.collect::<Vec<_>>() })
}

fn worker(report: &WorkerReport) -> Value {
    let millis = |span: Span| span.0 / 1_000_000;
    let models: Vec<Value> = report
        .models
        .iter()
        .map(|model| json!({ "name": model.name, "max_model_len": model.max_model_len }))
        .collect();
    let account = report.account.map(|account| {
        json!({
            "usable": account.usable,
            "running": account.running,
            "backlog_tokens": account.backlog.0,
            "kv_committed_tokens": account.committed.0,
            "kv_capacity_tokens": account.capacity.0,
            "gate_fraction": account.fraction,
        })
    });
    let fault = report.probe_fault;
    json!({
        "url": &*report.name,
        "state": report.state,
        "probe_fault": fault.map(|it| json!({ "reason": it.reason, "status": it.status })),
        "account": account,
        "figures": {
            "age_ms": report.figures.age.map(millis),
            "running": report.figures.running,
            "waiting": report.figures.waiting,
            "preemptions_total": report.figures.preemptions_total,
        },
        "last_byte_ms": report.quiet.map(millis),
        "models": models,
    })
}

fn invalid(what: impl Into<String>) -> Denial {
    Denial::because(RefusalReason::InvalidRequest, what)
}

fn unknown_endpoint() -> Denial {
    Denial::plain(RefusalReason::UnknownEndpoint)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::{Value, json};
    use tokio::runtime::Handle;

    use super::{act, is_for, shown};
    use crate::clock::Clock;
    use crate::fixture;
    use crate::workers::{Fleet, Reach, WatchOptions};

    fn fleet() -> Fleet {
        let pool = |name| fixture::pool(name, Clock::start(), None);
        let watched = |name| (pool(name), Reach::default(), WatchOptions::default());
        Fleet::new(Handle::current(), ["main", "overnight"].map(watched))
    }

    fn ask(fleet: &Fleet, verb: &str, body: &Value) -> Result<String, u16> {
        let body = Bytes::from(body.to_string());
        match act(fleet, &format!("/admin/workers{verb}"), &body) {
            Ok(page) => Ok(page["state"].as_str().expect("it has one").to_owned()),
            Err(denial) => Err(denial.reason.status()),
        }
    }

    #[tokio::test]
    async fn workers_join_are_drained_and_leave_and_all_of_it_may_be_asked_twice() {
        let fleet = fleet();
        // It takes connections and answers nothing, so nothing ever runs there.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let join = json!({ "url": url, "pool": "overnight" });
        let it = json!({ "url": url });
        for _ in 0..2 {
            assert_eq!(ask(&fleet, "", &join), Ok("joining".into()));
        }
        for _ in 0..2 {
            assert_eq!(ask(&fleet, "/drain", &it), Ok("draining".into()));
        }
        let page = shown(&fleet);
        assert_eq!(page["pools"][0]["workers"], json!([]));
        let worker = &page["pools"][1]["workers"][0];
        assert_eq!((&worker["url"], &worker["state"]), (&json!(url), &json!("draining")));
        assert_eq!(worker["account"], Value::Null, "the core does not know it yet");
        assert_eq!(worker["figures"]["waiting"], Value::Null, "what is unknown is not 0");
        assert_eq!(ask(&fleet, "/undrain", &it), Ok("joining".into()));
        for _ in 0..2 {
            assert_eq!(ask(&fleet, "/leave", &it), Ok("gone".into()));
        }
        assert_eq!(ask(&fleet, "/drain", &it), Err(404));
        assert_eq!(shown(&fleet)["pools"][1]["workers"], json!([]));
    }

    #[tokio::test]
    async fn what_can_not_be_done_is_refused_with_the_reason() {
        let fleet = fleet();
        let url = "http://127.0.0.1:9";
        for (verb, body, status) in [
            ("", json!({ "url": url }), 400),
            ("", json!({ "url": url, "pool": "none" }), 400),
            ("", json!({ "url": "127.0.0.1:9", "pool": "main" }), 400),
            ("", json!({ "url": url, "pool": "main", "weight": 3 }), 400),
            ("", json!([]), 400),
            ("/stop", json!({ "url": url }), 404),
            ("/undrain", json!({ "url": url }), 404),
        ] {
            assert_eq!(ask(&fleet, verb, &body), Err(status), "{verb} {body}");
        }
        for port in 0..10 {
            let join = json!({ "url": format!("http://127.0.0.1:{}", port + 1), "pool": "main" });
            assert!(ask(&fleet, "", &join).is_ok());
        }
        let join = json!({ "url": "http://127.0.0.1:11", "pool": "main" });
        assert_eq!(ask(&fleet, "/join", &join), Err(503), "it has as many as it may");
        let pools: Vec<&Arc<_>> = fleet.pools().collect();
        assert_eq!(pools.len(), 2);
    }

    #[test]
    fn only_paths_of_the_fleet_are_answered_for() {
        for path in ["/admin/fleet", "/admin/workers", "/admin/workers/", "/admin/workers/drain"] {
            assert!(is_for(path), "{path}");
        }
        for path in ["/admin/fleets", "/admin/workersx", "/admin", "/v1/models"] {
            assert!(!is_for(path), "{path}");
        }
    }
}
