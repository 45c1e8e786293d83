//! Turns requests of a trace into ones that are to be sent.

use bytes::Bytes;
use foldhash::fast::FixedState;
use forebay_core::Rng;
use hashbrown::HashMap;

use super::arrivals::Think;
use super::{Bodies, Names, Planned};
use crate::trace::TraceRequest;

/// Goes through a trace, and remembers what the next request needs of the ones before.
pub(crate) struct Planner {
    bodies: Bodies,
    names: Names,
    leaves: Option<(f64, Think)>,
    warmup: u64,
    rng: Rng,
    /// Turns of each conversation so far.
    turns: HashMap<u64, u32, FixedState>,
}

impl Planner {
    /// Names are said as `names` has it, the share of clients that `leaves` says go away after its
    /// pause, and the first `warmup` requests count nowhere.
    pub(crate) fn new(
        bodies: Bodies,
        names: Names,
        leaves: Option<(f64, Think)>,
        warmup: u64,
        seed: u64,
    ) -> Self {
        let rng = Rng::new(seed).fork("leaves");
        Self { bodies, names, leaves, warmup, rng, turns: HashMap::default() }
    }

    /// The `nth` request of the trace. What is not going to be sent needs no body.
    pub(crate) fn planned(&mut self, nth: u64, request: &TraceRequest, is_sent: bool) -> Planned {
        let turn = request.session.map_or(0, |session| {
            let turns = self.turns.entry(session).or_default();
            *turns += 1;
            *turns - 1
        });
        let leaves = self.leaves.filter(|(share, _)| self.rng.unit() < *share);
        Planned {
            at: request.at,
            body: if is_sent { self.bodies.body(nth, request) } else { Bytes::new() },
            // Every name was looked at before the run.
            headers: self.names.of(request).unwrap_or_default(),
            leaves_after: leaves.map(|(_, pause)| pause.draw(&mut self.rng)),
            is_warmup: nth < self.warmup,
            session: request.session,
            turn,
            delay: request.delay,
            class: request.class.clone(),
            tenant: request.tenant.clone(),
            prompt_tokens: Some(request.prompt.0),
            output_tokens: Some(request.output.0),
        }
    }
}
