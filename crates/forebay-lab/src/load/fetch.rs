//! Fetches a page.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt as _, Full, Limited};
use tokio::time::timeout;

use super::connect::{self, Idle};
use super::target::Target;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a page.
const BYTES_MAX: usize = 8 << 20;

/// The text of a page, or why there is none.
pub(crate) async fn fetch(target: &Target) -> Result<String, String> {
    timeout(PATIENCE, page(target)).await.map_err(|_| "it does not come in time".to_owned())?
}

async fn page(target: &Target) -> Result<String, String> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = target.path.clone();
    request.headers_mut().insert(HOST, target.authority.clone());
    let sent = connect::send(target, &Idle::default(), request).await;
    let (response, _connection) = sent.map_err(|(_, what)| what)?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Err(format!("it is answered with {}", head.status));
    }
    let whole = Limited::new(body, BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
    String::from_utf8(whole.to_bytes().into()).map_err(|error| error.to_string())
}
