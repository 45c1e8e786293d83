//! Holds the reader of a live drill's file to what it says of faults.

use std::path::Path;

use forebay_core::Span;

use crate::live::Design;
use crate::live::design::Cell;
use crate::load::Http;
use crate::simulate::Client;

/// The header that says a class where none is named, and the variable of the key.
const CLASS_AND_KEY: (&str, Option<&str>) = ("x-forebay-class", Some("KEY"));

fn told(text: &str) -> Vec<String> {
    match Design::parse(Path::new("drill.toml"), text) {
        Ok(_) => Vec::new(),
        Err(faults) => {
            let told = |fault: &forebay_service::Fault| format!("{}: {}", fault.line, fault.what);
            faults.faults.iter().map(told).collect()
        }
    }
}

const LOAD: &str = "[load]\nsynth = \"evidence\"\nmodel = \"m\"\n";

#[test]
fn a_small_file_is_enough_and_has_the_documented_defaults() {
    let text = format!("{LOAD}[[arm]]\nname = \"vendor\"\nurl = \"https://llm.example.org/\"\n");
    let design = Design::parse(Path::new("drill.toml"), &text).unwrap();
    assert_eq!(design.load.requests, 300);
    assert_eq!(design.load.loads, [1.0]);
    assert_eq!((design.blocks.least, design.blocks.most), (3, 6));
    assert_eq!(design.arms[0].url, "https://llm.example.org");
    assert_eq!(design.cells().len(), 1);
    assert_eq!(design.cells()[0].name(), "load1");
}

#[test]
fn commands_for_workers_and_arms_make_all_cells() {
    let text = format!(
        "{LOAD}loads = [0.5, 1, 3]\n[blocks]\nmost = 1\n[engines]\nworkers = [4, 2, 2]\n\
         command = [\"forebay\", \"engine\", \"--port\", \"{{port}}\"]\n\
         reset = \"POST /reset_prefix_cache\"\n\
         [[arm]]\nname = \"a\"\ncommand = [\"forebay\", \"serve\", \"--worker={{worker_url}}\"]\n"
    );
    let design = Design::parse(Path::new("x/drill.toml"), &text).unwrap();
    let names: Vec<String> = design.cells().iter().map(Cell::name).collect();
    let expected = ["n2-load0.5", "n2-load1", "n2-load3", "n4-load0.5", "n4-load1", "n4-load3"];
    assert_eq!(names, expected);
    assert_eq!((design.blocks.least, design.blocks.most), (1, 1));
    assert_eq!(design.folder, Path::new("x"));
    assert_eq!(design.arms[0].url, "http://127.0.0.1:{port}");
}

#[test]
fn rounds_run_forward_and_then_backward() {
    let arm = |name: &str| format!("[[arm]]\nname = \"{name}\"\nurl = \"http://a\"\n");
    let text = format!("{LOAD}{}{}{}", arm("a"), arm("b"), arm("c"));
    let design = Design::parse(Path::new("drill.toml"), &text).unwrap();
    assert_eq!(design.order(0), [0, 1, 2]);
    assert_eq!(design.order(1), [2, 1, 0]);
    assert_eq!(design.order(2), [0, 1, 2]);
}

#[test]
fn every_fault_is_told_with_its_line() {
    let faults = told(
        "criteria = \"none.toml\"\n[load]\nsynth = \"evidense\"\nendpoint = \"speech\"\n\
         speed = 0\nretry = \"always\"\n[blocks]\nleast = 9\nmost = 2\n[engines]\nworkers = 2\n\
         [[arm]]\nname = \"../x\"\ncommand = [\"x\", \"{prot}\"]\nreset = \"reset\"\n\
         mode = \"fast\"\n[[arm]]\nname = \"b\"\nrefusals = \"x\"\n[[arm]]\nurl = \"a\"\n\
         [[exporter]]\nname = \"gpu\"\n[simulated]\n",
    );
    let expected = [
        "1: there is no such file",
        "2: `[load]` has no `model`",
        "3: ",
        "4: there is no endpoint `speech`",
        "5: [load] has `speed` = 0",
        "6: unknown client `always`",
        "7: at least 9 blocks, and at most 2",
        "10: `[engines]` has to have either",
        "13: an arm can't be named \"../x\"",
        "14: nothing stands for {prot}",
        "15: \"reset\" is no request",
        "16: unknown mode",
        "17: the refusals are to be counted",
        "17: arm `b` has neither",
        "20: an arm has no `name`",
        "21: \"a\" is no URL",
        "22: an exporter has",
        "24: `[simulated]` has no `engine`",
    ];
    for start in expected {
        let (line, what) = start.split_once(": ").unwrap();
        let is_it =
            |fault: &String| fault.starts_with(&format!("{line}: ")) && fault.contains(what);
        assert!(faults.iter().any(is_it), "{start} is not in {faults:#?}");
    }
}

