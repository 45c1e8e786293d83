//! Resolves where requests go as traces, and what is sent along.
//!
//! The variables of the environment are those of the OpenTelemetry specification ("OpenTelemetry
//! Protocol Exporter"). They fill in what the table leaves out; without the table nothing is
//! traced, whatever they say: a gateway that began to talk to a third party because of a variable
//! that somebody set for another program would be a bad surprise.

use std::path::Path;
use std::str::FromStr;

use forebay_service::reader::{At, Gathered};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::document::OtelTable;
use super::resolve::{content, readable};
use super::{Otel, WorkerUrl, defaults as keys};

/// The only protocol: protocol buffers over HTTP.
pub(super) const PROTOCOL: &str = "http/protobuf";
/// Where traces go below the endpoint, as the specification says.
const TRACES: &str = "/v1/traces";
/// The endpoint where nobody said, as the specification says.
const ENDPOINT: &str = "http://127.0.0.1:4318";
/// Longest name of the service, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The folder of the file, and what a variable of the environment says.
type Around<'a> = (&'a Path, &'a dyn Fn(&str) -> Option<String>);

/// What the `[otel]` means. In a build that can't trace it is a fault.
pub(super) fn otel(
    table: &OtelTable,
    (folder, env): Around<'_>,
    found: &mut Gathered,
) -> Option<Otel> {
    if !cfg!(feature = "otel") {
        let what = "[otel] is given, and this build can't trace requests";
        let remedy = "build with the feature: `cargo build --release --features otel`, or leave \
                      the table out";
        found.add(table.line, what, remedy);
        return None;
    }
    // An empty variable is as good as none, as the specification says.
    let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    if let Some(typed) = table.protocol.as_ref().filter(|typed| typed.value != PROTOCOL) {
        let what = format!("unknown protocol `{}`", typed.value);
        let remedy = "say `http/protobuf`, and give the collector's port for HTTP, mostly 4318";
        found.add(typed.line, what, remedy);
    }
    let endpoint = endpoint(table, &env, found)?;
    let ca = table.ca.as_ref().and_then(|typed| readable(typed, folder, found));
    if let Some(typed) = table.ca.as_ref().filter(|_| !endpoint.tls) {
        let what = "[otel] has `ca`, but its collector is not spoken to through TLS";
        found.add(typed.line, what, "write https:// in `endpoint`, or leave `ca` out");
    }
    let numbers = &table.numbers;
    Some(Otel {
        endpoint,
        ca,
        headers: headers(table, (folder, &env), found),
        service_name: service_name(table, &env, found),
        sample_ratio: numbers.value(&keys::SAMPLE_RATIO),
        queue_len_max: numbers.value(&keys::SPANS_QUEUE_LEN_MAX) as usize,
        batch_len_max: numbers.value(&keys::SPANS_BATCH_LEN_MAX) as usize,
        interval: numbers.millis(&keys::SPANS_INTERVAL_MS),
        timeout: numbers.millis(&keys::SPANS_TIMEOUT_MS),
    })
}

/// The collector. Whoever gives the whole URL of its traces means the same.
fn endpoint(
    table: &OtelTable,
    env: &dyn Fn(&str) -> Option<String>,
    found: &mut Gathered,
) -> Option<WorkerUrl> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (line, given, from) = match &table.endpoint {
        Some(typed) => (typed.line, typed.value.clone(), "`endpoint`"),
        None => match env(VARIABLE) {
            Some(value) => (table.line, value.trim().to_owned(), VARIABLE),
            None => (table.line, ENDPOINT.to_owned(), ""),
        },
    };
    let base = given.trim_end_matches('/');
    let base = base.strip_suffix(TRACES).unwrap_or(base);
    match WorkerUrl::from_str(base) {
        Ok(url) => Some(url),
        Err(bad) => {
            let what = format!("{from} of [otel] is {}", said(&bad.what));
            let remedy = "give one such as http://127.0.0.1:4318; a key goes to `headers_file`";
            found.add(line, what, remedy);
            None
        }
    }
}

/// What is wrong with a URL, as the rest of a sentence.
fn said(what: &str) -> String {
    if what.starts_with('a') { what.to_owned() } else { format!("no URL: {what}") }
}

