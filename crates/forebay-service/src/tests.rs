//! Checks that a service file means what it says, and that all its faults are told at once.

use std::path::Path;

use forebay_core::{
    Bucket, HoldOrder, Knowledge, KvPreset, Limits, Mode, Overload, PoolId, Span, TenantId,
};

use crate::reader::{Gathered, Section};
use crate::{Door, Faults, Service, TABLE};

/// The example of the overload contract, with a pool for its third class.
const EXAMPLE: &str = r#"
[[class]]
name = "public"
overload = "queue"
wait_ms_max = 60000
queue_len_max = 2000
share = 4
reject_share_max = 0.0

[[class]]
name = "research"
overload = "shed"
wait_ms_max = 2000
reject_share_max = 0.15

[[class]]
name = "batch"
overload = "spill"
spill_to = "overnight"
share = 1

[[tenant]]
name = "city"
weight = 3
class = "public"
requests_per_s_max = 0.5
tokens_per_s_max = 100
concurrency_max = 8

[[pool]]
name = "overnight"
workers = 4
mode = "kv:dynamo-1.6"

[gate]
fraction_max = 1.1

[limits]
retry_after_s_max = 90
"#;

fn parse(text: &str) -> Result<Service, Faults> {
    let check = |engine: &str| match engine {
        "abacus" => vec![("engine abacus: not known".to_owned(), "use another".to_owned())],
        _ => Vec::new(),
    };
    Service::parse(Path::new("door.toml"), text, &check)
}

/// The faults of a text, one line each: the line in the file, what, and the remedy.
#[track_caller]
fn faults(text: &str) -> Vec<(usize, String, String)> {
    let faults = parse(text).expect_err("the text has faults").faults;
    faults.into_iter().map(|fault| (fault.line, fault.what, fault.remedy)).collect()
}

/// The text has one fault only: on this line, with these words in it or in its remedy.
#[track_caller]
fn check(text: &str, line: usize, words: &str) {
    let all = faults(text);
    assert_eq!(all.len(), 1, "{all:?}");
    let (at, what, remedy) = &all[0];
    assert_eq!(*at, line, "{what}");
    assert!(format!("{what} / {remedy}").contains(words), "{what} / {remedy}");
}

fn door(mode: Mode) -> Door {
    Door { mode, knowledge: Knowledge::Events, block_size: 16, expected_output: None }
}

#[test]
fn the_example_of_the_design_means_what_it_says() {
    let service = parse(EXAMPLE).unwrap();
    let [public, research, batch] = &service.classes[..] else { panic!("three classes") };
    assert_eq!(public.settings.overload, Overload::Queue);
    assert_eq!(public.settings.wait_max, Some(Span::secs(60)));
    assert_eq!((public.settings.queue_len_max, public.settings.share), (2000, 4));
    assert_eq!(public.reject_share_max, Some(0.0));
    assert_eq!(research.settings.overload, Overload::Shed);
    assert_eq!(batch.settings.overload, Overload::Spill(PoolId(1)));
    assert_eq!(batch.settings.wait_max, Some(Span::secs(1)));
    let tenant = &service.tenants[0];
    assert_eq!((tenant.settings.weight, tenant.class), (3, Some(0)));
    assert_eq!(tenant.settings.rate, Some(Bucket { per_second: 0.5, burst: 1.0 }));
    assert_eq!(tenant.settings.tokens, Some(Bucket { per_second: 100.0, burst: 6000.0 }));
    assert_eq!(service.pools[0].mode, Some(Mode::Kv(KvPreset::Dynamo16)));
    assert_eq!(service.gate.fraction_max.to_bits(), 1.1_f64.to_bits());
    assert_eq!(service.limits.retry_after_max, Span::secs(90));
}

