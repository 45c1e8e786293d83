//! Resolves the pools: their workers, how these are spoken to, and which models they serve.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use forebay_core::{HoldOrder, Knowledge, Mode, Overload, PoolId, Tokens, WorkerProfile};
use forebay_service::reader::{At, Gathered, listed};
use forebay_service::{Service, mode, too_many, unique};
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER};
use http::header::{TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::defaults as keys;
use super::document::{Document, PoolTable, TlsTable};
use super::resolve::{content, readable};
use super::{Pool, PoolTls, WorkerUrl};

/// Headers that belong to a connection or a body, and are set for each.
const OWN_HEADERS: [HeaderName; 8] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// What the `[[pool]]` tables mean.
pub(super) fn pools(
    document: &Document,
    service: &Service,
    folder: &Path,
    found: &mut Gathered,
) -> Vec<Pool> {
    let tables = &document.pools;
    if tables.is_empty() {
        let remedy = "add one: `[[pool]]`, `worker = \"http://127.0.0.1:8000\"`";
        found.add(1, "the file has no pool of workers", remedy);
    }
    if too_many(&keys::POOLS_MAX, tables.iter().map(|table| table.line), found) {
        return Vec::new();
    }
    // An only pool needs no name, and then is called `main`.
    if tables.len() > 1 || tables.iter().any(|table| table.name.is_some()) {
        unique("[[pool]]", tables.iter().map(|table| (&table.name, table.line)), found);
    }
    let pools: Vec<Pool> = tables.iter().map(|table| pool(table, folder, found)).collect();
    bounded(document, service, found);
    once("worker", tables.iter().flat_map(|table| table.workers.iter().flatten()), found);
    once("model", tables.iter().flat_map(|table| &table.models), found);
    reachable(tables, &pools, service, found);
    pools
}

fn pool(table: &PoolTable, folder: &Path, found: &mut Gathered) -> Pool {
    let numbers = &table.numbers;
    let count = |key| numbers.value(key) as u32;
    let tokens = |key| numbers.typed(key).map(|at| Tokens(at.value as u64));
    let workers = urls(table.workers.iter().flatten(), found);
    let dns = urls(table.dns.iter(), found);
    for typed in &table.dns {
        if WorkerUrl::from_str(&typed.value).is_ok_and(|url| url.ip().is_some()) {
            let what = format!("`{}` under `dns` is no name", typed.value);
            found.add(typed.line, what, "list it under `worker`");
        }
    }
    if table.workers.is_none() && table.dns.is_empty() {
        let what = "a pool does not say where its workers are";
        let remedy = "add `worker = \"http://127.0.0.1:8000\"`, or `worker = []` if all of them \
                      join by the admin API";
        found.add(table.line, what, remedy);
    }
    Pool {
        name: table.called().to_owned(),
        models: table.models.iter().map(|typed| typed.value.clone()).collect(),
        mode: table
            .mode
            .as_ref()
            .and_then(|typed| mode(typed, found))
            .unwrap_or(Mode::Hold(HoldOrder::Aged)),
        knowledge: knowledge(table.knowledge.as_ref(), found),
        block_size: numbers.typed(&keys::BLOCK_SIZE).map(|at| at.value as u32),
        bytes_per_token: numbers.value(&keys::BYTES_PER_TOKEN),
        expected_output: tokens(&keys::EXPECTED_OUTPUT),
        profile: WorkerProfile {
            kv_capacity: tokens(&keys::KV_CAPACITY_TOKENS),
            batch_tokens_max: Tokens(numbers.value(&keys::BATCH_TOKENS_MAX) as u64),
            seqs_max: count(&keys::SEQS_MAX),
        },
        tls: tls(table, workers.iter().chain(&dns).any(|url| url.tls), folder, found),
        workers,
        dns,
        dns_interval: numbers.millis(&keys::DNS_INTERVAL_MS),
        headers: headers(table, folder, found),
        ask_usage: table.ask_usage,
    }
}

fn knowledge(typed: Option<&At<String>>, found: &mut Gathered) -> Knowledge {
    if let Some(typed) = typed.filter(|typed| typed.value != "own") {
        let what = format!("unknown knowledge `{}`", typed.value);
        found.add(typed.line, what, "say `own`, or leave it out");
    }
    Knowledge::Own
}

fn urls<'d>(typed: impl Iterator<Item = &'d At<String>>, found: &mut Gathered) -> Vec<WorkerUrl> {
    let mut urls = Vec::new();
    for at in typed {
        match WorkerUrl::from_str(&at.value) {
            Ok(url) => urls.push(url),
            Err(error) => found.add(at.line, error.what, error.remedy),
        }
    }
    urls
}

