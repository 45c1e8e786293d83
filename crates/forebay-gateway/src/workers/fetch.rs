//! Asks a worker a question of our own, within bounds of time and size.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;

use super::Worker;
use super::connect::Manner;

/// A question.
pub(super) struct Question<'a> {
    /// The path, without the worker's prefix.
    pub(super) path: &'a str,
    /// What is sent along; it is then a POST of JSON.
    pub(super) body: Option<Bytes>,
    /// The longest that everything may take, from the connection to the last byte.
    pub(super) within: Duration,
    /// The most bytes of the answer's body.
    pub(super) bytes_max: usize,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// Its status.
    pub(super) status: StatusCode,
    /// All of its body.
    pub(super) body: Bytes,
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// It could not be connected to, or broke off.
    #[error("it can't be reached")]
    Unreachable,
    /// It took too long.
    #[error("it does not answer in time")]
    TooLate,
    /// It was too long.
    #[error("its answer is too long")]
    TooLong,
}

/// Asks the question on a connection of its own: whoever asks how a worker does wants to know
/// whether it takes connections.
pub(super) async fn ask(worker: &Worker, question: Question<'_>) -> Result<Answer, NoAnswer> {
    let (within, bytes_max) = (question.within, question.bytes_max);
    let asked = async {
        // The lane does not matter: the connection is not kept.
        let connection = worker.connect_anew(0, within).await;
        let mut connection = connection.map_err(|_| NoAnswer::Unreachable)?;
        let request = request(worker, &connection.manner, &question);
        let response = connection.send(request).await.map_err(|_| NoAnswer::Unreachable)?;
        let status = response.status();
        let mut rest = response.into_body();
        let mut body = BytesMut::new();
        while let Some(frame) = rest.frame().await {
            let Ok(data) = frame.map_err(|_| NoAnswer::Unreachable)?.into_data() else { continue };
            if body.len() + data.len() > bytes_max {
                return Err(NoAnswer::TooLong);
            }
            body.extend_from_slice(&data);
        }
        Ok(Answer { status, body: body.freeze() })
    };
    timeout(within, asked).await.unwrap_or(Err(NoAnswer::TooLate))
}

fn request(worker: &Worker, manner: &Manner, question: &Question<'_>) -> Request<Full<Bytes>> {
    let path = format!("{}{}", worker.url.path_prefix, question.path);
    let mut request = Request::new(Full::new(question.body.clone().unwrap_or_default()));
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    let headers = request.headers_mut();
    headers.clone_from(&manner.headers);
    headers.insert(HOST, worker.authority.clone());
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(USER_AGENT, HeaderValue::from_static("forebay"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if question.body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.method_mut() = Method::POST;
    }
    request
}