#[test]
fn every_resolved_file_is_accepted_by_the_core() {
    for service in [Service::single(), parse(EXAMPLE).unwrap()] {
        for pool in 0..=service.pools.len() as u16 {
            let settings = service.settings(PoolId(pool), door(Mode::Hold(HoldOrder::Aged)));
            assert_eq!(settings.faults(), []);
        }
    }
}

#[test]
fn a_spilled_class_queues_where_it_was_spilled_to_and_is_not_limited_twice() {
    let service = parse(EXAMPLE).unwrap();
    let there = service.settings(PoolId(1), door(Mode::RoundRobin));
    assert_eq!(there.classes[2].overload, Overload::Queue);
    assert_eq!(there.classes[2].wait_max, None);
    assert_eq!(there.classes[1].overload, Overload::Shed);
    let (id, tenant) = there.tenants[0];
    assert_eq!((id, tenant.weight), (TenantId(0), 3));
    assert_eq!((tenant.rate, tenant.tokens, tenant.concurrency_max), (None, None, None));
}

#[test]
fn without_a_file_one_class_queues_without_a_limit_of_time() {
    let service = Service::single();
    assert_eq!(service.classes.len(), 1);
    assert_eq!(service.classes[0].settings.wait_max, None);
    assert_eq!(service.classes[0].settings.queue_len_max, 100_000);
    let expected = Limits {
        queue_len_max: 100_000,
        running_max: 1_000_000,
        workers_max: 10_000,
        tenants_max: 10_000,
        means_max: 65_536,
        promises_max: 10_000,
        attempts_max: 3,
        retry_after_max: Span::secs(60),
        mark: Span::secs(1),
    };
    assert_eq!(service.limits, expected);
}

#[test]
fn all_faults_come_at_once_in_the_order_of_the_lines() {
    let text = r#"
[[class]]
name = "public"
overload = "queu"
shar = 4
wait_ms_max = -1

[[class]]
name = "public"
overload = "spill"
spill_to = "nowhere"
share = 0

[[tenant]]
weight = "heavy"

[extra]
"#;
    let all = faults(text);
    let lines: Vec<usize> = all.iter().map(|(line, ..)| *line).collect();
    assert_eq!(lines, [4, 5, 6, 9, 11, 12, 14, 15, 17], "{all:#?}");
    let told = parse(text).unwrap_err().to_string();
    assert!(told.starts_with("door.toml:4: unknown overload `queu`\nhint: did you mean `queue`?"));
    assert_eq!(told.matches("\nhint: ").count(), 9, "{told}");
}

#[test]
fn a_key_that_is_nearly_right_is_suggested() {
    let text = "[[class]]\nname = \"a\"\noverload = \"queue\"\nqueue_length_max = 3\n";
    check(text, 4, "did you mean `queue_len_max`?");
    check(&format!("{EXAMPLE}\n[limit]\nmark_ms = 3\n"), 41, "did you mean `limits`?");
}

#[test]
fn a_number_out_of_range_or_of_another_type_is_refused_with_the_range() {
    let class = "[[class]]\nname = \"a\"\noverload = \"queue\"\n";
    check(&format!("{class}share = 0\n"), 4, "a whole number from 1 to");
    check(&format!("{class}share = 1.5\n"), 4, "a float under `share`");
    check(&format!("{class}traffic = nan\n"), 4, "out of range");
    check(&format!("{class}wait_ms_max = 99999999999999999999\n"), 4, "whole number");
    check(&format!("{class}reject_share_max = 1.01\n"), 4, "from 0 to 1");
    check(&format!("{class}promise = 0.5\n"), 4, "at least 1, or `inf`");
    assert!(parse(&format!("{class}promise = inf\nqueue_len_max = 0x10\n")).is_ok());
}

