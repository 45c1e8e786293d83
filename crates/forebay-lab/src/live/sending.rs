//! Says how the requests of a drill are sent, and finds what that needs before anything starts.

use std::path::PathBuf;
use std::time::Duration;

use forebay_core::Span;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::design::{Arm, Design, Hook};
use super::error::LiveError;
use super::pages::Page;
use crate::load::arrivals::Think;
use crate::load::{self, Ask, Http, Names, Retry, Settings, Target, Tls, Transport, is_secret};

/// How requests are sent: the same for all arms, so that they differ in nothing else.
#[derive(Clone, Debug)]
pub struct Sending {
    /// What bodies ask for; the model is put in for each arm.
    pub ask: Ask,
    /// The version of HTTP.
    pub http: Http,
    /// The authorities that are believed; the system's where none are named.
    pub ca_file: Option<PathBuf>,
    /// Every certificate is believed.
    pub is_insecure: bool,
    /// Headers of every request. None of them is secret.
    pub headers: HeaderMap,
    /// The variable of the environment that holds the key.
    pub key_env: Option<String>,
    /// The header that says a request's class.
    pub class_header: HeaderName,
    /// The header that says a request's tenant.
    pub tenant_header: Option<HeaderName>,
    /// Tenants, and the variables that hold their keys.
    pub tenant_keys: Vec<(String, String)>,
    /// The share of requests whose client goes away early, 0 to 1, and after how long.
    pub leaves: Option<(f64, Think)>,
    /// How clients take refusals.
    pub retry: Retry,
    /// How long a request may take, in seconds of the wall.
    pub timeout: Duration,
    /// So many may be under way at once.
    pub in_flight_max: usize,
    /// The generator's own lag at p99 that leaves a block valid.
    pub lag_max: Span,
}

/// What sending needs of the environment and of files.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    transport: Transport,
    /// How pages are reached: by HTTP/1.1, which everybody speaks.
    pages: Transport,
    /// How names are said, keys of tenants among them.
    pub(super) names: Names,
    /// Headers of each arm, in the order of the arms.
    headers: Vec<HeaderMap>,
}

/// Asks somebody for pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Asker {
    transport: Transport,
    headers: HeaderMap,
}

impl Design {
    /// Looks for keys and certificates, so that what is missing is told before anything starts.
    pub(super) fn ready(&self) -> Result<Ready, LiveError> {
        let sending = &self.load.sending;
        let has_tls = self.urls().any(|url| url.starts_with("https://"));
        let transport = |http: Http| -> Result<Transport, LiveError> {
            let tls = match &sending.ca_file {
                _ if !has_tls => None,
                _ if sending.is_insecure => Some(Tls::trusting_anyone(http)),
                file => Some(Tls::trusting(file.as_deref(), http)?),
            };
            Ok(Transport { http, tls })
        };
        let keys = sending.tenant_keys.iter().map(|(tenant, variable)| {
            Ok((tenant.clone(), [bearer(variable)?].into_iter().collect()))
        });
        let names = Names {
            class: Some(sending.class_header.clone()),
            tenant: sending.tenant_header.clone(),
            tenants: keys.collect::<Result<_, LiveError>>()?,
        };
        let headers = self.arms.iter().map(|arm| sending.headers_of(arm));
        let headers = headers.collect::<Result<_, LiveError>>()?;
        let (transport, pages) = (transport(sending.http)?, transport(Http::One)?);
        Ok(Ready { transport, pages, names, headers })
    }

    fn urls(&self) -> impl Iterator<Item = &String> {
        let arms = self.arms.iter().flat_map(|arm| [&arm.url].into_iter().chain(&arm.metrics_url));
        let engines = self.engines.iter().flat_map(|engines| &engines.urls);
        arms.chain(engines).chain(self.exporters.iter().map(|exporter| &exporter.url))
    }
}

impl Sending {
    fn headers_of(&self, arm: &Arm) -> Result<HeaderMap, LiveError> {
        let mut headers = self.headers.clone();
        headers.extend(arm.headers.clone());
        let key = arm.key_env.as_ref().or(self.key_env.as_ref());
        headers.extend(key.map(|variable| bearer(variable)).transpose()?);
        Ok(headers)
    }

