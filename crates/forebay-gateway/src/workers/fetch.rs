//! Asks a worker a question of our own, within bounds of time and size.

use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;

use super::Worker;
use super::connect::{DialFault, Manner};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// There is no address behind its name.
    NoAddress,
    /// It refuses connections: nobody listens there.
    Refused,
    /// There is no way to it.
    Unreachable,
    /// TLS was not agreed on.
    NoTls,
    /// It took the connection, and broke it off or spoke no HTTP.
    BrokenOff,
    /// It took too long.
    TooLate,
    /// It was too long.
    TooLong,
}

impl NoAnswer {
    /// In one word, for logs and the page of the fleet.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::NoAddress => "dns",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::NoTls => "tls",
            Self::BrokenOff => "broken_off",
            Self::TooLate => "timeout",
            Self::TooLong => "too_long",
        }
    }

    /// Why a connection can't be had.
    fn of(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match (inner, error.kind()) {
            (Some(DialFault::Lookup(_)), _) => Self::NoAddress,
            (Some(DialFault::Tls(_)), _) => Self::NoTls,
            (None, ErrorKind::ConnectionRefused) => Self::Refused,
            (None, ErrorKind::TimedOut) => Self::TooLate,
            (None, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => Self::BrokenOff,
            (None, _) => Self::Unreachable,
        }
    }
}

/// Asks the question on a connection of its own: whoever asks how a worker does wants to know
/// whether it takes connections.
pub(super) async fn ask(worker: &Worker, question: Question<'_>) -> Result<Answer, NoAnswer> {
    let (within, bytes_max) = (question.within, question.bytes_max);
    let asked = async {
        // The lane does not matter: the connection is not kept.
        let connection = worker.connect_anew(0, within).await;
        let mut connection = connection.map_err(|error| NoAnswer::of(&error))?;
        let request = request(worker, &connection.manner, &question);
        let response = connection.send(request).await.map_err(|_| NoAnswer::BrokenOff)?;
        let status = response.status();
        let mut rest = response.into_body();
        let mut body = BytesMut::new();
        while let Some(frame) = rest.frame().await {
            let Ok(data) = frame.map_err(|_| NoAnswer::BrokenOff)?.into_data() else { continue };
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
