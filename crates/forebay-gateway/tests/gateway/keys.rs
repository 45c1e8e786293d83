//! Keys: who is told no before a byte of the body is read, and what a key lets its holder do.

use std::fmt::Write as _;
use std::path::Path;

use forebay_gateway::config::Config;
use sha2::{Digest as _, Sha256};

use crate::client::{Answer, CHAT, chat};
use crate::house::{House, pool};
use crate::stub::Stub;

fn digest(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes anything");
        hex
    })
}

/// Two tenants of different classes, and an admin.
fn keyed(worker: &Stub) -> String {
    let key = |name: &str, rest: &str| format!("[[key]]\nsha256 = \"{}\"\n{rest}\n", digest(name));
    pool(&[worker], "name = \"main\"\nmodels = [\"m\", \"other\"]")
        + "[[class]]\nname = \"online\"\noverload = \"queue\"\n\
           [[class]]\nname = \"batch\"\noverload = \"queue\"\n\
           [[tenant]]\nname = \"city\"\nclass = \"online\"\n\
           [[tenant]]\nname = \"night\"\nclass = \"batch\"\n"
        + &key("city-key", "tenant = \"city\"\nmodels = [\"m\"]")
        + &key("night-key", "tenant = \"night\"")
        + &key("admin-key", "admin = true")
}

fn asked_with(house: &House, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut client = house.client();
    client.post(CHAT, headers, body.as_bytes());
    client.answer()
}

#[test]
fn without_a_valid_key_the_answer_comes_before_the_body() {
    let worker = Stub::quick();
    let house = House::open(&keyed(&worker));
    for header in ["", "authorization: Bearer wrong\r\n", "x-api-key: wrong\r\n"] {
        let mut client = house.client();
        let head =
            format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\n{header}content-length: 1000\r\n\r\n");
        client.send(head.as_bytes());
        let answer = client.answer();
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{header}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(worker.calls(), 0);
    assert_eq!(house.count("forebay_requests_refused_total", "unauthenticated"), 3);
    house.rests();
}

#[test]
fn a_key_says_whose_requests_they_are_and_which_models_they_may_ask_for() {
    let worker = Stub::quick();
    let house = House::open(&keyed(&worker));
    let bearer = [("authorization", "Bearer city-key")];
    assert_eq!(asked_with(&house, &bearer, &chat(1, false)).status, 200);
    assert_eq!(asked_with(&house, &[("x-api-key", "night-key")], &chat(1, true)).status, 200);
    let asked = worker.asked().pop().expect("it was asked");
    let passed = asked.header("x-api-key").or(asked.header("authorization"));
    assert_eq!(passed, None, "a key for the gateway stays there");
    let other = chat(1, false).replace("\"m\"", "\"other\"");
    let refused = asked_with(&house, &bearer, &other);
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"));
    let unknown = chat(1, false).replace("\"m\"", "\"nothing\"");
    let refused = asked_with(&house, &[("x-api-key", "night-key")], &unknown);
    assert_eq!((refused.status, refused.code().as_str()), (404, "unknown_model"));
    let completed = |class: &str| {
        house.metric("forebay_requests_completed_total", &format!("class=\"{class}\""))
    };
    assert_eq!((completed("online"), completed("batch")), (1.0, 1.0));
    house.rests();
}

#[test]
fn a_key_with_a_class_may_name_no_other() {
    let worker = Stub::quick();
    let house = House::open(&keyed(&worker));
    let with = |class: &str| {
        let headers = [("authorization", "Bearer city-key"), ("x-forebay-class", class)];
        asked_with(&house, &headers, &chat(1, false))
    };
    assert_eq!(with("online").status, 200);
    assert_eq!(with("batch").code(), "forbidden");
    assert_eq!(with("none").code(), "invalid_request");
    assert!(worker.asked().iter().all(|asked| asked.header("x-forebay-class").is_none()));
}

#[test]
fn the_admin_pages_are_for_admins_only() {
    let worker = Stub::quick();
    let house = House::open(&keyed(&worker));
    let status = |path: &str, key: &str| {
        let mut client = house.client();
        let asked =
            format!("GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\r\n");
        client.send(asked.as_bytes());
        client.answer().status
    };
    for path in ["/admin/explain/1", "/admin/fleet"] {
        assert_eq!(status(path, "city-key"), 403, "{path}");
        assert_eq!(status(path, "wrong"), 401, "{path}");
    }
    assert!(matches!(status("/admin/explain/1", "admin-key"), 200 | 404));
    assert_eq!(status("/v1/models", "wrong"), 401);
    assert_eq!(status("/v1/models", "city-key"), 200);
}

#[test]
fn without_keys_only_this_machine_is_listened_to_unless_that_is_said_in_so_many_words() {
    let read = |listen: &str| {
        let text = format!("[listen]\n{listen}\n[[pool]]\nworker = []\n");
        Config::parse(Path::new("forebay.toml"), &text)
    };
    assert!(read("address = \"127.0.0.1:0\"").is_ok());
    assert!(read("address = \"[::1]:0\"").is_ok());
    let faults = read("address = \"0.0.0.0:0\"").expect_err("others can reach it").to_string();
    assert!(faults.contains("there is no key"), "{faults}");
    assert!(read("address = \"0.0.0.0:0\"\nwithout_keys = \"yes\"").is_err());
    assert!(read("address = \"0.0.0.0:0\"\nwithout_keys = \"anyone may use it\"").is_ok());
}

#[test]
fn without_keys_any_key_is_taken_and_passed_on() {
    let worker = Stub::quick();
    let house = House::pool(&[&worker], "");
    assert_eq!(asked_with(&house, &[("authorization", "Bearer x")], &chat(1, false)).status, 200);
    let asked = worker.asked().pop().expect("it was asked");
    assert_eq!(asked.header("authorization"), Some("Bearer x"));
}
