//! Resolves where the gateway listens, and who may use it.

use std::net::SocketAddr;
use std::path::Path;

use forebay_service::reader::{At, Gathered};

use super::defaults as keys;
use super::document::{Document, ListenTable, TlsTable};
use super::resolve::readable;
use super::{Listen, ListenTls};

/// Where a gateway listens that was told nothing.
const ADDRESS: &str = "127.0.0.1:8080";

/// What `[listen]` means.
pub(super) fn listen(table: &ListenTable, folder: &Path, found: &mut Gathered) -> Listen {
    let numbers = &table.numbers;
    let count = |key| numbers.value(key) as usize;
    Listen {
        address: address(table.address.as_ref(), found),
        threads: Some(count(&keys::THREADS)).filter(|threads| *threads > 0),
        connections_max: count(&keys::CONNECTIONS_MAX),
        connections_per_peer_max: numbers
            .typed(&keys::CONNECTIONS_PER_PEER_MAX)
            .map(|at| at.value as usize),
        headers_bytes_max: count(&keys::HEADERS_BYTES_MAX),
        headers_max: count(&keys::HEADERS_MAX),
        header_time_max: numbers.millis(&keys::HEADER_MS_MAX),
        body_bytes_max: numbers.value(&keys::BODY_BYTES_MAX) as u64,
        body_time_max: numbers.millis(&keys::BODY_MS_MAX),
        bodies_bytes_max: bodies_bytes_max(table, found),
        idle_time_max: numbers.millis(&keys::IDLE_MS_MAX),
        streams_max: numbers.value(&keys::STREAMS_MAX) as u32,
        tls: table.tls.as_ref().and_then(|table| tls(table, folder, found)),
    }
}

fn address(typed: Option<&At<String>>, found: &mut Gathered) -> SocketAddr {
    let text = typed.map_or(ADDRESS, |at| at.value.as_str());
    text.parse().unwrap_or_else(|_| {
        let line = typed.map_or(1, |at| at.line);
        let what = format!("`{text}` is no address to listen on");
        let remedy = "give an IP address and a port, such as 127.0.0.1:8080, [::1]:8080 or, for \
                      all addresses, [::]:8080";
        found.add(line, what, remedy);
        SocketAddr::from(([127, 0, 0, 1], 0))
    })
}

/// All bodies together must have room for one.
fn bodies_bytes_max(table: &ListenTable, found: &mut Gathered) -> u64 {
    let (one, all) = (&keys::BODY_BYTES_MAX, &keys::BODIES_BYTES_MAX);
    let (one_max, all_max) = (table.numbers.value(one), table.numbers.value(all));
    let typed = table.numbers.typed(one).or_else(|| table.numbers.typed(all));
    if let Some(at) = typed
        && one_max > all_max
    {
        let what = format!("one body may have {one_max} bytes, and all together {all_max}");
        found.add(at.line, what, format!("raise `{}` or lower `{}`", all.name, one.name));
    }
    all_max as u64
}

fn tls(table: &TlsTable, folder: &Path, found: &mut Gathered) -> Option<ListenTls> {
    if table.cert.is_none() || table.key.is_none() {
        let what = "[listen.tls] needs both `cert` and `key`";
        found.add(table.line, what, "name the PEM files of the certificate and of its private key");
    }
    let mut file = |typed: &Option<At<String>>| readable(typed.as_ref()?, folder, found);
    let (cert, key, client_ca) = (file(&table.cert), file(&table.key), file(&table.ca));
    Some(ListenTls { cert: cert?, key: key?, client_ca })
}

/// Whether a request may come without a key. Whoever others can reach must say so himself.
pub(super) fn anyone(document: &Document, address: SocketAddr, found: &mut Gathered) -> bool {
    let sentence = keys::ANYONE;
    if let Some(typed) = &document.listen.without_keys {
        if typed.value != sentence {
            let what = format!("`without_keys` says `{}`", typed.value);
            let remedy = format!("if that is meant, say `without_keys = \"{sentence}\"`");
            found.add(typed.line, what, remedy);
        }
        return true;
    }
    if !document.keys.is_empty() {
        return false;
    }
    if !is_loopback(address) {
        let line = document.listen.address.as_ref().map_or(1, |at| at.line);
        let what = format!("{address} can be reached by others, and there is no key");
        let remedy = format!(
            "add a `[[key]]`, listen on 127.0.0.1, or say `without_keys = \"{sentence}\"` under \
             `[listen]` in a file"
        );
        found.add(line, what, remedy);
    }
    true
}

/// Whether only this machine can connect.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