#[test]
fn spills_must_go_somewhere_else_and_come_to_an_end() {
    let class = "[[class]]\nname = \"a\"\noverload = \"spill\"\n";
    let pool = |name: &str, to: &str| format!("[[pool]]\nname = \"{name}\"\nworkers = 1\n{to}\n");
    check(class, 3, "does not say where to");
    check(&format!("{class}spill_to = \"main\"\n"), 4, "the pool it comes from");
    let own = pool("x", "spill_to = \"x\"");
    check(&format!("{class}spill_to = \"x\"\n{own}"), 8, "pool `x` spills into itself");
    let back = pool("x", "spill_to = \"main\"");
    check(&format!("{class}spill_to = \"x\"\n{back}"), 4, "the pool it comes from");
    let circle = pool("x", "spill_to = \"y\"") + &pool("y", "spill_to = \"x\"");
    let all = faults(&format!("{class}spill_to = \"x\"\n{circle}"));
    assert_eq!(all.iter().map(|fault| fault.0).collect::<Vec<_>>(), [8, 12], "{all:?}");
    let chain = pool("x", "spill_to = \"y\"") + &pool("y", "");
    let service = parse(&format!("{class}spill_to = \"x\"\n{chain}")).unwrap();
    let settings = |pool| service.settings(PoolId(pool), door(Mode::RoundRobin));
    assert_eq!(settings(1).classes[0].overload, Overload::Spill(PoolId(2)));
    assert_eq!(settings(2).classes[0].overload, Overload::Queue);
}

#[test]
fn a_pool_needs_workers_a_known_mode_and_a_name_of_its_own() {
    let class = "[[class]]\nname = \"a\"\noverload = \"queue\"\n";
    check(&format!("{class}[[pool]]\nname = \"x\"\n"), 4, "how many workers");
    check(&format!("{class}[[pool]]\nname = \"main\"\nworkers = 1\n"), 5, "something else");
    let mode = "[[pool]]\nname = \"x\"\nworkers = 1\nmode = \"round-robbin\"\n";
    check(&format!("{class}{mode}"), 7, "did you mean `round-robin`?");
}

#[test]
fn a_file_must_have_a_class_and_somebody_for_unnamed_traffic() {
    check("", 1, "no class of service");
    let class = "[[class]]\nname = \"a\"\noverload = \"queue\"\ntraffic = 0\n";
    check(class, 1, "nothing takes unnamed requests");
    check("[[class]]\nname = \" \"\noverload = \"queue\"\n", 2, "empty `name`");
    check("[[class]]\nname = \"a\"\noverload = \"shed\"\n", 1, "what wait is still accepted");
}

#[test]
fn a_burst_without_its_rate_and_fractions_out_of_order_are_told() {
    let class = "[[class]]\nname = \"a\"\noverload = \"queue\"\n";
    let tenant = "[[tenant]]\nname = \"t\"\nrequests_burst_max = 3\n";
    check(&format!("{class}{tenant}"), 6, "requests_per_s_max");
    check(&format!("{class}[gate]\nfraction_start = 1.2\n"), 5, "not within 0.6 to 1");
}

#[test]
fn text_that_is_no_toml_is_told_with_its_line() {
    let told = parse("[[class]]\nname = \n").unwrap_err().to_string();
    assert!(told.contains("door.toml:2: not TOML"), "{told}");
}

#[test]
fn a_bracket_that_is_missing_is_one_fault_and_no_other_is_told_beside_it() {
    let class = "[[class]]\nname = [\"a\"\noverload = \"nonsense\"\nqueue = 3\n";
    let told = parse(&class.repeat(20)).unwrap_err();
    assert_eq!(told.faults.len(), 1, "{told}");
    assert_eq!(told.faults[0].line, 3, "{told}");
    assert!(told.to_string().contains("close the bracket"), "{told}");
}

#[test]
fn two_lines_with_faults_of_syntax_are_both_told() {
    let told = parse("[[class]]\nname = \nshare = \noverload = \"nonsense\"\n").unwrap_err();
    let lines: Vec<usize> = told.faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [2, 3], "{told}");
}

