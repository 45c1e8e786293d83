//! Draws the requests of a run: each stream by itself, then all in the order of their times.

use std::sync::Arc;

use forebay_core::{Rng, Span, Tokens, mixed};

use super::{Rate, Scenario, Shape, Stream};
use crate::trace::{TraceError, TraceRequest};

/// Tokens that one id of a plain stream stands for: the smallest block that engines use.
const ID_TOKENS: u32 = 16;

/// How a stream's rate becomes requests a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// What the fleet can do, in requests a second.
    pub(super) capacity: f64,
    /// The factor on every load of this run.
    pub(super) load: f64,
}

impl Pace {
    /// Requests a second.
    pub(super) fn of(self, rate: Rate) -> f64 {
        match rate {
            Rate::Load(load) => load * self.load * self.capacity,
            Rate::PerS(per_s) => per_s * self.load,
        }
    }
}

/// Every stream's requests, as they come.
pub(super) fn drawn(
    scenario: &Scenario,
    seed: u64,
    pace: Pace,
) -> Result<Vec<TraceRequest>, TraceError> {
    let mut all = Vec::new();
    for (nth, stream) in scenario.streams.iter().enumerate() {
        let rng = Rng::new(seed).fork(&format!("stream {nth}"));
        let mut requests = shaped(stream, nth as u64, rng)?;
        let per_s = pace.of(stream.rate);
        // Whatever the shape's own rate was, its requests now come at the stream's.
        let natural = natural_per_s(&requests);
        for request in &mut requests {
            request.at = stream.from + request.at.scaled(natural / per_s);
        }
        all.append(&mut requests);
    }
    all.sort_by_key(|request| request.at);
    Ok(all)
}

/// Every stream's requests at once, mixed evenly: what shows how fast the fleet can be.
pub(super) fn at_once(scenario: &Scenario, seed: u64) -> Result<Vec<TraceRequest>, TraceError> {
    let mut all = Vec::new();
    for (nth, stream) in scenario.streams.iter().enumerate() {
        let rng = Rng::new(seed).fork(&format!("stream {nth}"));
        let requests = shaped(stream, nth as u64, rng)?;
        let count = requests.len() as f64;
        all.extend(requests.into_iter().enumerate().map(|(place, request)| {
            let order = (place as f64 + 0.5) / count;
            (order, TraceRequest { at: Span::ZERO, class: None, tenant: None, ..request })
        }));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    Ok(all.into_iter().map(|(_, request)| request).collect())
}

fn natural_per_s(requests: &[TraceRequest]) -> f64 {
    let last = requests.iter().map(|request| request.at).max().unwrap_or(Span::ZERO);
    let span_s = last.as_secs_f64();
    if span_s > 0.0 { requests.len() as f64 / span_s } else { 1.0 }
}

fn shaped(stream: &Stream, nth: u64, rng: Rng) -> Result<Vec<TraceRequest>, TraceError> {
    let mut requests = match &stream.shape {
        Shape::Synth(description) => {
            let seed = rng.clone().next_u64();
            description.requests(seed, Some(stream.requests)).collect::<Result<Vec<_>, _>>()?
        }
        Shape::Plain { .. } => plain(stream, rng),
    };
    // Equal ids mean equal prefixes, and streams have none in common.
    let salt = mixed(nth + 1);
    for request in &mut requests {
        request.ids = request.ids.iter().map(|id| mixed(id ^ salt)).collect();
        request.session = request.session.map(|session| mixed(session ^ salt));
        if let Some(class) = &stream.class {
            request.class = Some(Arc::from(class.as_str()));
        }
        if let Some(tenant) = &stream.tenant {
            request.tenant = Some(Arc::from(tenant.as_str()));
        }
    }
    Ok(requests)
}

/// Requests of evenly drawn lengths, one a second on average, at random.
fn plain(stream: &Stream, mut rng: Rng) -> Vec<TraceRequest> {
    let Shape::Plain { prompt, output, prefix_tokens, prefixes } = stream.shape else {
        return Vec::new();
    };
    let mut at_s = 0.0;
    let requests = (0..stream.requests).map(|place| {
        at_s -= (1.0 - rng.unit()).ln();
        let prompt = between(prompt, &mut rng);
        let output = between(output, &mut rng);
        let prefix = rng.below(prefixes);
        let ids = (0..prompt.div_ceil(u64::from(ID_TOKENS))).map(|id| {
            let is_shared = (id + 1) * u64::from(ID_TOKENS) <= prefix_tokens;
            // Shared ids are those of the prefix, all others the request's own.
            let owner = if is_shared { mixed(prefix) } else { mixed(mixed(place + 1)) };
            mixed(owner ^ id)
        });
        TraceRequest {
            at: Span::secs_f64(at_s),
            prompt: Tokens(prompt),
            output: Tokens(output),
            ids: ids.collect(),
            id_tokens: ID_TOKENS,
            session: None,
            delay: None,
            class: None,
            tenant: None,
        }
    });
    requests.collect()
}

fn between((least, most): (u64, u64), rng: &mut Rng) -> u64 {
    least + rng.below(most - least + 1)
}
