//! Listens to the cores of a run and checks that they keep every request safe.
//!
//! It keeps books of its own, from nothing but what the cores are told and say, and a second core
//! beside each, which is told the same: it must say the same, and once all has ended, its accounts
//! are those of the first.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use forebay_core::{
    Core, Input, Moment, Observation, Outcome, Output, PoolId, RequestId, Settings, Tokens,
    WorkerId,
};
use hashbrown::HashMap;

use crate::simulate::Tap;

/// The state of all cores of a run, as far as they were heard.
#[derive(Debug, Default)]
pub(super) struct Witness {
    pools: Vec<Watched>,
    /// What was wrong first: what follows from it says nothing more.
    broken: Option<String>,
}

#[derive(Debug)]
struct Watched {
    twin: Core,
    requests: HashMap<RequestId, Place, FixedState>,
    /// Workers that take something new, and those that don't.
    workers: BTreeMap<WorkerId, bool>,
    /// The request whose client went last, while its worker has not been told.
    leaving: Option<RequestId>,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    On(WorkerId),
    /// Its client went while it ran: its worker must be told.
    Leaving(WorkerId),
}

impl Witness {
    /// What was wrong, now that everything has ended; `None` when nothing was.
    pub(super) fn verdict(mut self) -> Option<String> {
        for pool in 0..self.pools.len() {
            let watched = &self.pools[pool];
            let left = watched.requests.len();
            let twin = &watched.twin;
            let accounts =
                (left, twin.queue_len(), twin.flights_len(), twin.committed() == Tokens::ZERO);
            if accounts != (0, 0, 0, true) {
                let (queue_len, flights_len) = (accounts.1, accounts.2);
                let committed = twin.committed();
                self.say(format!(
                    "once all had ended, pool {pool} still had {left} requests, {queue_len} in the \
                     queue, {flights_len} on workers and {committed} committed"
                ));
            }
        }
        self.broken
    }

