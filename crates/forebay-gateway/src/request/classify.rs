//! Reads what a body asks for, and says which pool, class and tenant it belongs to.

use forebay_core::{Arrival, ClassId, RefusalReason, RequestId, Tokens};
use forebay_wire::openai::{self, Endpoint, Scanned};
use http::HeaderName;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::{Record, Taken, chunk};
use crate::pool::Pool;
use crate::refuse::Denial;
use crate::rules::Rules;
use crate::tickets::{self, Fingerprint};

/// Names the conversation, for clients that say so.
const SESSION: HeaderName = HeaderName::from_static("x-session-id");

/// A request that is known for what it is.
pub(super) struct Classified {
    /// Where it is decided.
    pub(super) pool: Arc<Pool>,
    /// What the core is told of it.
    pub(super) arrival: Arrival,
    /// Whether it asked for a stream.
    pub(super) stream: bool,
    /// Bytes of its prompt, where they say something of the model's tokens.
    pub(super) text_bytes: Option<u64>,
}

/// Says what a request is.
pub(super) fn classify(taken: &mut Taken, record: &mut Record) -> Result<Classified, Denial> {
    let body = taken.body.clone();
    let scanned = openai::scan(taken.endpoint, &body).map_err(|bad| {
        let detail = format!("The body can't be read, at byte {}: {}.", bad.at, bad.what);
        Denial::because(RefusalReason::InvalidRequest, detail)
    })?;
    record.trace.asks_for(scanned.model.as_deref());
    let place = place(&taken.rules, scanned.model.as_deref())?;
    if let Some(allowed) = &taken.identity.models {
        let asked = scanned.model.as_deref().unwrap_or_default();
        if !allowed.iter().any(|model| model == asked) {
            return Err(Denial::plain(RefusalReason::Forbidden));
        }
    }
    let pool = &taken.gateway.pools[place];
    let classified = in_pool(taken, &scanned, pool);
    record.pool = Some(pool.id);
    record.class = Some(classified.arrival.class);
    record.tenant = Some(classified.arrival.tenant);
    record.stream = scanned.stream;
    record.prompt = classified.arrival.prompt;
    taken.ask_usage = scanned.ask_usage;
    Ok(classified)
}

/// The same request as another pool sees it.
pub(super) fn again(taken: &Taken, pool: &Arc<Pool>) -> Option<Classified> {
    let scanned = openai::scan(taken.endpoint, &taken.body).ok()?;
    Some(in_pool(taken, &scanned, pool))
}

/// What a returning request is recognized by.
pub(super) fn fingerprint(taken: &Taken, pool: &Pool) -> Fingerprint {
    let body = xxh3_128(&taken.body);
    Fingerprint { tenant: taken.identity.tenant, pool: pool.id.0, body }
}

/// The pool of a model.
fn place(rules: &Rules, model: Option<&str>) -> Result<usize, Denial> {
    let listed = model.and_then(|model| rules.models.get(model)).copied();
    match (listed.or(rules.sole_pool), model) {
        (Some(place), _) => Ok(place),
        (None, Some(_)) => Err(Denial::plain(RefusalReason::UnknownModel)),
        (None, None) => {
            let what = "The request names no model, and there are several.";
            Err(Denial::because(RefusalReason::InvalidRequest, what))
        }
    }
}

fn in_pool(taken: &Taken, scanned: &Scanned<'_>, pool: &Arc<Pool>) -> Classified {
    let salt = scanned.cache_salt.map_or(0, xxh3_64);
    let chunked = chunk::chunk(&scanned.prompt, &pool.ratio, pool.block_size(), salt);
    // These generate nothing, and some do not even need the cache.
    let (prompt, output_max) = match taken.endpoint {
        Endpoint::Embeddings | Endpoint::Rerank => (chunked.prompt, Some(Tokens(1))),
        Endpoint::Tokenize | Endpoint::Detokenize => (Tokens(1), Some(Tokens(1))),
        _ => {
            let each = scanned.output_max;
            (chunked.prompt, each.map(|max| Tokens(max.saturating_mul(scanned.n))))
        }
    };
    let session = taken.head.headers.get(SESSION).map(http::HeaderValue::as_bytes);
    let session = session.or(scanned.user.as_deref().map(str::as_bytes)).map(xxh3_64);
    let mut arrival = Arrival {
        request: RequestId(0),
        class: taken.identity.class.unwrap_or(ClassId(0)),
        tenant: taken.identity.tenant,
        session,
        prompt,
        output_max,
        blocks: if prompt == chunked.prompt { chunked.blocks } else { Arc::from([]) },
        ticket: None,
    };
    let shown = taken.head.headers.get(tickets::HEADER).map(http::HeaderValue::as_bytes);
    if shown.is_some() || !taken.gateway.tickets.is_empty() {
        let who = fingerprint(taken, pool);
        arrival.ticket = taken.gateway.tickets.redeem(shown, who, &taken.gateway.clock);
    }
    Classified {
        pool: Arc::clone(pool),
        arrival,
        stream: scanned.stream,
        text_bytes: scanned.prompt.tokens.is_none().then_some(chunked.bytes),
    }
}