fn service_name(
    table: &OtelTable,
    env: &dyn Fn(&str) -> Option<String>,
    found: &mut Gathered,
) -> String {
    let given = table.service_name.as_ref();
    if let Some(typed) = given
        && (typed.value.trim().is_empty() || typed.value.len() > NAME_BYTES_MAX)
    {
        let what = format!("`service_name` has {} bytes", typed.value.len());
        found.add(typed.line, what, format!("give a name of at most {NAME_BYTES_MAX}"));
    }
    let typed = given.map(|typed| typed.value.clone());
    typed.or_else(|| env("OTEL_SERVICE_NAME")).unwrap_or_else(|| "forebay".to_owned())
}

/// What is sent along. Values may be secrets, so no fault repeats them.
fn headers(table: &OtelTable, (folder, env): Around<'_>, found: &mut Gathered) -> HeaderMap {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    if let Some(typed) = &table.headers_file {
        let bytes = content(typed, folder, found).unwrap_or_default();
        return in_lines(&bytes).unwrap_or_else(|nth| {
            let At { value, line } = typed;
            let what = format!("{value}:{nth}: a header that is none");
            found.add(*line, what, "write one a line, such as `Authorization: Bearer KEY`");
            HeaderMap::new()
        });
    }
    let given = env(VARIABLE).unwrap_or_default();
    in_pairs(&given).unwrap_or_else(|| {
        let what = format!("{VARIABLE} holds a header that is none");
        found.add(table.line, what, "write it as `name=value,name=value`, or use `headers_file`");
        HeaderMap::new()
    })
}

/// Headers of a file, one a line; what begins with `#` is a comment. A wrong one is named by its
/// line.
fn in_lines(bytes: &[u8]) -> Result<HeaderMap, usize> {
    let mut headers = HeaderMap::new();
    for (line, nth) in bytes.split(|byte| *byte == b'\n').zip(1_usize..) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let at = line.iter().position(|byte| *byte == b':').ok_or(nth)?;
        let (name, value) = (&line[..at], &line[at + 1..]);
        put(&mut headers, name, value).ok_or(nth)?;
    }
    Ok(headers)
}

/// Headers of the variable: `name=value`, with commas between them and values as in a URL.
fn in_pairs(text: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=')?;
        put(&mut headers, name.trim().as_bytes(), &unescaped(value.trim())?)?;
    }
    Some(headers)
}

fn put(headers: &mut HeaderMap, name: &[u8], value: &[u8]) -> Option<()> {
    let name = HeaderName::from_bytes(name.trim_ascii()).ok()?;
    let mut value = HeaderValue::from_bytes(value.trim_ascii()).ok()?;
    value.set_sensitive(true);
    headers.append(name, value);
    Some(())
}

