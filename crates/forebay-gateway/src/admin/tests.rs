//! Checks who may read the admin's pages, and what they say.

use std::sync::Arc;

use forebay_core::{ClassId, Outcome, RefusalReason, TenantId, Tokens};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};

use super::{decoded, page};
use crate::fixture;
use crate::gateway::Gateway;
use crate::request::{From, ReplyBody};
use crate::rules::{Identity, Keys};

fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn from(peer: &str) -> From {
    From { peer: peer.parse().unwrap(), lane: 0 }
}

const HERE: &str = "127.0.0.1:9";
const ELSEWHERE: &str = "192.0.2.1:9";

fn body(response: Response<ReplyBody>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let collected = runtime.block_on(response.into_body().collect());
    let bytes = collected.unwrap_or_else(|_| panic!("it is whole")).to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn get(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Response<ReplyBody> {
    asked(gateway, &head("GET", path, headers), from(HERE))
}

/// What is answered, a denial or not.
fn asked(gateway: &Gateway, head: &Parts, from: From) -> Response<ReplyBody> {
    page(gateway, head, from).unwrap_or_else(|denial| denial.response(None))
}

/// A gateway that knows the keys `tenant` and `admin`.
fn keyed() -> Arc<Gateway> {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    let mut rules = fixture::rules(["public", "batch"]);
    rules.models.insert("model/b".to_owned(), 0);
    let key = |key: &str, models: Option<&str>, admin| {
        let models = models.map(|name| Arc::from([name.to_owned()]));
        let identity = Identity { tenant: TenantId(0), class: Some(ClassId(0)), models, admin };
        (Sha256::digest(key).into(), identity)
    };
    rules.anonymous = None;
    rules.keys = Keys::new([key("tenant", Some("model/b"), false), key("admin", None, true)]);
    gateway.replace_rules(rules);
    gateway
}

#[test]
fn the_gateway_is_ready_once_a_worker_may_be_sent_something_and_until_it_leaves() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    let status = |path: &str| get(&gateway, path, &[]).status();
    assert_eq!(status("/healthz"), StatusCode::OK);
    assert_eq!(status("/readyz"), StatusCode::SERVICE_UNAVAILABLE);
    fixture::join(&gateway.pools[0], 8_001);
    assert_eq!(status("/readyz"), StatusCode::OK);
    gateway.leave();
    assert_eq!(status("/readyz"), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(status("/healthz"), StatusCode::OK);
}

#[test]
fn a_request_is_explained_by_its_clients_name_with_the_urls_of_workers() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    let pool = &gateway.pools[0];
    fixture::join(pool, 8_001);
    let seat = pool.arrive(fixture::arrival(100), false, &Arc::from("my/request 1"));
    let response = get(&gateway, "/admin/explain/my/request%201", &[]);
    assert_eq!(response.status(), StatusCode::OK);
    let text = body(response);
    assert!(text.starts_with("my/request 1 came at 2"), "{text}");
    assert!(text.contains("pool main, class public, tenant city, with a prompt of 100"), "{text}");
    assert!(text.contains("it was sent to http://127.0.0.1:8001. Mode hold decided"), "{text}");
    assert!(!text.contains("worker 0"), "{text}");
    let accept = [("accept", "application/json")];
    let json = body(get(&gateway, "/admin/explain/my%2frequest%201", &accept));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let decision = &json["requests"][0]["decisions"][0];
    assert_eq!(decision["worker"], "http://127.0.0.1:8001");
    assert_eq!(decision["why"]["candidates"][0]["worker"], "http://127.0.0.1:8001");
    seat.settle(Outcome::Completed { output: Tokens(1) });
    let missing = get(&gateway, "/admin/explain/other", &[]);
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}

#[test]
fn a_refused_request_says_why_and_one_that_waits_says_so() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    let pool = &gateway.pools[0];
    let waits = pool.arrive(fixture::arrival(100), false, &Arc::from("waits"));
    let text = body(get(&gateway, "/admin/explain/waits", &[]));
    assert!(
        text.contains("It waits: no worker of its pool may be sent anything. It has"),
        "{text}"
    );
    assert!(text.contains("With it, 1 wait in the pool."), "{text}");
    let accept = [("accept", "application/json")];
    let json = body(get(&gateway, "/admin/explain/waits", &accept));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["requests"][0]["waits"]["queue_len"], 1);
    fixture::join(pool, 8_001);
    assert!(!body(get(&gateway, "/admin/explain/waits", &[])).contains("It waits"), "it runs");
    let long = pool.arrive(fixture::arrival(1_000_000), false, &Arc::from("long"));
    let text = body(get(&gateway, "/admin/explain/long", &[]));
    assert!(text.contains("it was refused: too_long (HTTP 400)"), "{text}");
    drop((waits, long));
}