    /// What bodies ask this model for.
    pub(super) fn ask(&self, model: &str) -> Ask {
        Ask { model: model.to_owned(), ..self.ask.clone() }
    }

    /// The settings for the arm at this place and URL.
    pub(super) fn settings(
        &self,
        (place, url): (usize, &str),
        ready: &Ready,
        seed: u64,
    ) -> Result<Settings, LiveError> {
        Ok(Settings {
            transport: ready.transport.clone(),
            headers: ready.headers[place].clone(),
            in_flight_max: self.in_flight_max,
            patience: Span(self.timeout.as_nanos() as u64),
            retry: self.retry,
            lag_max: self.lag_max,
            seed,
            ..Settings::for_targets(vec![Target::below(url, self.ask.form)?])
        })
    }
}

impl Ready {
    /// Who asks engines and exporters: nobody's key is shown to them.
    pub(super) fn asker(&self) -> Asker {
        Asker { transport: self.pages.clone(), headers: HeaderMap::new() }
    }

    /// Who asks the arm at this place.
    pub(super) fn asker_of(&self, place: usize) -> Asker {
        Asker { headers: self.headers[place].clone(), ..self.asker() }
    }
}

impl Asker {
    /// A page as text.
    pub(super) async fn get(&self, url: &str, path: &str) -> Result<String, String> {
        self.asked(&Method::GET, url, path).await
    }

    /// A page of metrics, empty where there is none.
    pub(super) async fn page(&self, url: &str, metrics: &[String]) -> Page {
        let text = self.get(url, "").await.unwrap_or_default();
        Page::read(&text, metrics)
    }

    /// Asks the question that brings somebody to a known state, if there is one.
    pub(super) async fn reset(
        &self,
        name: &str,
        url: &str,
        hook: Option<&Hook>,
    ) -> Result<(), LiveError> {
        let Some(hook) = hook else { return Ok(()) };
        let said = self.asked(&hook.verb, url, &hook.path).await;
        said.map(drop).map_err(|said| LiveError::Hook {
            name: name.to_owned(),
            what: format!("answer {} {url}{}", hook.verb, hook.path),
            said,
        })
    }

    async fn asked(&self, verb: &Method, url: &str, path: &str) -> Result<String, String> {
        let target: Target = format!("{url}{path}").parse().map_err(|error| format!("{error}"))?;
        load::ask(&target, verb, (&self.transport, &self.headers)).await
    }
}

/// A header as the file has it, `name: value`; or what is wrong with it.
pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, value) = text.split_once(':').ok_or("it is no `name: value`")?;
    let name: HeaderName = name.trim().parse().map_err(|_| "its name can't be sent")?;
    if is_secret(&name) {
        return Err("it looks like a secret, and the file is copied to the results");
    }
    let value = HeaderValue::from_str(value.trim()).map_err(|_| "its value can't be sent")?;
    Ok((name, value))
}

/// The header with the key that this variable holds.
fn bearer(variable: &str) -> Result<(HeaderName, HeaderValue), LiveError> {
    let missing = || LiveError::NoKey(variable.to_owned());
    let key = std::env::var(variable).map_err(|_| missing())?;
    let value = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
    let mut value = value.map_err(|_| missing())?;
    value.set_sensitive(true);
    Ok((AUTHORIZATION, value))
}

#[cfg(test)]
mod tests {
    use super::header;

    #[test]
    fn a_header_is_a_name_and_a_value_and_never_a_secret() {
        let (name, value) = header("x-lane:  fast ").unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("x-lane", &b"fast"[..]));
        assert!(header("x-lane").is_err());
        assert!(header("x lane: fast").is_err());
        assert!(header("x-lane: a\nb").is_err());
        for secret in ["authorization: Bearer x", "X-Api-Key: x", "cookie: x"] {
            assert!(header(secret).unwrap_err().contains("secret"), "{secret}");
        }
    }
}
