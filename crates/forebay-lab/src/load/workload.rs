//! Makes the plan of a run: which requests, when, and on whose behalf.
//!
//! Requests come from a trace, a description or drawn lengths; their moments from those, from a
//! rate, or from users. The requests are read once before the run, which finds faults while nothing
//! has been sent, and gives the plan its name.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use forebay_core::Span;
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::arrivals::{NotationError, Process, Rate, Shape, Think, retimed, times};
use super::planner::Planner;
use super::{Bodies, Planned, Pulse, Sent};
use crate::trace::synth::Description;
use crate::trace::{Notes, Requests, TraceError, TraceRequest, open_noting, speed_up};

/// Bytes of the hash that names a plan: of a million plans, two share one with a chance of 1 in
/// 30 million.
const NAME_BYTES: usize = 8;

/// What a run offers.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Which requests.
    pub what: What,
    /// When they come.
    pub when: When,
    /// At most so many of them.
    pub requests: Option<u64>,
    /// Only those that are due before this moment; with users, nobody asks from it on.
    pub lasts: Option<Span>,
    /// The first of them, that warm the target up and count nowhere.
    pub warmup: u64,
    /// The share whose client goes away before its answer has ended, 0 to 1, and after how long.
    pub leaves: Option<(f64, Think)>,
    /// How class and tenant are said to the target.
    pub names: Names,
    /// Seed of every draw.
    pub seed: u64,
}

/// Where requests come from.
#[derive(Clone, Debug)]
pub enum What {
    /// A trace, in any form that is known.
    Trace(PathBuf),
    /// A description of a synthetic trace.
    Synth(Box<Description>),
    /// Drawn lengths, without end.
    Shape(Shape),
}

/// When requests come.
#[derive(Clone, Debug)]
pub enum When {
    /// When the trace says, so many times as fast.
    Told(f64),
    /// At a rate.
    Arrivals(Rate, Process),
    /// When a user is ready.
    Users,
}

/// How class and tenant are said to the target.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The header that names the class.
    pub class: Option<HeaderName>,
    /// The header that names the tenant.
    pub tenant: Option<HeaderName>,
    /// Headers of a tenant's requests, for instance a key of its own, by its name.
    pub tenants: Vec<(String, HeaderMap)>,
}

/// Why a workload can't be offered.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The trace is at fault.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The rate does not fit the run.
    #[error(transparent)]
    Rate(#[from] NotationError),
    /// Nothing says when it ends.
    #[error("the run would never end\nhint: say how many requests or how many seconds it has")]
    Endless,
    /// There is nothing to offer.
    #[error(
        "there is nothing to offer: no request is due within the run\nhint: let it last longer"
    )]
    Nothing,
    /// A name can't be a header.
    #[error(
        "`{0}` can't be sent as a header\nhint: rename it in the trace: letters, digits, dashes"
    )]
    Name(Arc<str>),
}

/// What is known of a workload before it is offered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// How many requests it has; `None` where users make as many as they come to.
    pub requests: Option<u64>,
    /// When the last one is due; `None` where that depends on the target.
    pub last: Option<Span>,
    /// The name of the plan: a hash of all moments, lengths and prefixes.
    pub plan: Option<String>,
}

impl Workload {
    /// The requests in the order of their moments.
    fn requests(&self, notes: &Notes) -> Result<Requests, WorkloadError> {
        let told: Requests = match &self.what {
            What::Trace(file) => open_noting(file, notes)?,
            What::Synth(description) => description.requests(self.seed, self.requests),
            What::Shape(shape) => Box::new(shape.clone().requests(self.seed).map(Ok)),
        };
        let is_bounded = self.requests.is_some() || self.lasts.is_some();
        let is_endless = matches!(self.what, What::Shape(_)) && !is_bounded;
        let (timed, lasts) = match &self.when {
            When::Told(_) | When::Users if is_endless => return Err(WorkloadError::Endless),
            When::Told(factor) => (speed_up(told, *factor), self.lasts),
            When::Users => (told, None),
            When::Arrivals(rate, process) => {
                let rate = rate.clone().over(self.lasts)?;
                if is_endless && rate.lasts().is_none() {
                    return Err(WorkloadError::Endless);
                }
                (retimed(told, times(rate, *process, self.seed)), self.lasts)
            }
        };
        let within = move |request: &Result<TraceRequest, _>| match (request, lasts) {
            (Ok(request), Some(lasts)) => request.at < lasts,
            _ => true,
        };
        let most =
            self.requests.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        Ok(Box::new(timed.take_while(within).take(most)))
    }