    fn say(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

impl Tap for Witness {
    fn begins(&mut self, _pool: PoolId, settings: &Settings, seed: u64) {
        self.pools.push(Watched {
            twin: Core::new(settings.clone(), seed),
            requests: HashMap::with_hasher(FixedState::default()),
            workers: BTreeMap::new(),
            leaving: None,
        });
    }

    fn told(&mut self, pool: PoolId, now: Moment, input: &Input) {
        let watched = &mut self.pools[usize::from(pool.0)];
        let what = watched.told(input);
        watched.twin.handle(now, input.clone());
        if let Some(what) = what {
            self.say(what);
        }
    }

    fn said(&mut self, pool: PoolId, now: Moment, output: &Output) {
        let watched = &mut self.pools[usize::from(pool.0)];
        let what = watched.said(output);
        let twin = watched.twin.poll();
        if let Some(what) = what {
            self.say(what);
        }
        if twin != *output {
            let at = now.since(Moment::START);
            self.say(format!(
                "at {at} a second core said {twin:?} where the first said {output:?}"
            ));
        }
    }
}

impl Watched {
    /// Notes an input; what is said back is wrong with the driver.
    fn told(&mut self, input: &Input) -> Option<String> {
        match input {
            Input::Arrived(arrival) => {
                let before = self.requests.insert(arrival.request, Place::Waiting);
                before.map(|_| format!("{} arrived twice", arrival.request))
            }
            Input::Finished(request, outcome) => {
                match outcome {
                    Outcome::Backpressure | Outcome::Broke | Outcome::BrokeMidStream => {
                        self.requests.insert(*request, Place::Waiting);
                    }
                    Outcome::Completed { .. } | Outcome::ClientFault => {
                        self.requests.remove(request);
                    }
                }
                None
            }
            Input::Abandoned(request) => {
                match self.requests.get(request).copied() {
                    Some(Place::On(worker)) => {
                        self.requests.insert(*request, Place::Leaving(worker));
                        self.leaving = Some(*request);
                    }
                    _ => {
                        self.requests.remove(request);
                    }
                }
                None
            }
            Input::Observed(worker, what) => {
                self.observed(*worker, what);
                None
            }
            _ => None,
        }
    }

    fn observed(&mut self, worker: WorkerId, what: &Observation) {
        match what {
            Observation::Joined(_) => {
                self.lost(worker);
                self.workers.insert(worker, true);
            }
            Observation::Left => {
                self.lost(worker);
                self.workers.remove(&worker);
            }
            Observation::Lost => {
                self.lost(worker);
                self.workers.insert(worker, false);
            }
            Observation::Draining(yes) => {
                self.workers.insert(worker, !yes);
            }
            Observation::Healthy(yes) => {
                self.workers.entry(worker).and_modify(|takes| *takes = *yes);
            }
            _ => {}
        }
    }

    /// All that ran there waits for a decision again, or is gone with its client.
    fn lost(&mut self, worker: WorkerId) {
        self.requests.retain(|_, place| *place != Place::Leaving(worker));
        for place in self.requests.values_mut() {
            if *place == Place::On(worker) {
                *place = Place::Waiting;
            }
        }
    }

    /// Notes an output; what is said back is wrong with the core.
    fn said(&mut self, output: &Output) -> Option<String> {
        match output {
            Output::Dispatch(request, worker, _) => {
                let place = self.requests.insert(*request, Place::On(*worker));
                if place != Some(Place::Waiting) {
                    return Some(format!("{request} was sent to {worker}, but it was {place:?}"));
                }
                (self.workers.get(worker) != Some(&true))
                    .then(|| format!("{request} was sent to {worker}, which takes nothing new"))
            }
            Output::Spill(request, ..) | Output::Refuse(request, _) => {
                let place = self.requests.remove(request);
                (place != Some(Place::Waiting))
                    .then(|| format!("{request} was given up, but it was {place:?}"))
            }
            Output::Cancel(request, worker) => {
                let place = self.requests.remove(request);
                (place != Some(Place::Leaving(*worker)))
                    .then(|| format!("{request} was cancelled on {worker}, but it was {place:?}"))
            }
            Output::Sleep(_) => {
                let leaving = self.leaving.take()?;
                matches!(self.requests.get(&leaving), Some(Place::Leaving(_)))
                    .then(|| format!("nobody told the worker of {leaving} to stop"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{ClassId, Input, Moment, Output, PoolId, Refusal, RefusalReason, RequestId};
    use forebay_core::{Span, WorkerId};
    use forebay_service::{Door, Service};

    use super::Witness;
    use crate::simulate::Tap;

    fn witness() -> Witness {
        let door = Door {
            mode: "hold".parse().unwrap(),
            knowledge: forebay_core::Knowledge::Own,
            block_size: 16,
            expected_output: None,
        };
        let mut witness = Witness::default();
        witness.begins(PoolId(0), &Service::single().settings(PoolId(0), door), 1);
        witness
    }

    #[test]
    fn a_refusal_of_a_request_that_never_came_is_noticed() {
        let mut witness = witness();
        let refusal = Refusal {
            reason: RefusalReason::Shed,
            class: ClassId(0),
            retry_after: None,
            predicted_wait: None,
            waited: Span::ZERO,
            limit: 0,
            sustained: false,
        };
        witness.said(PoolId(0), Moment(1), &Output::Refuse(RequestId(4), refusal));
        let broken = witness.verdict().unwrap();
        assert_eq!(broken, "request 4 was given up, but it was None");
    }

    #[test]
    fn a_core_that_says_something_else_than_its_twin_is_noticed() {
        let mut witness = witness();
        witness.told(PoolId(0), Moment(1), &Input::Elapsed);
        let wrong = Output::Cancel(RequestId(4), WorkerId(0));
        witness.broken = None;
        witness.said(PoolId(0), Moment(1), &wrong);
        assert!(witness.verdict().unwrap().contains("cancelled on worker 0"));
    }

    #[test]
    fn a_request_that_is_left_behind_is_noticed() {
        let mut witness = witness();
        let arrival = forebay_core::Arrival {
            request: RequestId(4),
            class: ClassId(0),
            tenant: forebay_core::TenantId(0),
            session: None,
            prompt: forebay_core::Tokens(10),
            output_max: None,
            blocks: [].into(),
            ticket: None,
        };
        witness.told(PoolId(0), Moment(1), &Input::Arrived(arrival));
        let broken = witness.verdict().unwrap();
        assert!(broken.contains("still had 1 requests, 1 in the queue"), "{broken}");
    }
}
