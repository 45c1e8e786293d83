//! Says when requests come and how long they are, where no trace says so.
//!
//! Two questions are kept apart. A [`Rate`] says how many are due a second, and how that changes
//! over the run; a [`Process`] says how evenly they come at that rate. So bursts can ride on a
//! ramp, and a constant rate is one thing only: with equal gaps. (Generators are known whose
//! "constant" is exponential inside; then nobody knows any more which queue comes from the load and
//! which from the server.)
//!
//! Arrivals of unit rate are drawn first and bent to the rate afterwards: the `n`-th comes when the
//! area below the rate reaches the sum of the first `n` unit gaps. For exponential gaps that is
//! Çinlar's inversion of a non-homogeneous Poisson process (Introduction to Stochastic Processes,
//! 1975, ch. 4.7), for others the inversion of a renewal process (Gerhardt and Nelson, INFORMS
//! Journal on Computing 21(4), 2009). Thinning, the usual way, was not taken: it throws draws away,
//! and means nothing for gaps that are not exponential.
//!
//! | text | means |
//! |---|---|
//! | `5` | 5 a second, for as long as the run lasts |
//! | `1..20` | from 1 a second to 20 over the run |
//! | `1..20x60` | the same over 60 seconds |
//! | `2x30,10x60,2x30` | steps: a rate, and the seconds it lasts |
//! | `1..20x60,20` | parts in any order, only the last one without an end |

mod process;
mod rate;
mod shape;
mod think;

use forebay_core::{Rng, Span};

pub use process::Process;
pub use rate::Rate;
pub use shape::{PREFIX_TOKENS_MAX, PREFIXES_MAX, Prefixes, Shape};
pub use think::Think;

use crate::trace::{Requests, TIME_MAX};

/// Why a text is no rate, process, length or time to think.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}\nhint: {remedy}")]
pub struct NotationError {
    pub(super) what: String,
    remedy: &'static str,
}

impl NotationError {
    pub(super) fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        Self { what: what.into(), remedy }
    }
}

/// The moments at which requests are due: in order, the same ones for the same seed on every
/// machine. They end with the rate's last part, where that has an end.
pub fn times(rate: Rate, process: Process, seed: u64) -> impl Iterator<Item = Span> {
    let mut gaps = process.gaps(Rng::new(seed).fork("arrivals"));
    let mut place = rate.into_place();
    let mut area = 0.0;
    let mut nth = 0.0;
    std::iter::from_fn(move || {
        match gaps.next() {
            // Counted, not summed: a sum would drift, and no gap may differ from another.
            None => area = nth,
            Some(gap) => area += gap,
        }
        nth += 1.0;
        let at = Span::secs_f64(place.when(area)?);
        (at <= TIME_MAX).then_some(at)
    })
}

/// The same requests at these moments instead of their own, and no more of them than there are
/// moments. A turn that comes a delay after the one before it keeps that delay and takes no moment,
/// since it has no time of its own.
pub fn retimed(requests: Requests, times: impl Iterator<Item = Span> + 'static) -> Requests {
    let mut times = times;
    let mut last = Span::ZERO;
    Box::new(requests.map_while(move |request| {
        let mut request = match request {
            Ok(request) => request,
            Err(error) => return Some(Err(error)),
        };
        if request.delay.is_none() {
            last = times.next()?;
        }
        request.at = last;
        Some(Ok(request))
    }))
}

#[cfg(test)]
mod tests;