    /// Reads all requests once. What the reader has to say goes to the notes.
    pub fn survey(&self, notes: &Notes) -> Result<Survey, WorkloadError> {
        let is_users = matches!(self.when, When::Users);
        let requests = self.requests(notes)?;
        if is_users && matches!(self.what, What::Shape(_)) && self.requests.is_none() {
            return Ok(Survey::default());
        }
        let (mut count, mut last, mut hash) = (0, Span::ZERO, Sha256::new());
        for request in requests {
            let request = request?;
            self.names.of(&request)?;
            hash.update(digestible(&request));
            last = last.max(request.at);
            count += 1;
        }
        if count == 0 {
            return Err(WorkloadError::Nothing);
        }
        if let Some((share, pause)) = self.leaves {
            hash.update(format!("leaves {share} {pause} {}", self.seed));
        }
        let name = hash.finalize().iter().take(NAME_BYTES).fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let plan = (!is_users).then_some(name);
        Ok(Survey { requests: Some(count), last: (!is_users).then_some(last), plan })
    }

    /// Counts the input tokens of the requests beside those of the prompts that are made for them,
    /// and looks whether later turns hold the ones before. Reads the requests once more.
    pub fn sent(&self, bodies: &Bodies) -> Result<Sent, WorkloadError> {
        let mut sent = Sent::default();
        for request in self.requests(&Notes::default())? {
            sent.add(&request?, bodies);
        }
        Ok(sent)
    }

    /// The plan. A trace that can no longer be read ends it, and leaves the reason in `fault`.
    pub fn plan(
        &self,
        bodies: Bodies,
        pulse: Arc<Pulse>,
        fault: &Rc<RefCell<Option<TraceError>>>,
    ) -> Result<impl Iterator<Item = Planned> + use<>, WorkloadError> {
        let (requests, fault) = (self.requests(&Notes::default())?, Rc::clone(fault));
        let (names, leaves) = (self.names.clone(), self.leaves);
        let mut planner = Planner::new(bodies, names, leaves, self.warmup, self.seed);
        let read = requests.map_while(move |request| {
            request.map_err(|error| *fault.borrow_mut() = Some(error)).ok()
        });
        Ok((0..)
            .zip(read)
            .map(move |(nth, request)| planner.planned(nth, &request, !pulse.is_stopping())))
    }
}

impl Names {
    /// The headers that say a request's names, once each is known to be one that can be sent.
    pub(crate) fn of(&self, request: &TraceRequest) -> Result<HeaderMap, WorkloadError> {
        let mut headers = HeaderMap::new();
        let named = [(&self.class, &request.class), (&self.tenant, &request.tenant)];
        for (header, name) in named {
            let (Some(header), Some(name)) = (header, name) else { continue };
            let value = HeaderValue::from_str(name);
            let value = value.map_err(|_| WorkloadError::Name(Arc::clone(name)))?;
            headers.insert(header.clone(), value);
        }
        let own = self.tenants.iter().find(|(tenant, _)| request.tenant.as_deref() == Some(tenant));
        if let Some((_, own)) = own {
            headers.extend(own.clone());
        }
        Ok(headers)
    }
}

