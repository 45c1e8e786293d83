//! Answers those who run the gateway: is it alive, is it ready, how is it, and why did it do that?
//!
//! | module | answers |
//! |---|---|
//! | `explain` | why did a request go where it went, or why was it refused? |
//! | `workers` | how is the fleet, and which workers join, are drained, or leave? |
//!
//! `/healthz`, `/readyz` and `/metrics` need no key: probes and scrapers have none. What lies below
//! `/admin/` needs a key of an admin, or a client on the same machine where there are no keys.

mod explain;
#[cfg(test)]
mod tests;
pub(crate) mod workers;

use bytes::Bytes;
use forebay_core::RefusalReason;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::gateway::Gateway;
use crate::models;
use crate::observe;
use crate::refuse::Denial;
use crate::request::{From, ReplyBody, holder};
use crate::rules::Rules;

/// Answers a request for one of the pages that are read.
pub(crate) fn page(
    gateway: &Gateway,
    head: &Parts,
    from: From,
) -> Result<Response<ReplyBody>, Denial> {
    let path = head.uri.path();
    let page: fn(&Gateway, &Parts, From) -> Result<Response<ReplyBody>, Denial> = match path {
        "/healthz" => |_, _, _| Ok(text(StatusCode::OK, "alive\n")),
        "/readyz" => |gateway, _, _| Ok(ready(gateway)),
        "/metrics" => |gateway, _, _| Ok(metrics(gateway)),
        models::PATH => |gateway, head, _| models::page(gateway, head),
        _ if path.strip_prefix(models::PATH).is_some_and(|rest| rest.starts_with('/')) => {
            |gateway, head, _| models::one(gateway, head)
        }
        _ if path.starts_with(explain::PREFIX) => |gateway, head, from| {
            authorize(&gateway.rules(), head, from)?;
            explain::page(gateway, head)
        },
        _ => return Err(Denial::plain(RefusalReason::UnknownEndpoint)),
    };
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(Denial::plain(RefusalReason::UnknownEndpoint));
    }
    page(gateway, head, from)
}

/// Says whether whoever sent this may use the admin pages.
pub(crate) fn authorize(rules: &Rules, head: &Parts, from: From) -> Result<(), Denial> {
    let Some(identity) = holder(&head.headers, rules) else {
        return Err(Denial::plain(RefusalReason::Unauthenticated));
    };
    let is_near = !rules.keys.is_empty() || from.peer.ip().to_canonical().is_loopback();
    if identity.admin && is_near { Ok(()) } else { Err(Denial::plain(RefusalReason::Forbidden)) }
}

fn ready(gateway: &Gateway) -> Response<ReplyBody> {
    if gateway.is_ready() {
        return text(StatusCode::OK, "ready\n");
    }
    let why = if gateway.is_leaving() {
        "not ready: the gateway is about to stop\n"
    } else {
        "not ready: no worker may be sent anything\n"
    };
    text(StatusCode::SERVICE_UNAVAILABLE, why)
}

fn metrics(gateway: &Gateway) -> Response<ReplyBody> {
    answer(StatusCode::OK, observe::CONTENT_TYPE, gateway.observe.page(gateway))
}

/// An answer in plain text.
fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<ReplyBody> {
    answer(status, "text/plain; charset=utf-8", body)
}

/// An answer that nobody may keep: it is different the next time.
pub(crate) fn answer(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::whole(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A part of a path without its percent signs. What is no UTF-8 then is nobody's name.
pub(crate) fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex =
            after.get(..2).filter(|hex| *first == b'%' && hex.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        rest = if hex.is_some() { &after[2..] } else { after };
        bytes.push(hex.unwrap_or(*first));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
