//! Says where a worker is, in the form in which people write it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Where a worker is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerUrl {
    /// Whether it is spoken to through TLS.
    pub tls: bool,
    /// Its name or address, an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What `Host` says.
    pub authority: String,
    /// What stands before every path, without a slash at its end.
    pub path_prefix: String,
}

/// What is wrong with a URL, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}\nhint: {remedy}")]
pub struct WorkerUrlError {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// The longest name of a host (RFC 1035, 2.3.4).
const HOST_LEN_MAX: usize = 253;
/// The longest URL that is looked at.
const URL_LEN_MAX: usize = 2048;
/// An example of a good one.
const EXAMPLE: &str = "http://10.0.0.7:8000";

impl WorkerUrl {
    /// Its address, where it is not given by a name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The same worker behind one of the addresses of its name. `Host` and the name that TLS
    /// checks stay those of the name.
    #[must_use]
    pub fn at(&self, address: IpAddr) -> Self {
        Self { host: address.to_string(), ..self.clone() }
    }

    /// What stands between the scheme and the path.
    fn place(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for WorkerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.place(), self.path_prefix)
    }
}

impl FromStr for WorkerUrl {
    type Err = WorkerUrlError;

    fn from_str(text: &str) -> Result<Self, WorkerUrlError> {
        if text.len() > URL_LEN_MAX {
            let what = format!("a URL of {} bytes, of at most {URL_LEN_MAX}", text.len());
            return Err(fault(what, format!("give one such as {EXAMPLE}")));
        }
        let (tls, rest) = scheme(text)?;
        // Before anything of the URL is repeated: what stands before `@` is a secret.
        if rest.contains('@') {
            let remedy = "leave it out; a key for the workers goes to `key_file` of the pool";
            return Err(fault("a URL with a user or a password", remedy));
        }
        let (place, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let path_prefix = path_prefix(text, path)?;
        let (host, port) = host_and_port(text, place)?;
        let port = match port {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(digits) => port_of(text, digits)?,
        };
        let worker = Self { tls, host, port, authority: String::new(), path_prefix };
        Ok(Self { authority: worker.place(), ..worker })
    }
}

fn fault(what: impl Into<String>, remedy: impl Into<String>) -> WorkerUrlError {
    WorkerUrlError { what: what.into(), remedy: remedy.into() }
}

fn scheme(text: &str) -> Result<(bool, &str), WorkerUrlError> {
    let Some((scheme, rest)) = text.split_once("://") else {
        let remedy = format!("write the whole URL, such as {EXAMPLE}");
        return Err(fault("a URL that does not begin with http:// or https://", remedy));
    };
    if scheme.eq_ignore_ascii_case("http") {
        Ok((false, rest))
    } else if scheme.eq_ignore_ascii_case("https") {
        Ok((true, rest))
    } else {
        Err(fault("a URL that is neither http:// nor https://", "workers are spoken to in HTTP"))
    }
}

fn path_prefix(text: &str, path: &str) -> Result<String, WorkerUrlError> {
    if path.contains(['?', '#']) {
        let remedy = "leave `?` and `#` out: every request brings its own path and query";
        return Err(fault(format!("`{text}` has a query or a fragment"), remedy));
    }
    let prefix = path.trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
    if !prefix.bytes().all(is_plain) || prefix.split('/').any(|part| part == "." || part == "..") {
        let remedy = "give a plain path, such as http://gate:8000/team-a, or none";
        return Err(fault(format!("`{text}` has a path that can't stand before others"), remedy));
    }
    if prefix.ends_with("/v1") {
        let remedy = "leave `/v1` out: it is part of what clients ask for";
        return Err(fault(format!("`{text}` ends in /v1"), remedy));
    }
    Ok(prefix.to_owned())
}

/// The host without brackets and in lower case, and the digits of the port.
fn host_and_port<'t>(
    text: &str,
    place: &'t str,
) -> Result<(String, Option<&'t str>), WorkerUrlError> {
    if let Some(rest) = place.strip_prefix('[') {
        let closed = rest.split_once(']').and_then(|(host, rest)| {
            let port = if rest.is_empty() { Some(None) } else { rest.strip_prefix(':').map(Some) };
            Some((host.parse::<Ipv6Addr>().ok()?, port?))
        });
        let Some((address, port)) = closed else {
            let what = format!("`{text}` has no IPv6 address in its brackets");
            return Err(fault(what, "write it such as http://[::1]:8000, without a zone"));
        };
        return Ok((address.to_string(), port));
    }
    if place.matches(':').count() > 1 {
        let what = format!("`{text}` has an IPv6 address without brackets, so its port is unclear");
        return Err(fault(what, format!("write http://{}", with_brackets(place))));
    }
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (place, None),
    };
    let host = host.to_ascii_lowercase();
    check_host(text, &host)?;
    Ok((host, port))
}

/// An address and a port without brackets, with them. Four digits at the end are rather a port than
/// a part of the address.
fn with_brackets(place: &str) -> String {
    let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    match place.rsplit_once(':') {
        Some((address, port)) if is_address(address) && port.len() >= 4 => {
            format!("[{address}]:{port}")
        }
        _ if is_address(place) => format!("[{place}]:8000"),
        _ => "[::1]:8000".to_owned(),
    }
}