/// A request as bytes, of which no two different ones are the same.
fn digestible(request: &TraceRequest) -> Vec<u8> {
    let TraceRequest { at, prompt, output, ids, id_tokens, session, delay, class, tenant } =
        request;
    let mut bytes = Vec::with_capacity(96 + 8 * ids.len());
    for number in [at.0, prompt.0, output.0, u64::from(*id_tokens), ids.len() as u64] {
        bytes.extend(number.to_le_bytes());
    }
    ids.iter().for_each(|id| bytes.extend(id.to_le_bytes()));
    for option in [*session, delay.map(|delay| delay.0)] {
        bytes.push(option.is_some().into());
        bytes.extend(option.unwrap_or_default().to_le_bytes());
    }
    for name in [class, tenant] {
        let name = name.as_deref();
        bytes.push(name.is_some().into());
        bytes.extend((name.map_or(0, str::len) as u64).to_le_bytes());
        bytes.extend(name.unwrap_or_default().as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    use forebay_core::Span;

    use super::{Names, Survey, What, When, Workload, WorkloadError};
    use crate::load::arrivals::{Process, Rate, Shape};
    use crate::load::{Ask, Bodies, Form, Planned};
    use crate::trace::Notes;

    fn shaped() -> Workload {
        let shape =
            Shape { prompt: "16".parse().unwrap(), output: "4".parse().unwrap(), prefixes: None };
        Workload {
            what: What::Shape(shape),
            when: When::Arrivals(Rate::constant(10.0).unwrap(), Process::Constant),
            requests: Some(20),
            lasts: None,
            warmup: 2,
            leaves: None,
            names: Names::default(),
            seed: 1,
        }
    }

    fn plan(workload: &Workload) -> Vec<Planned> {
        let bodies = Bodies::new(&Ask::new("m", Form::Completion, true));
        let plan = workload.plan(bodies, Arc::default(), &Rc::new(RefCell::new(None)));
        plan.unwrap().collect()
    }

    fn survey(workload: &Workload) -> Survey {
        workload.survey(&Notes::default()).unwrap()
    }

    #[test]
    fn the_survey_says_what_the_plan_holds() {
        let workload = shaped();
        let (survey, plan) = (survey(&workload), plan(&workload));
        assert_eq!(survey.requests, Some(20));
        assert_eq!((plan.len(), survey.last), (20, plan.last().map(|last| last.at)));
        assert_eq!(plan.iter().filter(|planned| planned.is_warmup).count(), 2);
        assert!(plan.iter().all(|planned| planned.prompt_tokens == Some(16)));
    }

    #[test]
    fn a_plan_is_named_by_what_is_offered_and_when() {
        let name = |workload: &Workload| survey(workload).plan.unwrap();
        let (one, base) = (shaped(), name(&shaped()));
        assert_eq!((name(&one), base.len()), (base.clone(), 16));
        for other in [
            Workload { requests: Some(19), ..shaped() },
            Workload { lasts: Some(Span::secs(1)), ..shaped() },
            Workload { leaves: Some((0.5, "2".parse().unwrap())), ..shaped() },
            Workload {
                when: When::Arrivals(Rate::constant(11.0).unwrap(), Process::Constant),
                ..shaped()
            },
        ] {
            assert_ne!(name(&other), base, "{other:?}");
        }
    }

    #[test]
    fn a_share_of_clients_goes_away_and_the_same_ones_each_time() {
        let workload = Workload {
            requests: Some(1_000),
            leaves: Some((0.25, "exponential:2".parse().unwrap())),
            ..shaped()
        };
        let leaves = || plan(&workload).into_iter().map(|planned| planned.leaves_after);
        let count = leaves().flatten().count();
        assert!((200..300).contains(&count), "{count}");
        assert!(leaves().eq(leaves()));
    }

    #[test]
    fn what_never_ends_or_never_begins_is_refused() {
        let endless = Workload { requests: None, ..shaped() };
        for when in [endless.when.clone(), When::Users] {
            let workload = Workload { when, ..endless.clone() };
            let refused = workload.survey(&Notes::default()).unwrap_err();
            assert!(matches!(refused, WorkloadError::Endless), "{refused}");
        }
        let nothing = Workload { lasts: Some(Span::ZERO), when: When::Told(1.0), ..shaped() };
        assert!(matches!(nothing.survey(&Notes::default()), Err(WorkloadError::Nothing)));
        let users = Workload { when: When::Users, lasts: Some(Span::secs(9)), ..endless };
        assert_eq!(survey(&users), Survey::default());
    }
}
