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
use super::connect::Dialer;
use super::outgoing::{Noted, Outgoing};
use super::secrets::Secrets;
use super::target::Target;
use super::transport::Transport;
use crate::results::Attempt;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a page.
const BYTES_MAX: usize = 8 << 20;

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
    timeout(PATIENCE, page).await.map_err(|_| "it does not come in time".to_owned())?
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
    let wrong =
        |what: String| ModelError { what: Secrets::of(&settings.headers).line(what.as_bytes()) };
    let Some(target) = settings.targets.first() else {
        return Err(wrong("there is no target".to_owned()));
    };
    // The list stands beside what is asked, whatever comes before both.
    let path = target.path.path();
    let ends = ["/chat/completions", "/completions"];
    let base = ends.iter().find_map(|end| path.strip_suffix(end)).unwrap_or("/v1");
    let target = target.at(&format!("{base}/models"));
    let page = page(&target, &Method::GET, &settings.transport, settings.headers.clone());
    let late = || Err("it does not come in time".to_owned());
    let page = timeout(PATIENCE, page).await.unwrap_or_else(|_| late());
    let page = page.map_err(|what| wrong(format!("{target}: {what}")))?;
    let models: Models = serde_json::from_str(&page)
        .map_err(|error| wrong(format!("{target}: it lists no models: {error}")))?;
    match &models.data[..] {
        [model] => Ok(model.id.clone()),
        models => Err(wrong(format!("{target}: it lists {} models", models.len()))),
    }
}

/// Why it is not known which model to ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}\nhint: name the model with --model")]
pub struct ModelError {
    what: String,
}

async fn page(
    target: &Target,
    verb: &Method,
    transport: &Transport,
    headers: HeaderMap,
) -> Result<String, String> {
    let start = Instant::now();
    let mut request = Request::new(Outgoing::new(Bytes::new(), Noted::new(start)));
    *request.method_mut() = verb.clone();
    *request.uri_mut() = target.path.clone();
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, target.authority.clone());
    let dialer = Dialer::new(target.clone(), (transport, false), start, Arc::default());
    let sent = dialer.send(request, &mut Attempt::new(Span::ZERO, 0)).await;
    let (response, _connection) = sent.map_err(|broken| broken.said)?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Err(format!("it is answered with {}", head.status));
    }
    let whole = Limited::new(body, BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
    String::from_utf8(whole.to_bytes().into()).map_err(|error| error.to_string())
}
