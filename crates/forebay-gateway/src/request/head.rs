//! Keeps a request's head, and says which headers pass and which stay on their side.

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap,
    HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SERVER, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::PathAndQuery;

use super::REQUEST_ID;
use crate::gateway::Gateway;
use crate::tickets;

/// Longest name of its own that a client may give a request, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// nginx's word for whether it keeps an answer back.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Headers that belong to one connection, or say where it goes.
const HOP: [HeaderName; 11] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// The head of a request, as far as a worker gets it.
///
/// Its headers are slices of what they were read into, which is 8 KB for HTTP/1 and lives as long
/// as any of them. While a request waits, it is packed into as many bytes as it needs.
#[derive(Debug)]
pub(crate) struct Head {
    pub(super) method: Method,
    /// Empty while it is packed, as are the headers.
    pub(super) path: Option<PathAndQuery>,
    pub(super) headers: HeaderMap,
    /// The path, and then `name:value` for each header, each ended by a line feed: neither a name
    /// nor a value can have one, nor a name a colon.
    packed: Vec<u8>,
}

impl Head {
    /// What is kept of a head.
    pub(super) fn of(head: Parts) -> Self {
        let path = head.uri.into_parts().path_and_query;
        Self { method: head.method, path, headers: head.headers, packed: Vec::new() }
    }

    /// Packs it.
    pub(super) fn pack(&mut self) {
        let headers = std::mem::take(&mut self.headers);
        let path = self.path.take();
        let path = path.as_ref().map_or("", PathAndQuery::as_str);
        let bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        let length = headers.iter().map(|header| bytes(header) + 2).sum::<usize>();
        let mut packed = Vec::with_capacity(path.len() + 1 + length);
        packed.extend_from_slice(path.as_bytes());
        packed.push(b'\n');
        for (name, value) in &headers {
            packed.extend_from_slice(name.as_str().as_bytes());
            packed.push(b':');
            packed.extend_from_slice(value.as_bytes());
            packed.push(b'\n');
        }
        self.packed = packed;
    }

    /// Unpacks it. What it was made of comes out again.
    pub(super) fn unpack(&mut self) {
        let packed = Bytes::from(std::mem::take(&mut self.packed));
        let mut lines = packed.split(|byte| *byte == b'\n');
        let path = lines.next().map(|path| packed.slice_ref(path));
        self.path = path.and_then(|path| PathAndQuery::from_maybe_shared(path).ok());
        self.headers.reserve(lines.clone().count());
        for line in lines {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let name = HeaderName::from_bytes(&line[..colon]);
            let value = HeaderValue::from_maybe_shared(packed.slice_ref(&line[colon + 1..]));
            if let (Ok(name), Ok(value)) = (name, value) {
                self.headers.append(name, value);
            }
        }
    }
}

/// The name of a request: the client's, if it is one, or a new one, which goes on to the worker.
pub(super) fn name(headers: &mut HeaderMap, gateway: &Gateway) -> String {
    let given = headers.get(REQUEST_ID).and_then(|name| name.to_str().ok());
    let fits = |name: &&str| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    if let Some(name) = given.filter(fits) {
        return name.to_owned();
    }
    let name = gateway.name_request();
    if let Ok(value) = HeaderValue::from_str(&name) {
        headers.insert(REQUEST_ID, value);
    }
    name
}

/// What a worker is sent of a client's headers. A client's key for the gateway stays here.
pub(super) fn to_worker(client: &HeaderMap, own: &HeaderMap, keyed: bool) -> HeaderMap {
    let mut headers = client.clone();
    hop_by_hop(&mut headers);
    // Answers are read on their way for tokens and usage, so they must come as they are.
    headers.remove(ACCEPT_ENCODING);
    headers.remove(tickets::HEADER);
    headers.remove("x-forebay-class");
    if keyed {
        headers.remove(AUTHORIZATION);
        headers.remove("x-api-key");
    }
    for (name, value) in own {
        headers.insert(name.clone(), value.clone());
    }
    headers
}

/// Takes away from a worker's headers what is of its connection, or names its software.
pub(super) fn to_client(headers: &mut HeaderMap) {
    let length = headers.remove(CONTENT_LENGTH);
    hop_by_hop(headers);
    headers.remove(SERVER);
    headers.remove(REQUEST_ID);
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length);
    }
}

/// Asks a proxy before the gateway to pass a stream on as it comes. nginx keeps it back by default
/// where it speaks HTTP/1.0 to us, until its end; others do not know the header.
pub(super) fn unbuffered(headers: &mut HeaderMap) {
    headers.entry(X_ACCEL_BUFFERING).or_insert(HeaderValue::from_static("no"));
}

fn hop_by_hop(headers: &mut HeaderMap) {
    let lines: Vec<HeaderValue> = headers.get_all(CONNECTION).iter().cloned().collect();
    let names = lines.iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    for name in names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()) {
        headers.remove(name);
    }
    for name in &HOP {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Request};

    use super::{Head, to_client, to_worker};

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn end_to_end_headers_pass_and_those_of_the_connection_and_of_the_key_do_not() {
        let client = headers(&[
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("host", "gateway"),
            ("authorization", "Bearer secret"),
            ("accept-encoding", "gzip"),
            ("traceparent", "00-1-2-01"),
            ("x-future", "a"),
        ]);
        let own = headers(&[("authorization", "Bearer worker")]);
        let sent = to_worker(&client, &own, true);
        let kept = [("traceparent", "00-1-2-01"), ("x-future", "a")];
        assert_eq!(sent, headers(&[kept[0], kept[1], ("authorization", "Bearer worker")]));
        let sent = to_worker(&client, &HeaderMap::new(), false);
        assert_eq!(sent, headers(&[kept[0], kept[1], ("authorization", "Bearer secret")]));
    }

    #[test]
    fn a_head_comes_out_as_it_was_packed() {
        let mut request = Request::post("/v1/x?y=z&a=b");
        for value in ["Bearer a:b", "", "\t tab", "caf\u{e9}"] {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request = request.header("x-twice", value).header("authorization", "one");
        }
        let mut head = Head::of(request.body(()).unwrap().into_parts().0);
        let (path, headers) = (head.path.clone(), head.headers.clone());
        head.pack();
        assert!(head.path.is_none() && head.headers.is_empty());
        assert_eq!(head.packed.len(), head.packed.capacity());
        head.unpack();
        assert_eq!((head.path, head.headers), (path, headers));
    }

    #[test]
    fn an_answer_does_not_name_the_software_that_made_it() {
        let mut answer = headers(&[("server", "uvicorn"), ("content-length", "3"), ("x-a", "b")]);
        to_client(&mut answer);
        assert_eq!(answer, headers(&[("content-length", "3"), ("x-a", "b")]));
    }
}
