//! Reads the URL that requests go to.

use std::fmt;
use std::str::FromStr;

use http::{HeaderValue, Uri, uri::Scheme};

use super::Form;

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host as a name or an address, without brackets.
    pub(super) host: String,
    /// The port.
    pub(super) port: u16,
    /// What the `host` header says.
    pub(super) authority: HeaderValue,
    /// The path and the query.
    pub(super) path: Uri,
    /// Whether it is spoken to through TLS.
    pub(super) is_tls: bool,
}

/// Why a URL is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no target: {url}: {what}\nhint: write it as http://HOST:PORT/v1/completions")]
pub struct TargetError {
    url: String,
    what: &'static str,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(url: &str) -> Result<Self, TargetError> {
        let fault = |what| TargetError { url: url.to_owned(), what };
        let uri: Uri = url.parse().map_err(|_| fault("not a URL"))?;
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        if !is_tls && uri.scheme() != Some(&Scheme::HTTP) {
            return Err(fault("the scheme is neither `http` nor `https`"));
        }
        let authority = uri.authority().ok_or_else(|| fault("no host"))?;
        if authority.as_str().contains('@') {
            return Err(fault("a user in a URL is not sent; give it as a header"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(fault("no host"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| fault("the host is no header"))?,
            path: path.parse().map_err(|_| fault("the path is none"))?,
            is_tls,
        })
    }
}

impl Target {
    /// The endpoint for this form of request below a base URL: `http://host`, `http://host/v1`, or
    /// the endpoint itself.
    pub fn below(base: &str, form: Form) -> Result<Self, TargetError> {
        let trimmed = base.trim_end_matches('/');
        if trimmed.contains('?') {
            let what = "a query in a URL is not sent; give a key as a header";
            return Err(TargetError { url: trimmed.split('?').next().unwrap_or("").into(), what });
        }
        let end = match form {
            Form::Completion => "/completions",
            Form::Chat => "/chat/completions",
        };
        if trimmed.ends_with("/completions") {
            return trimmed.parse();
        }
        let last = trimmed.rsplit('/').next().unwrap_or_default();
        let is_version = last.strip_prefix('v').is_some_and(|rest| rest.parse::<u16>().is_ok());
        format!("{trimmed}{}{end}", if is_version { "" } else { "/v1" }).parse()
    }

    /// The URL as HTTP/2 sends it.
    pub(super) fn whole(&self) -> Uri {
        // What was taken apart fits together again.
        self.to_string().parse().unwrap_or_default()
    }

    /// The same with another path.
    pub(super) fn at(&self, path: &str) -> Self {
        // What is appended to a path is one.
        Self { path: path.parse().unwrap_or_default(), ..self.clone() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority.to_str().unwrap_or(&self.host);
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{authority}{}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, Target};

    #[test]
    fn a_url_is_taken_apart_and_put_together_again() {
        for url in ["http://127.0.0.1:81/v1/x?a=1", "http://[::1]:8000/", "https://name/v1"] {
            assert_eq!(url.parse::<Target>().unwrap().to_string(), url);
        }
        let target: Target = "http://[::1]".parse().unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 80));
        assert_eq!(target.path, "/");
        assert_eq!("https://a".parse::<Target>().unwrap().port, 443);
    }

    #[test]
    fn an_endpoint_is_found_below_whatever_base_people_copy() {
        let at = |base, form| Target::below(base, form).map(|target| target.to_string());
        for base in ["http://h:8", "http://h:8/", "http://h:8/v1", "http://h:8/v1/"] {
            assert_eq!(at(base, Form::Chat).unwrap(), "http://h:8/v1/chat/completions");
        }
        let at_vendor = at("https://v/api/v2", Form::Completion).unwrap();
        assert_eq!(at_vendor, "https://v/api/v2/completions");
        let whole = "http://h/x/completions";
        assert_eq!(at(whole, Form::Chat).unwrap(), whole);
        let refused = at("http://h/v1?api_key=abc", Form::Chat).unwrap_err().to_string();
        assert!(refused.contains("header") && !refused.contains("abc"), "{refused}");
    }

    #[test]
    fn what_cannot_be_reached_is_refused_with_a_hint() {
        let said = |url: &str| url.parse::<Target>().unwrap_err().to_string();
        assert_eq!(
            said("ftp://host/"),
            "no target: ftp://host/: the scheme is neither `http` nor `https`\n\
             hint: write it as http://HOST:PORT/v1/completions"
        );
        for url in ["", "host:80", "/v1", "http://", "http://a b/", "http://u:p@host/"] {
            assert!(url.parse::<Target>().is_err(), "{url}");
        }
    }
}
