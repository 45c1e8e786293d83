//! Turns the gateway's file as typed into what is meant.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_service::Service;
use forebay_service::reader::{At, Gathered, nearest};

use super::document::{Document, PathTable};
use super::listen::{anyone, is_loopback, listen};
use super::{Access, Config, Health, Log, Record, Retries, Scrape, Secret, Timeouts};
use super::{defaults as defaults_of, keys, otel, pools};

/// The longest file of a secret that is read.
const SECRET_BYTES_MAX: u64 = 65_536;
/// The shortest secret that can't be guessed.
const SECRET_BYTES_MIN: usize = 32;

/// What the document means. Where it has faults the result only serves to look for more of them.
pub(super) fn resolve(
    document: &Document,
    mut service: Service,
    folder: &Path,
    found: &mut Gathered,
) -> Config {
    let listen = listen(&document.listen, folder, found);
    let anyone = anyone(document, listen.address, found);
    // Before the keys: one that names no tenant is accounted like a request without a key.
    let anonymous = anyone.then(|| keys::anonymous(&mut service));
    let pools = pools::pools(document, &service, folder, found);
    let keys = keys::keys(document, &service, &pools, found);
    let admin_is_open = document.keys.is_empty() && is_loopback(listen.address);
    Config {
        timeouts: timeouts(document),
        retries: Retries {
            budget_share: document.retries.value(&defaults_of::BUDGET_SHARE),
            budget_floor: document.retries.value(&defaults_of::BUDGET_FLOOR) as u32,
        },
        health: health(&document.health, found),
        scrape: Scrape {
            path: path(&document.scrape, "/metrics", found),
            interval: document.scrape.numbers.millis(&defaults_of::SCRAPE_INTERVAL_MS),
            stale_max: document.scrape.numbers.millis(&defaults_of::STALE_MS_MAX),
        },
        record: record(document, folder, found),
        log: log(document, folder, found),
        progress: document
            .progress
            .typed(&defaults_of::PROGRESS_MS)
            .map(|at| Duration::from_millis(at.value as u64)),
        ticket_secret: document
            .ticket_secret
            .as_ref()
            .and_then(|typed| ticket_secret(typed, folder, found)),
        otel: document
            .otel
            .as_ref()
            .and_then(|table| otel::otel(table, (folder, &|name| std::env::var(name).ok()), found)),
        listen,
        service,
        pools,
        keys,
        anonymous,
        admin_is_open,
    }
}

fn timeouts(document: &Document) -> Timeouts {
    let numbers = &document.timeouts;
    Timeouts {
        connect: numbers.millis(&defaults_of::CONNECT_MS),
        first_byte_max: Some(numbers.millis(&defaults_of::FIRST_BYTE_MS_MAX))
            .filter(|limit| !limit.is_zero()),
        idle_max: numbers.millis(&defaults_of::STALL_MS_MAX),
        total_max: numbers.millis(&defaults_of::TOTAL_MS_MAX),
        drain_max: numbers.millis(&defaults_of::DRAIN_MS_MAX),
    }
}

fn health(table: &PathTable, found: &mut Gathered) -> Health {
    let numbers = &table.numbers;
    Health {
        path: path(table, "/health", found),
        interval: numbers.millis(&defaults_of::HEALTH_INTERVAL_MS),
        timeout: numbers.millis(&defaults_of::HEALTH_TIMEOUT_MS),
        failures: numbers.value(&defaults_of::HEALTH_FAILURES) as u32,
        successes: numbers.value(&defaults_of::HEALTH_SUCCESSES) as u32,
    }
}

/// A path that workers are asked for.
fn path(table: &PathTable, default: &str, found: &mut Gathered) -> String {
    let Some(typed) = &table.path else { return default.to_owned() };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if !typed.value.starts_with('/') || !typed.value.bytes().all(is_plain) {
        let what = format!("`{}` is no path", typed.value);
        found.add(typed.line, what, format!("give one such as {default}"));
    }
    typed.value.clone()
}

fn record(document: &Document, folder: &Path, found: &mut Gathered) -> Option<Record> {
    let bytes_max = &defaults_of::RECORD_BYTES_MAX;
    let Some(dir) = &document.record.dir else {
        if let Some(typed) = document.record.numbers.typed(bytes_max) {
            let what = "[record] bounds a recording, but does not say where it goes";
            found.add(typed.line, what, "add `dir`, or leave the table out");
        }
        return None;
    };
    let bytes_max = document.record.numbers.value(bytes_max) as u64;
    Some(Record { dir: folder.join(&dir.value), bytes_max })
}

fn log(document: &Document, folder: &Path, found: &mut Gathered) -> Log {
    let access = document.access.as_ref().map_or(Access::Off, |typed| match typed.value.as_str() {
        "off" => Access::Off,
        "json" => Access::Json,
        other => {
            let near = nearest(other, ["off", "json"].into_iter()).unwrap_or("json");
            let what = format!("unknown access log `{other}`");
            found.add(typed.line, what, format!("did you mean `{near}`?"));
            Access::Off
        }
    });
    if let Some(file) = document.log_file.as_ref().filter(|_| document.access.is_none()) {
        let what = "[log] names a file, but not what goes there";
        found.add(file.line, what, "add `access = \"json\"`, or leave `file` out");
    }
    Log { access, file: document.log_file.as_ref().map(|file| folder.join(&file.value)) }
}

fn ticket_secret(typed: &At<String>, folder: &Path, found: &mut Gathered) -> Option<Secret> {
    let bytes = content(typed, folder, found)?;
    if bytes.len() < SECRET_BYTES_MIN {
        let what = format!("{} has {} bytes, which can be guessed", typed.value, bytes.len());
        let remedy = format!("draw one: `head -c 32 /dev/urandom > {}`", typed.value);
        found.add(typed.line, what, remedy);
        return None;
    }
    Some(Secret(bytes))
}

/// The path of a file that can be opened. Another one is a fault.
pub(super) fn readable(typed: &At<String>, folder: &Path, found: &mut Gathered) -> Option<PathBuf> {
    open(typed, folder, found).map(|(path, _)| path)
}

/// What a small file holds.
pub(super) fn content(typed: &At<String>, folder: &Path, found: &mut Gathered) -> Option<Vec<u8>> {
    let (_, file) = open(typed, folder, found)?;
    let mut bytes = Vec::new();
    let read = file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes);
    let what = match read {
        Ok(_) if bytes.len() as u64 > SECRET_BYTES_MAX => "it is too long for a key".to_owned(),
        Ok(_) => return Some(bytes),
        Err(error) => error.to_string(),
    };
    found.add(typed.line, format!("{}: {what}", typed.value), "name a file with a key in it");
    None
}

fn open(typed: &At<String>, folder: &Path, found: &mut Gathered) -> Option<(PathBuf, File)> {
    let path = folder.join(&typed.value);
    let what = match File::open(&path).and_then(|file| Ok((file.metadata()?.is_dir(), file))) {
        Ok((false, file)) => return Some((path, file)),
        Ok((true, _)) => "it is a folder".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    let remedy = "name a file that can be read; paths begin at the folder of this one";
    found.add(typed.line, format!("{}: {what}", path.display()), remedy);
    None
}