#[test]
fn admin_pages_need_an_admins_key_or_a_client_on_this_machine_where_there_are_no_keys() {
    let open = fixture::gateway("main", ["public", "batch"]);
    let path = "/admin/explain/a";
    let status = |gateway: &Gateway, headers: &[(&str, &str)], peer| {
        asked(gateway, &head("GET", path, headers), from(peer)).status()
    };
    assert_eq!(status(&open, &[], HERE), StatusCode::NOT_FOUND);
    assert_eq!(status(&open, &[], "[::ffff:127.0.0.1]:9"), StatusCode::NOT_FOUND);
    assert_eq!(status(&open, &[], ELSEWHERE), StatusCode::FORBIDDEN);
    let mut rules = fixture::rules(["public", "batch"]);
    rules.anonymous = rules.anonymous.map(|identity| Identity { admin: false, ..identity });
    open.replace_rules(rules);
    assert_eq!(status(&open, &[], HERE), StatusCode::FORBIDDEN, "others can connect as well");
    let keyed = keyed();
    let bearer = |key| [("authorization", key)];
    assert_eq!(status(&keyed, &[], HERE), StatusCode::UNAUTHORIZED);
    assert_eq!(status(&keyed, &bearer("Bearer wrong"), HERE), StatusCode::UNAUTHORIZED);
    assert_eq!(status(&keyed, &bearer("Bearer tenant"), HERE), StatusCode::FORBIDDEN);
    assert_eq!(status(&keyed, &bearer("Bearer admin"), ELSEWHERE), StatusCode::NOT_FOUND);
}

#[test]
fn pages_are_read_and_nothing_else_and_other_paths_are_left_to_others() {
    let gateway = fixture::gateway("main", ["public", "batch"]);
    for path in ["/healthz", "/readyz", "/metrics", "/v1/models", "/admin/explain/a"] {
        let answer = asked(&gateway, &head("POST", path, &[]), from(HERE));
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["/", "/v1/modelsx", "/v1/chat/completions", "/admin/fleet", "/healthz/"] {
        let unknown = page(&gateway, &head("GET", path, &[]), from(HERE)).unwrap_err();
        assert_eq!(unknown.reason, RefusalReason::UnknownEndpoint, "{path}");
    }
    let metrics = get(&gateway, "/metrics", &[]);
    assert!(metrics.headers()["content-type"].to_str().unwrap().starts_with("application/openm"));
    assert!(body(metrics).ends_with("# EOF\n"));
}

#[test]
fn a_key_sees_the_models_that_it_may_ask_for_in_the_order_of_their_names() {
    let gateway = keyed();
    let ids = |key: &str| {
        let list = body(get(&gateway, "/v1/models", &[("x-api-key", key)]));
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["object"], "list");
        let models = list["data"].as_array().unwrap().iter();
        models.map(|model| model["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("admin"), ["model/a", "model/b"]);
    assert_eq!(ids("tenant"), ["model/b"]);
    assert_eq!(get(&gateway, "/v1/models", &[]).status(), StatusCode::UNAUTHORIZED);
    let one = |path: &str| get(&gateway, path, &[("x-api-key", "tenant")]).status();
    assert_eq!(one("/v1/models/model/b"), StatusCode::OK);
    assert_eq!(one("/v1/models/model%2Fb"), StatusCode::OK);
    assert_eq!(one("/v1/models/model/a"), StatusCode::NOT_FOUND, "it is not for this key");
}

#[test]
fn percent_signs_are_taken_off_once_and_broken_ones_stay() {
    assert_eq!(decoded("a%20b%2525"), "a b%25");
    assert_eq!(decoded("100%"), "100%");
    assert_eq!(decoded("%zz%4"), "%zz%4");
    assert_eq!(decoded("%c3%bc"), "ü");
}