/// What is sent along with every request. Values may be secrets, so no fault repeats them.
fn headers(table: &PoolTable, folder: &Path, found: &mut Gathered) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for typed in &table.headers {
        let header = typed.value.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        match header {
            Some((name, _)) if OWN_HEADERS.contains(&name) => {
                let what = format!("the header `{name}` is set for each request anew");
                found.add(typed.line, what, "leave it out");
            }
            Some((name, mut value)) => {
                value.set_sensitive(true);
                headers.append(name, value);
            }
            None => {
                let what = "a header that is none";
                found.add(typed.line, what, "write it as a text such as \"X-Team: research\"");
            }
        }
    }
    if let Some(typed) = &table.key_file
        && let Some(bytes) = content(typed, folder, found)
    {
        match bearer(&bytes) {
            Some(value) if !headers.contains_key(AUTHORIZATION) => {
                headers.insert(AUTHORIZATION, value);
            }
            Some(_) => {
                let what = "both `key_file` and a header say who is authorized";
                found.add(typed.line, what, "leave one of them out");
            }
            None => {
                let what = format!("{} holds no key", typed.value);
                found.add(typed.line, what, "put the key there, on one line, without quotes");
            }
        }
    }
    headers
}

fn bearer(bytes: &[u8]) -> Option<HeaderValue> {
    let key = bytes.trim_ascii();
    let is_key = !key.is_empty() && key.iter().all(u8::is_ascii_graphic);
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", key].concat()).ok()?;
    value.set_sensitive(true);
    is_key.then_some(value)
}

fn tls(table: &PoolTable, has_tls: bool, folder: &Path, found: &mut Gathered) -> PoolTls {
    let Some(typed) = &table.tls else { return PoolTls::default() };
    let TlsTable { line, cert, key, ca, server_name } = typed;
    let may_join = table.workers.as_ref().is_some_and(Vec::is_empty);
    if !has_tls && !may_join {
        let what = "[pool.tls] is given, but no worker of the pool is spoken to through TLS";
        found.add(*line, what, "write https:// in the workers' URLs, or leave the table out");
    }
    if cert.is_some() != key.is_some() {
        let what = "[pool.tls] has one of `cert` and `key` only";
        found.add(*line, what, "name the PEM files of the certificate and of its private key");
    }
    let mut file = |typed: &Option<At<String>>| readable(typed.as_ref()?, folder, found);
    let (ca, cert, key) = (file(ca), file(cert), file(key));
    if let Some(name) = server_name.as_ref().filter(|name| name.value.trim().is_empty()) {
        found.add(name.line, "[pool.tls] has an empty `server_name`", "leave it out");
    }
    let server_name = server_name.as_ref().map(|name| name.value.clone());
    PoolTls { ca, identity: cert.zip(key), server_name }
}

/// More workers than may join are told before they are refused.
fn bounded(document: &Document, service: &Service, found: &mut Gathered) {
    let most = service.limits.workers_max as usize;
    for workers in document.pools.iter().filter_map(|table| table.workers.as_ref()) {
        if let Some(typed) = workers.get(most) {
            let what = format!("a pool of {} workers, of at most {most}", workers.len());
            found.add(typed.line, what, "name fewer, or raise `workers_max` under `[limits]`");
        }
    }
}

/// What stands in two places would be counted twice, or reached by chance.
fn once<'d>(sort: &str, typed: impl Iterator<Item = &'d At<String>>, found: &mut Gathered) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for at in typed {
        if at.value.trim().is_empty() {
            found.add(at.line, format!("a {sort} without a name"), "leave it out");
            continue;
        }
        // The same worker may be written in two ways.
        let url = (sort == "worker").then(|| WorkerUrl::from_str(&at.value).ok()).flatten();
        let name = url.map_or_else(|| at.value.clone(), |url| url.to_string());
        if let Some(first) = seen.get(&name) {
            let what = format!("the {sort} `{name}` is there twice");
            found.add(at.line, what, format!("take one out; the first is on line {first}"));
        } else {
            seen.insert(name, at.line);
        }
    }
}

/// Every pool must be one that some request can come to, and spills must lead elsewhere.
fn reachable(tables: &[PoolTable], pools: &[Pool], service: &Service, found: &mut Gathered) {
    let target = |class: &forebay_service::Class| match class.settings.overload {
        Overload::Spill(target) => Some((target, class.name.clone())),
        _ => None,
    };
    let targets: Vec<(PoolId, String)> = service.classes.iter().filter_map(target).collect();
    let entries: Vec<usize> =
        (0..pools.len()).filter(|nth| !pools[*nth].models.is_empty()).collect();
    for (nth, (table, pool)) in tables.iter().zip(pools).enumerate() {
        let spilled: Vec<&str> = targets
            .iter()
            .filter(|(target, _)| usize::from(target.0) == nth)
            .map(|(_, class)| class.as_str())
            .collect();
        let is_only = pools.len() == 1 || entries == [nth];
        if is_only && !spilled.is_empty() {
            let classes = listed(spilled.into_iter());
            let what = format!("{classes} spills into the pool `{}` it comes from", pool.name);
            found.add(table.line, what, "name another pool under `spill_to` of the class");
        } else if pools.len() > 1 && pool.models.is_empty() && spilled.is_empty() {
            let what = format!("nothing reaches the pool `{}`", pool.name);
            found.add(table.line, what, "list its `models`, or let a class spill to it");
        }
    }
}
