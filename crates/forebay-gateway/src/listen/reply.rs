//! Answers clients whose requests reach no handler.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};

use super::pulse::Pulse;

/// What a client hears that comes when all connections are taken. It is sent before anything was
/// read, so it is as short as an answer can be.
pub(super) const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\ncontent-length: 125\r\nretry-after: 1\r\n\
    connection: close\r\n\r\n\
    {\"error\":{\"message\":\"too many connections, try again soon\",\
    \"type\":\"server_error\",\"param\":null,\"code\":\"too_many_connections\"}}";

/// What a client hears whose headers took too long.
pub(super) const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

/// Why a request is refused before anybody reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: StatusCode,
    /// A sentence for whoever wrote the client.
    pub(super) message: &'static str,
}

/// The body of an answer, the handler's or the listener's own. The request counts as running
/// until it is dropped.
pub(super) struct Reply<B> {
    from: From<B>,
    _running: Running,
}

enum From<B> {
    Handler(B),
    Listener(Option<Bytes>),
}

/// One request on a connection.
pub(super) struct Running(Arc<Pulse>);

impl Running {
    pub(super) fn new(pulse: Arc<Pulse>) -> Self {
        pulse.begin();
        Self(pulse)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<B> Reply<B> {
    /// The handler's answer.
    pub(super) fn of_handler(response: Response<B>, running: Running) -> Response<Self> {
        response.map(|body| Self { from: From::Handler(body), _running: running })
    }

    /// A refusal. The connection closes, since whoever breaks the rules once may mean something
    /// else by the bytes that follow.
    pub(super) fn refusing(fault: Fault, over_http1: bool, running: Running) -> Response<Self> {
        let body = format!(
            "{{\"error\":{{\"message\":\"{}\",\"type\":\"invalid_request_error\",\
             \"param\":null,\"code\":null}}}}",
            fault.message
        );
        let from = From::Listener(Some(Bytes::from(body)));
        let mut response = Response::new(Self { from, _running: running });
        *response.status_mut() = fault.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if fault.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, OPTIONS"));
        }
        if over_http1 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Reply<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.from {
            From::Handler(body) => Pin::new(body).poll_frame(context),
            From::Listener(body) => Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Handler(body) => body.is_end_stream(),
            From::Listener(body) => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Handler(body) => body.size_hint(),
            From::Listener(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FULL;

    #[test]
    fn the_answer_to_too_many_says_its_own_length() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        assert!(body.starts_with('{') && body.ends_with("}}"));
    }
}