#[test]
fn what_belongs_together_must_come_together() {
    let faults = told(&format!(
        "{LOAD}trace = \"t\"\n[engines]\nurls = [\"http://a\"]\nworkers = 2\n\
         [[arm]]\nname = \"a\"\nconfig = \"x\"\nurl = \"http://a\"\n\
         [[arm]]\nname = \"a\"\nurl = \"http://a\"\n"
    ));
    for what in [
        "`trace` and `synth` are both given",
        "2 workers, and 1 urls",
        "there is `stop` or `config`, and no `command`",
        "there are two arms `a`",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(what)), "{what} is not in {faults:#?}");
    }
    let alone = format!("{LOAD}[[arm]]\nname = \"a\"\ncommand = [\"x\", \"{{worker_url}}\"]\n");
    assert!(told(&alone)[0].contains("there are no `[engines]`"));
    assert!(told("x = 1\n").iter().any(|fault| fault.contains("no key `x`")));
}

#[test]
fn how_requests_are_sent_is_said_as_for_a_load() {
    let text = format!(
        "{LOAD}http = \"2\"\nca_file = \"ca.pem\"\nstream = false\nplain = true\n\
         max_completion_tokens = true\nextra_body = '{{\"top_k\": 1}}'\n\
         headers = [\"x-lane: fast\"]\nkey_env = \"KEY\"\ntenant_header = \"x-tenant\"\n\
         tenant_keys = [\"light=LIGHT_KEY\"]\ncancel_share = 0.1\n\
         cancel_after = \"exponential:2\"\nretry = \"retry-after\"\nretry_budget = 0.2\n\
         in_flight_max = 9\nlag_ms_max = 50\n[[arm]]\nname = \"a\"\nurl = \"https://a\"\n\
         key_env = \"OTHER\"\nheaders = [\"x-arm: a\"]\n"
    );
    let design = Design::parse(Path::new("d/drill.toml"), &text).unwrap();
    let sending = &design.load.sending;
    assert_eq!(sending.http, Http::Two);
    assert_eq!(sending.ca_file.as_deref(), Some(Path::new("d/ca.pem")));
    let ask = sending.ask("m");
    assert_eq!((ask.model.as_str(), ask.stream, ask.is_plain), ("m", false, true));
    assert!(ask.bounds_completion && ask.extra.contains_key("top_k"));
    assert_eq!(sending.headers["x-lane"], "fast");
    assert_eq!((sending.class_header.as_str(), sending.key_env.as_deref()), CLASS_AND_KEY);
    assert_eq!(sending.tenant_header.as_ref().unwrap(), "x-tenant");
    assert_eq!(sending.tenant_keys, [("light".to_owned(), "LIGHT_KEY".to_owned())]);
    assert_eq!(sending.leaves.unwrap().0.to_bits(), 0.1_f64.to_bits());
    assert_eq!((sending.retry.client, sending.retry.budget), (Client::RetryAfter, Some(0.2)));
    assert_eq!((sending.in_flight_max, sending.lag_max), (9, Span::millis(50)));
    let arm = &design.arms[0];
    assert_eq!(
        (arm.key_env.as_deref(), &arm.headers["x-arm"]),
        (Some("OTHER"), &"a".parse().unwrap())
    );
}

#[test]
fn what_can_not_be_sent_is_told_and_no_secret_is_repeated() {
    let faults = told(&format!(
        "{LOAD}http = \"3\"\nheaders = [\"authorization: Bearer s3cret\"]\n\
         extra_body = \"[1]\"\ncancel_share = 0.1\ntenant_keys = [\"light\"]\n\
         class_header = \"a b\"\n[[arm]]\nname = \"a\"\nurl = \"http://a\"\n"
    ));
    for what in [
        "4: there is no HTTP \"3\"",
        "5: a header can't be sent: it looks like a secret",
        "6: ",
        "7: clients that go away need both",
        "8: a tenant's key names no tenant",
        "9: \"a b\" is no name of a header",
    ] {
        assert!(faults.iter().any(|fault| fault.starts_with(what)), "{what} is not in {faults:#?}");
    }
    assert!(!faults.iter().any(|fault| fault.contains("s3cret")), "{faults:#?}");
}
