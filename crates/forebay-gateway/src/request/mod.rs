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
use forebay_wire::openai::Endpoint;
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
    /// When it was first offered, perhaps long before, in an earlier attempt of its client.
    pub(crate) first_arrived: Moment,
    /// Whom to tell that it waits.
    pub(crate) patience: Patience,
}

/// Answers a request to one of the inference endpoints.
///
/// The future that waits is small: what is done before lies in a box that is gone by then.
pub(crate) fn serve(
    gateway: Arc<Gateway>,
    request: Request<Incoming>,
    (from, patience): (From, Patience),
) -> impl Future<Output = Response<ReplyBody>> + Send {
    let arrived = gateway.clock.now();
    let (mut head, body) = request.into_parts();
    let name = Arc::<str>::from(head::name(&mut head.headers, &gateway));
    let mut record = Record::new(arrived, Arc::clone(&name));
    let endpoint = Endpoint::from_path(head.uri.path());
    record.endpoint = endpoint;
    record.trace = Trace::begin(gateway.observe.tracer(), &head);
    let way = Box::pin(way(Arc::clone(&gateway), (head, body), (from, patience), record));
    async move {
        let response = match way.await {
            Ok(work) => work.await,
            Err(denied) => {
                let (denial, record) = *denied;
                gateway.observe.ended(&record.denied(&denial, gateway.clock.now()));
                denial.response(endpoint)
            }
        };
        named(response, &name)
    }
}

/// The way of a request to the core. A denial on it comes back with the record so far.
async fn way(
    gateway: Arc<Gateway>,
    (head, body): (Parts, Incoming),
    (from, patience): (From, Patience),
    mut record: Record,
) -> Result<Work, Box<(Denial, Record)>> {
    let rules = gateway.rules();
    let arrived = record.arrived;
    let Some(endpoint) = record.endpoint.filter(|_| head.method == Method::POST) else {
        return Err(Box::new((Denial::plain(RefusalReason::UnknownEndpoint), record)));
    };
    let identity = match authenticate::identity(&head.headers, &rules) {
        Ok(identity) => identity,
        Err(denial) => return Err(Box::new((denial, record))),
    };
    let accepted = accept::body(body, &head.headers, &rules, &gateway.held).await;
    let (body, load) = match accepted {
        Ok(accepted) => accepted,
        Err(denial) => return Err(Box::new((denial, record))),
    };
    record.body_bytes = body.len() as u64;
    let taken = Taken {
        gateway,
        rules,
        lane: from.lane,
        endpoint,
        head: Head::of(head),
        body,
        load,
        identity,
        arrived,
        first_arrived: arrived,
        patience,
    };
    let classified = match classify::classify(&taken, &mut record) {
        Ok(classified) => classified,
        Err(denial) => return Err(Box::new((denial, record))),
    };
    Ok(progress::offer(taken, classified, record))
}

fn named(mut response: Response<ReplyBody>, name: &str) -> Response<ReplyBody> {
    if let Ok(name) = HeaderValue::from_str(name) {
        response.headers_mut().insert(REQUEST_ID, name);
    }
    response
}
