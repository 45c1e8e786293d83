//! Cuts one run into blocks by its schedule.
//!
//! Means over batches of one run are nearly independent once a batch is long against the memory of
//! what it measures; 10 to 30 batches serve, since more buy little and shorter ones depend on one
//! another (Schmeiser, *Operations Research* 30(3), 1982). So the shortest blocks are taken whose
//! neighbours hardly correlate, and where even the longest do, intervals are widened by what is
//! left (see [`crate::stats::share::inflation`]). Blocks hold equally many requests: a pause in the
//! arrivals is no block.

use std::collections::BTreeMap;

use super::request::Request;
use crate::stats::quantile::Pooled;

/// Numbers of blocks that are tried, the largest first.
const COUNTS: [usize; 4] = [30, 20, 15, 10];
/// Requests that a block holds at least.
const REQUESTS_MIN: usize = 10;
/// A correlation of neighbours that is no more than noise: 1.6 standard errors at 30 blocks.
const CORRELATION_MAX: f64 = 0.3;

/// Which block each request is in, and how neighbouring blocks correlate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) places: BTreeMap<u64, usize>,
    pub(super) count: usize,
}

/// Cuts a run in as many blocks as its bursts allow.
pub(super) fn cut(requests: &[Request]) -> Cut {
    let most = (requests.len() / REQUESTS_MIN).max(1);
    let counts = COUNTS.iter().copied().filter(|count| *count <= most);
    let counts: Vec<usize> = if most < 10 { vec![most] } else { counts.collect() };
    let free = counts.iter().copied().find(|&count| {
        let blocks = into(requests, &into_equal(requests, count));
        autocorrelation(&blocks).is_some_and(|r| r <= CORRELATION_MAX)
    });
    into_equal(requests, free.unwrap_or(counts[counts.len() - 1]))
}

/// Cuts a run into this many blocks of equally many requests, in the order of their schedule.
pub(super) fn into_equal(requests: &[Request], count: usize) -> Cut {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by_key(|request| (request.scheduled, request.place));
    let place = |nth: usize| nth * count / order.len().max(1);
    let places = order.iter().enumerate().map(|(nth, request)| (request.place, place(nth)));
    Cut { places: places.collect(), count }
}

/// The requests of a run by block; those that the cut does not know are left out.
pub(super) fn into(requests: &[Request], cut: &Cut) -> Vec<Vec<Request>> {
    let mut blocks = vec![Vec::new(); cut.count];
    for request in requests {
        if let Some(place) = cut.places.get(&request.place) {
            blocks[*place].push(request.clone());
        }
    }
    blocks
}

/// How blocks correlate with the next: of the share that was not served, or of the median TTFT of
/// all offered by rank, whichever is larger. `None` with fewer than five.
pub(super) fn autocorrelation(blocks: &[Vec<Request>]) -> Option<f64> {
    let unserved = blocks.iter().map(|block| {
        let lost = block.iter().filter(|request| request.ttft.is_infinite()).count();
        lost as f64 / block.len().max(1) as f64
    });
    let medians: Vec<f64> = blocks
        .iter()
        .map(|block| {
            let values: Vec<f64> = block.iter().map(|request| request.ttft).collect();
            Pooled::of(&[values]).quantile(0.5).unwrap_or(f64::INFINITY)
        })
        .collect();
    let unserved = lag_one(&unserved.collect::<Vec<f64>>())?;
    Some(unserved.max(lag_one(&ranks(&medians))?))
}

/// The correlation of values with the next, of a first-order autoregression with an unknown mean:
/// 0 where all are alike, `None` with fewer than five. What a few values show is too low by about
/// (1 + 4ρ) / n (Kendall, *Biometrika* 41(3–4), 1954), which is put right here: ten blocks that
/// seem not to correlate may well do so by a sixth.
pub(super) fn lag_one(values: &[f64]) -> Option<f64> {
    if values.len() < 5 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let whole: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let steps: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let seen = steps / whole;
    Some(if whole > 0.0 { ((count * seen + 1.0) / (count - 4.0)).clamp(-1.0, 1.0) } else { 0.0 })
}

/// The place of each value among all, the mean one for ties.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let tied = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        below as f64 + tied as f64 / 2.0
    };
    values.iter().map(rank).collect()
}