fn check_host(text: &str, host: &str) -> Result<(), WorkerUrlError> {
    if host.is_empty() {
        return Err(fault(
            format!("`{text}` names no host"),
            format!("write it such as {EXAMPLE}"),
        ));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if !host.bytes().all(is_plain) || host.len() > HOST_LEN_MAX {
        let what = format!("`{text}` has a host that is neither a name nor an address");
        return Err(fault(what, "use letters, digits, `-` and `.`; other scripts as `xn--…`"));
    }
    // 10.0.0 and 10.0.0.256 would be looked up as names, and somebody could own them.
    let is_number = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number && host.parse::<Ipv4Addr>().is_err() {
        let what = format!("`{text}` has a host that is almost an IPv4 address");
        return Err(fault(what, "give four numbers from 0 to 255, such as 10.0.0.7"));
    }
    Ok(())
}

fn port_of(text: &str, digits: &str) -> Result<u16, WorkerUrlError> {
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u16>());
    match number {
        Some(Ok(port)) if port > 0 => Ok(port),
        _ => {
            let what = format!("`{text}` has a port that is not from 1 to 65535");
            Err(fault(what, format!("write it such as {EXAMPLE}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WorkerUrl;

    #[track_caller]
    fn good(text: &str, shown: &str) -> WorkerUrl {
        let url: WorkerUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), shown);
        assert_eq!(url.to_string().parse(), Ok(url.clone()), "what is shown is read as the same");
        url
    }

    #[track_caller]
    fn bad(text: &str, words: &str) {
        let error = text.parse::<WorkerUrl>().unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("\nhint: "), "{text}: {error}");
    }

    #[test]
    fn a_worker_is_named_by_scheme_host_port_and_prefix() {
        let url =
            good("HTTP://Worker-1.Example:8000/team/a/", "http://worker-1.example:8000/team/a");
        assert_eq!((url.tls, url.host.as_str(), url.port), (false, "worker-1.example", 8000));
        assert_eq!(url.authority, "worker-1.example:8000");
        assert_eq!(url.path_prefix, "/team/a");
        let url = good("https://10.0.0.7", "https://10.0.0.7:443");
        assert_eq!((url.tls, url.port, url.path_prefix.as_str()), (true, 443, ""));
        assert_eq!(good("http://gate/", "http://gate:80").ip(), None);
    }

    #[test]
    fn an_ipv6_address_needs_brackets_and_is_the_same_however_it_is_written() {
        let url = good("http://[::1]:8001", "http://[::1]:8001");
        assert_eq!((url.host.as_str(), url.authority.as_str()), ("::1", "[::1]:8001"));
        assert!(url.ip().is_some_and(|ip| ip.is_loopback()));
        good("http://[2001:DB8:0::7]", "http://[2001:db8::7]:80");
        bad("http://::1:8001", "hint: write http://[::1]:8001");
        bad("http://2001:db8::7", "hint: write http://[2001:db8::7]:8000");
        bad("http://[::1", "no IPv6 address");
        bad("http://[::1]8001", "no IPv6 address");
        bad("http://[fe80::1%eth0]:8001", "without a zone");
        bad("http://[10.0.0.7]:8001", "no IPv6 address");
    }

    #[test]
    fn what_is_no_place_of_a_worker_is_refused_with_the_reason() {
        bad("worker-1:8000", "does not begin with http://");
        bad("", "does not begin with http://");
        bad("unix:///run/vllm.sock", "neither http:// nor https://");
        bad("http://:8000", "names no host");
        bad("http://wörker:8000", "xn--");
        bad("http://worker 1:8000", "neither a name nor an address");
        bad("http://10.0.0.256:8000", "almost an IPv4 address");
        bad("http://10.0:8000", "almost an IPv4 address");
        for port in ["", "0", "65536", "+80", "8O"] {
            bad(&format!("http://worker:{port}"), "from 1 to 65535");
        }
        bad("http://worker:8000/?a=1", "query");
        bad("http://worker:8000#top", "fragment");
        bad("http://worker:8000/a/../b", "can't stand before others");
        bad("http://worker:8000/a\nb", "can't stand before others");
        bad("http://worker:8000/v1/", "leave `/v1` out");
        bad(&format!("http://{}", "a".repeat(254)), "neither a name");
        bad(&format!("http://{}", "a".repeat(3000)), "of at most 2048");
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for text in ["http://me:hunter2@worker:8000", "https://me:hunter2/3@worker"] {
            let error = text.parse::<WorkerUrl>().unwrap_err().to_string();
            assert!(error.contains("key_file") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn one_address_of_a_name_keeps_the_name_in_host() {
        let name: WorkerUrl = "http://workers.example:8000".parse().unwrap();
        let one = name.at("fd00::7".parse().unwrap());
        assert_eq!(one.to_string(), "http://[fd00::7]:8000");
        assert_eq!(one.authority, "workers.example:8000");
    }
}
