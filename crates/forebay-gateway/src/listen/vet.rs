//! Refuses requests that two readers could understand in two ways.
//!
//! hyper has parsed them already, and refuses most of what smuggles: differing lengths, spaces
//! before colons, folded lines, control characters, chunk sizes that overflow. Where a request has
//! both a length and chunks it goes by the chunks and closes the connection, as RFC 9112 §6.1
//! asks. What it lets through and this refuses is below; `tests/corpus.rs` pins both.

use http::header::{EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, StatusCode, Version};

use super::reply::Fault;

/// Looks at a request's head.
pub(super) fn vet<B>(request: &Request<B>) -> Result<(), Fault> {
    method(request.method())?;
    coding(request.headers())?;
    target(request)?;
    host(request)?;
    expectation(request.headers())
}

fn bad(message: &'static str) -> Fault {
    Fault { status: StatusCode::BAD_REQUEST, message }
}

/// CONNECT asks for a tunnel and TRACE for an echo of credentials: neither is for a gateway. What
/// HTTP itself does not define is nobody's here either.
fn method(method: &Method) -> Result<(), Fault> {
    match *method {
        Method::GET
        | Method::POST
        | Method::HEAD
        | Method::OPTIONS
        | Method::PUT
        | Method::DELETE
        | Method::PATCH => Ok(()),
        Method::CONNECT | Method::TRACE => Err(Fault {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "this method is not served here",
        }),
        _ => Err(Fault { status: StatusCode::NOT_IMPLEMENTED, message: "unknown method" }),
    }
}

/// hyper takes any list of codings that ends in `chunked`, and would hand on the others undone.
fn coding(headers: &HeaderMap) -> Result<(), Fault> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Fault {
            status: StatusCode::NOT_IMPLEMENTED,
            message: "no transfer-encoding but one `chunked` is understood",
        });
    }
    Ok(())
}

/// RFC 9112 §3.2: a path, or a whole URI for proxies, or `*` for OPTIONS. hyper also takes a bare
/// host, as CONNECT has it.
fn target<B>(request: &Request<B>) -> Result<(), Fault> {
    let path = request.uri().path();
    let asterisk = path == "*" && *request.method() == Method::OPTIONS;
    let web = request.uri().scheme_str().is_none_or(|scheme| matches!(scheme, "http" | "https"));
    if web && (path.starts_with('/') || asterisk) {
        return Ok(());
    }
    Err(bad("the request target is neither a path nor a web address"))
}

/// RFC 9112 §3.2: one `Host`, in HTTP/1.1 always. RFC 9113 §8.3.1 and RFC 9112 §3.2.2 say which one
/// wins where the target names another; whoever sends two that differ wants to be misunderstood.
fn host<B>(request: &Request<B>) -> Result<(), Fault> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(bad("more than one host header"));
    }
    match (host, request.uri().authority()) {
        (None, None) if request.version() == Version::HTTP_11 => Err(bad("no host header")),
        (None, None) if request.version() == Version::HTTP_2 => Err(bad("no authority")),
        (None, _) => Ok(()),
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (Some(host), Some(authority))
            if host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Ok(())
        }
        (Some(_), Some(_)) => Err(bad("the host header and the request target differ")),
        (Some(_), None) => Err(bad("the host header is not a host")),
    }
}

/// Characters of a host with or without a port, RFC 3986 §3.2. Empty is allowed: RFC 9112 §3.2 asks
/// for it where the target has no authority.
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte))
}

/// RFC 9110 §10.1.1.
fn expectation(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.get(EXPECT) {
        Some(value) if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") => Err(Fault {
            status: StatusCode::EXPECTATION_FAILED,
            message: "no expectation but `100-continue` is met",
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::vet;

    fn status(method: &str, target: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        vet(&request.body(()).unwrap()).err().map_or(200, |fault| fault.status.as_u16())
    }

    #[test]
    fn what_clients_send_passes() {
        assert_eq!(status("POST", "/v1/x?y=z", &[("host", "localhost:80")]), 200);
        assert_eq!(status("GET", "http://a.b/", &[("host", "A.b")]), 200);
        assert_eq!(status("OPTIONS", "*", &[("host", "[::1]:80")]), 200);
        assert_eq!(status("POST", "/", &[("host", ""), ("transfer-encoding", "Chunked")]), 200);
        assert_eq!(status("POST", "/", &[("host", "a"), ("expect", "100-Continue")]), 200);
    }

    #[test]
    fn what_can_be_understood_in_two_ways_is_refused() {
        assert_eq!(status("GET", "/", &[]), 400);
        assert_eq!(status("GET", "/", &[("host", "a"), ("host", "a")]), 400);
        assert_eq!(status("GET", "/", &[("host", "a/b")]), 400);
        assert_eq!(status("GET", "/", &[("host", "a@b")]), 400);
        assert_eq!(status("GET", "http://a/", &[("host", "b")]), 400);
        assert_eq!(status("GET", "ftp://a/", &[("host", "a")]), 400);
        assert_eq!(status("GET", "a:80", &[("host", "a:80")]), 400);
        assert_eq!(status("GET", "*", &[("host", "a")]), 400);
        assert_eq!(
            status("POST", "/", &[("host", "a"), ("transfer-encoding", "gzip, chunked")]),
            501
        );
        let twice =
            [("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        assert_eq!(status("POST", "/", &twice), 501);
        assert_eq!(status("POST", "/", &[("host", "a"), ("expect", "a miracle")]), 417);
        assert_eq!(status("TRACE", "/", &[("host", "a")]), 405);
        assert_eq!(status("CONNECT", "a:80", &[("host", "a:80")]), 405);
        assert_eq!(status("PROPFIND", "/", &[("host", "a")]), 501);
    }
}