/// A text with each `%41` as the byte that it stands for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push((high * 16 + low) as u8);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    const POOL: &str = "[[pool]]\nworker = \"http://10.0.0.7:8000\"\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("forebay.toml"), &format!("{POOL}{text}"))
            .map_err(|faults| faults.to_string())
    }

    #[test]
    #[cfg(not(feature = "otel"))]
    fn a_build_without_the_feature_says_how_to_get_it() {
        let told = parse("[otel]\nendpoint = \"http://a:4318\"\n").unwrap_err();
        assert!(told.contains("forebay.toml:3: ") && told.contains("--features otel"), "{told}");
        assert_eq!(told.matches("\nhint: ").count(), 1, "{told}");
        assert_eq!(parse("").unwrap().otel, None);
    }

    #[cfg(feature = "otel")]
    mod with_the_feature {
        use std::fs;
        use std::path::Path;
        use std::time::Duration;

        use forebay_service::reader::{Gathered, Section};

        use super::{POOL, parse};
        use crate::config::document::Document;
        use crate::config::{Config, Otel};

        /// What a table means where the environment says this, or its faults.
        fn with(text: &str, env: &[(&str, &str)]) -> Result<Otel, String> {
            let mut found = Gathered::new(text);
            let table = found.toml(text);
            let mut root = Section::root(&table);
            let document = Document::read(&mut root, &mut found);
            let env = |name: &str| {
                let known = env.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| (*value).to_owned())
            };
            let around = (Path::new(""), &env as &dyn Fn(&str) -> Option<String>);
            let otel = super::super::otel(&document.otel.unwrap(), around, &mut found);
            let whole = found.finish(Path::new("forebay.toml"), otel);
            whole.map(Option::unwrap).map_err(|faults| faults.to_string())
        }

        #[test]
        fn the_table_alone_is_enough_and_without_it_nothing_is_traced() {
            assert_eq!(parse("").unwrap().otel, None);
            let otel = with("[otel]\n", &[]).unwrap();
            assert_eq!(otel.endpoint.to_string(), "http://127.0.0.1:4318");
            assert_eq!((otel.service_name.as_str(), otel.sample_ratio), ("forebay", 1.0));
            assert_eq!((otel.queue_len_max, otel.timeout), (2048, Duration::from_secs(5)));
            assert!(otel.headers.is_empty());
        }

        #[test]
        fn the_environment_fills_in_what_the_table_leaves_out() {
            let env = [
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otel.example:443/team/"),
                ("OTEL_SERVICE_NAME", "door"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, X-Team = c"),
            ];
            let otel = with("[otel]\n", &env).unwrap();
            assert_eq!(otel.endpoint.to_string(), "https://otel.example:443/team");
            assert_eq!(otel.service_name, "door");
            assert_eq!((&otel.headers["x-key"], &otel.headers["x-team"]).0, "a b");
            assert_eq!(otel.headers["x-team"], "c");
            let said = "[otel]\nendpoint = \"http://c:1/v1/traces\"\nservice_name = \"s\"\n";
            let otel = with(said, &env).unwrap();
            assert_eq!(
                (otel.endpoint.to_string().as_str(), &*otel.service_name),
                ("http://c:1", "s")
            );
            let empty = [("OTEL_EXPORTER_OTLP_ENDPOINT", " "), ("OTEL_SERVICE_NAME", "")];
            assert_eq!(with("[otel]\n", &empty), with("[otel]\n", &[]));
        }

        #[test]
        fn what_is_wrong_is_told_and_no_secret_repeated() {
            let check = |text: &str, env: &[(&str, &str)], line: usize, words: &str| {
                let told = with(text, env).unwrap_err();
                let at = format!("forebay.toml:{line}: ");
                assert!(told.contains(&at) && told.contains(words), "{told}");
                assert_eq!(told.matches("\nhint: ").count(), 1, "{told}");
                assert!(!told.contains("hunter2"), "{told}");
            };
            check("[otel]\nprotocol = \"grpc\"\n", &[], 2, "unknown protocol `grpc`");
            check("[otel]\nendpoint = \"http://u:hunter2@c\"\n", &[], 2, "a password");
            check("[otel]\nendpoint = \"collector:4318\"\n", &[], 2, "such as http://");
            let bad = [("OTEL_EXPORTER_OTLP_ENDPOINT", "collector")];
            check("[otel]\n", &bad, 1, "OTEL_EXPORTER_OTLP_ENDPOINT of [otel]");
            check("[otel]\n", &[("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")], 1, "name=value");
            check("[otel]\n", &[("OTEL_EXPORTER_OTLP_HEADERS", "a=%zhunter2")], 1, "name=value");
            check("[otel]\nsample_ratio = 1.5\n", &[], 2, "from 0 to 1");
            check("[otel]\nservice_name = \" \"\n", &[], 2, "give a name");
            check("[otel]\nheaders_file = \"not-there\"\n", &[], 2, "no such file");
        }

        #[test]
        fn headers_of_a_file_are_sent_and_never_shown() {
            let name = format!("forebay-config-otel-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            let lines = "# a comment\n\nAuthorization: Bearer hunter2\r\nX-Team: a: b\n";
            fs::write(folder.join("headers"), lines).unwrap();
            fs::write(folder.join("bad"), "\nhunter2\n").unwrap();
            let read = |file: &str| {
                let text = format!("{POOL}[otel]\nheaders_file = \"{file}\"\n");
                Config::parse(&folder.join("forebay.toml"), &text)
            };
            let config = read("headers").unwrap();
            let headers = &config.otel.as_ref().unwrap().headers;
            assert_eq!(headers["authorization"], "Bearer hunter2");
            assert_eq!(headers["x-team"], "a: b");
            for said in [config.shown(), format!("{config:?}")] {
                assert!(!said.contains("hunter2"), "{said}");
            }
            let told = read("bad").unwrap_err().to_string();
            assert!(told.contains("bad:2: a header") && !told.contains("hunter2"), "{told}");
            fs::remove_dir_all(&folder).unwrap();
        }

        #[test]
        fn what_is_shown_reads_back_as_the_same_and_a_change_needs_a_restart() {
            let text = "[otel]\nendpoint = \"https://c.example/x\"\nsample_ratio = 0.25\n\
                        interval_ms = 7\nservice_name = \"a\\\"b\"\n";
            let config = parse(text).unwrap();
            let shown = config.shown();
            let again = Config::parse(Path::new("forebay.toml"), &shown).unwrap();
            assert_eq!(again, config, "{shown}");
            assert_eq!(config.diff_needs_restart(&parse("").unwrap()), ["[otel]"]);
        }
    }
}
