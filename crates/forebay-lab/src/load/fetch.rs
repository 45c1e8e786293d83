//! Fetches a page, or asks an endpoint for something whose answer is no part of a run.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Span;
use http::header::HOST;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::Settings;
use super::connect::{Broken, Dialer};
use super::outgoing::{Noted, Outgoing};
use super::secrets::Secrets;
use super::target::Target;
use super::transport::Transport;
use crate::results::{Attempt, Fault};

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a page.
const BYTES_MAX: usize = 8 << 20;

const LATE: &str = "it does not come in time";

/// The text of a page, or why there is none.
pub(crate) async fn fetch(target: &Target) -> Result<String, String> {
    ask(target, &Method::GET, (&Transport::default(), &HeaderMap::new())).await
}

/// The text of what an endpoint answers, reached in this way and with these headers, or why there
/// is none.
pub(crate) async fn ask(
    target: &Target,
    verb: &Method,
    (transport, headers): (&Transport, &HeaderMap),
) -> Result<String, String> {
    let page = page(target, verb, transport, headers.clone());
    let page = timeout(PATIENCE, page).await.map_err(|_| LATE.to_owned())?;
    page.map_err(|broken| broken.said)
}

/// The name of the model that the first target of a run serves, where it serves exactly one.
pub async fn only_model(settings: &Settings) -> Result<String, ModelError> {
    #[derive(Deserialize)]
    struct Models {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let hidden = |what: String| Secrets::of(&settings.headers).line(what.as_bytes());
    let wrong = |what| ModelError::Untold(hidden(what));
    let Some(target) = settings.targets.first() else {
        return Err(wrong("there is no target".to_owned()));
    };
    // The list stands beside what is asked, whatever comes before both.
    let path = target.path.path();
    let ends = ["/chat/completions", "/completions"];
    let base = ends.iter().find_map(|end| path.strip_suffix(end)).unwrap_or("/v1");
    let target = target.at(&format!("{base}/models"));
    let page = page(&target, &Method::GET, &settings.transport, settings.headers.clone());
    let late = || Err(Broken::new(Fault::NoAnswer, LATE));
    let page = timeout(PATIENCE, page).await.unwrap_or_else(|_| late());
    let page = page.map_err(|Broken { fault, said, .. }| match fault {
        Fault::Connect => ModelError::Unreachable(hidden(format!("{target}: {said}"))),
        _ => wrong(format!("{target}: {said}")),
    })?;
    let models: Models = serde_json::from_str(&page)
        .map_err(|error| wrong(format!("{target}: it lists no models: {error}")))?;
    match &models.data[..] {
        [model] => Ok(model.id.clone()),
        models => Err(wrong(format!("{target}: it lists {} models", models.len()))),
    }
}

/// Why it is not known which model to ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Nobody is there, or nobody who can be spoken to.
    #[error(
        "{0}\nhint: see that the target is up, and that its URL and the version of HTTP are right"
    )]
    Unreachable(String),
    /// It does not say, or names several.
    #[error("{0}\nhint: name the model with --model")]
    Untold(String),
}

async fn page(
    target: &Target,
    verb: &Method,
    transport: &Transport,
    headers: HeaderMap,
) -> Result<String, Broken> {
    let start = Instant::now();
    let mut request = Request::new(Outgoing::new(Bytes::new(), Noted::new(start)));
    *request.method_mut() = verb.clone();
    *request.uri_mut() = target.path.clone();
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, target.authority.clone());
    let dialer = Dialer::new(target.clone(), (transport, false), start, Arc::default());
    let sent = dialer.send(request, &mut Attempt::new(Span::ZERO, 0)).await;
    let (response, _connection) = sent?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        let said = format!("it is answered with {}", head.status);
        return Err(Broken::new(Fault::Status, said));
    }
    let whole = Limited::new(body, BYTES_MAX).collect().await;
    let whole = whole.map_err(|error| Broken::new(Fault::Cut, error.to_string()))?;
    let text = String::from_utf8(whole.to_bytes().into());
    text.map_err(|error| Broken::new(Fault::Garbled, error.to_string()))
}
