//! Fetches a page.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Span;
use http::header::HOST;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Limited};
use tokio::time::{Instant, timeout};

use super::connect::Dialer;
use super::outgoing::{Noted, Outgoing};
use super::target::Target;
use crate::results::Attempt;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a page.
const BYTES_MAX: usize = 8 << 20;

/// The text of a page, or why there is none.
pub(crate) async fn fetch(target: &Target) -> Result<String, String> {
    let page = page(target, HeaderMap::new());
    timeout(PATIENCE, page).await.map_err(|_| "it does not come in time".to_owned())?
}

async fn page(target: &Target, headers: HeaderMap) -> Result<String, String> {
    let start = Instant::now();
    let mut request = Request::new(Outgoing::new(Bytes::new(), Noted::new(start)));
    *request.uri_mut() = target.path.clone();
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, target.authority.clone());
    let dialer = Dialer::new(target.clone(), start, Arc::default());
    let sent = dialer.send(request, &mut Attempt::new(Span::ZERO, 0)).await;
    let (response, _connection) = sent.map_err(|broken| broken.said)?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Err(format!("it is answered with {}", head.status));
    }
    let whole = Limited::new(body, BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
    String::from_utf8(whole.to_bytes().into()).map_err(|error| error.to_string())
}
