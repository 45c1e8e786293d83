//! Takes one request from its first header to the last byte of its answer.
//!
//! The files are the way of a request, in the order of the alphabet and, but for one, of time: who
//! asks is known before a body is accepted.
//!
//! | module | answers |
//! |---|---|
//! | `accept` | what does the client want, and is its body within bounds? |
//! | `authenticate` | who asks? |
//! | `chunk` | how long is the prompt, and which prefix hashes has it? |
//! | `classify` | which pool, class and tenant is it for? |
//! | `decide` | what does the core say, and how often may it be asked again? |
//! | `relay` | what does the worker answer, and how does it reach the client? |
//! | `settle` | how did it end, and who must hear of it? |
//!
//! Beside them stand `body`, the answer's body as the connection polls it, and `head`, which
//! headers pass.

mod accept;
mod authenticate;
mod body;
mod chunk;
mod classify;
mod decide;
mod head;
mod progress;
mod relay;
mod settle;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_core::{Moment, RefusalReason};
use forebay_wire::openai::{Endpoint, Splice};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;

use crate::gateway::{Gateway, Load};
use crate::listen::Patience;
use crate::otel::Trace;
use crate::refuse::Denial;
use crate::rules::{Identity, Rules};
pub(crate) use authenticate::holder;
pub(crate) use body::ReplyBody;
pub(crate) use decide::Retries;
use head::Head;
use progress::Work;
use settle::Visitor;
pub(crate) use settle::{Account, Ending, Record};

/// Carries a request's name, both ways.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The lane that its connection lives on.
    pub(crate) lane: usize,
}

/// A request whose body is here and whose sender is known.
pub(crate) struct Taken {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) lane: usize,
    pub(crate) endpoint: Endpoint,
    pub(crate) head: Head,
    pub(crate) body: bytes::Bytes,
    /// The body's bytes on the account of all bodies, until the request is over.
    pub(crate) load: Load,
    pub(crate) identity: Identity,
    pub(crate) arrived: Moment,
    /// The change to its body that makes a worker tell the usage of its stream, where its client
    /// does not ask for it.
    pub(crate) ask_usage: Option<Splice>,
    /// When it was first offered, perhaps long before, in an earlier attempt of its client.
    pub(crate) first_arrived: Moment,
    /// Whom to tell that it waits.
    pub(crate) patience: Patience,
}

/// Answers a request to one of the inference endpoints.
///
/// The future that waits is small: what is done before lies in a box that is gone by then.
pub(crate) fn serve(
    gateway: &Arc<Gateway>,
    request: Request<Incoming>,
    (from, patience): (From, Patience),
) -> impl Future<Output = Response<ReplyBody>> + Send + use<> {
    let (mut head, body) = request.into_parts();
    let endpoint = Endpoint::from_path(head.uri.path());
    let mut visitor = Visitor::new(gateway, &mut head, endpoint);
    visitor.record.trace = Trace::begin(gateway.observe.tracer(), &head);
    let name = Arc::clone(&visitor.name);
    let way = Box::pin(way((head, body), (from, patience), visitor));
    async move {
        let response = match way.await {
            Ok(work) => work.await,
            Err(denied) => {
                let (denial, visitor) = *denied;
                visitor.deny(&denial)
            }
        };
        named(response, &name)
    }
}

/// Answers a request that is for none of the inference endpoints with a denial, and counts it
/// among those that no pool ever saw.
pub(crate) fn deny(
    gateway: &Arc<Gateway>,
    mut head: Parts,
    denial: &Denial,
) -> Response<ReplyBody> {
    let visitor = Visitor::new(gateway, &mut head, None);
    let name = Arc::clone(&visitor.name);
    named(visitor.deny(denial), &name)
}

/// The way of a request to the core. A denial on it comes back with whom it is for.
async fn way(
    request: (Parts, Incoming),
    from: (From, Patience),
    mut visitor: Visitor,
) -> Result<Work, Box<(Denial, Visitor)>> {
    match offered(request, from, &mut visitor).await {
        Ok(work) => Ok(work),
        Err(denial) => Err(Box::new((denial, visitor))),
    }
}

async fn offered(
    (head, body): (Parts, Incoming),
    (from, patience): (From, Patience),
    visitor: &mut Visitor,
) -> Result<Work, Denial> {
    let gateway = Arc::clone(&visitor.gateway);
    let rules = gateway.rules();
    let endpoint = visitor.record.endpoint.filter(|_| head.method == Method::POST);
    let endpoint = endpoint.ok_or_else(|| Denial::plain(RefusalReason::UnknownEndpoint))?;
    let identity = authenticate::identity(&head.headers, &rules)?;
    let (body, load) = accept::body(body, &head.headers, &rules, &gateway.held).await?;
    let arrived = visitor.record.arrived;
    visitor.record.body_bytes = body.len() as u64;
    let mut taken = Taken {
        gateway,
        rules,
        lane: from.lane,
        endpoint,
        head: Head::of(head),
        body,
        load,
        identity,
        arrived,
        ask_usage: None,
        first_arrived: arrived,
        patience,
    };
    let classified = classify::classify(&mut taken, &mut visitor.record)?;
    Ok(progress::offer(taken, classified, visitor.seated()))
}

fn named(mut response: Response<ReplyBody>, name: &str) -> Response<ReplyBody> {
    if let Ok(name) = HeaderValue::from_str(name) {
        response.headers_mut().insert(REQUEST_ID, name);
    }
    response
}