#[test]
fn every_key_of_the_reference_has_a_reason_and_a_default_within_its_range() {
    for key in TABLE {
        assert!(!key.why.is_empty(), "{}.{} has no reason", key.table, key.name);
        if let Some(default) = key.default {
            assert!((key.least..=key.most).contains(&default), "{}.{}", key.table, key.name);
        }
    }
}

#[test]
fn more_classes_or_pools_than_numbers_tell_apart_are_one_fault() {
    for (table, more) in [("class", "overload = \"queue\""), ("pool", "workers = 1")] {
        let tables = |count: usize| -> String {
            let one = |nth: usize| format!("[[{table}]]\nname = \"n{nth}\"\n{more}\n");
            let class = "[[class]]\nname = \"a\"\noverload = \"queue\"\n";
            let first = if table == "pool" { class } else { "" };
            first.to_owned() + &(0..count).map(one).collect::<String>()
        };
        assert!(parse(&tables(1000)).is_ok(), "{table}");
        let first = if table == "pool" { 3 } else { 0 };
        check(&tables(70_000), first + 3001, &format!("70000 tables `[[{table}]]`, of at most"));
    }
}

#[test]
fn a_pool_that_no_run_could_have_is_told_with_its_line() {
    let class = "[[class]]\nname = \"a\"\noverload = \"queue\"\n";
    let pool = "[[pool]]\nname = \"p\"\nworkers = 5\n";
    check(&format!("{class}{pool}[limits]\nworkers_max = 4\n"), 6, "5 workers, of at most 4");
    let engine = format!("{class}{pool}engine = \"abacus\"\n");
    check(&engine, 7, "engine abacus: not known / use another");
}

#[test]
fn two_of_a_name_on_one_line_are_told() {
    let twice = "class = [{ name = \"a\", overload = \"queue\" }, \
                 { name = \"a\", overload = \"queue\" }]\n";
    check(twice, 1, "[[class]] `a` is there twice");
}

/// The tables of a service file for pools that somebody else has read.
fn door_of(text: &str, pools: &[&str]) -> Result<Service, Faults> {
    let mut found = Gathered::new(text);
    let table = found.toml(text);
    let mut root = Section::root(&table);
    let service = Service::door(&mut root, pools, &mut found);
    root.finish(&mut found);
    found.finish(Path::new("forebay.toml"), service)
}

#[test]
fn pools_that_somebody_else_has_read_are_numbered_from_the_first() {
    let class = "[[class]]\nname = \"a\"\noverload = \"spill\"\nspill_to = \"night\"\n";
    let service = door_of(class, &["day", "night"]).unwrap();
    assert_eq!(service.classes[0].settings.overload, Overload::Spill(PoolId(1)));
    let told = |pools: &[&str]| door_of(class, pools).unwrap_err().to_string();
    assert!(
        told(&["day", "knight"])
            .ends_with(":4: unknown pool `night`\nhint: did you mean `knight`?")
    );
    assert!(told(&[]).contains("`worker = "), "{}", told(&[]));
    let main = class.replace("night", "main");
    let told = door_of(&main, &["day"]).unwrap_err().to_string();
    assert!(told.ends_with("unknown pool `main`\nhint: the pools are `day`"), "{told}");
    assert_eq!(door_of("", &[]).unwrap(), Service::single());
}

#[test]
fn tables_within_tables_are_called_by_their_path() {
    let text = "[[a]]\n[a.b]\nc = 3\n[d]\n[d.e]\nf = 1\n";
    let mut found = Gathered::new(text);
    let table = found.toml(text);
    let mut root = Section::root(&table);
    let mut a = root.sections("a", &mut found).remove(0);
    let b = a.section("b", &mut found).unwrap();
    let e = root.section("d", &mut found).unwrap().section("e", &mut found).unwrap();
    b.finish(&mut found);
    e.finish(&mut found);
    let told: Vec<String> = found.into_sorted().into_iter().map(|fault| fault.what).collect();
    assert_eq!(told, ["[a.b] has no key `c`", "[d.e] has no key `f`"]);
}
