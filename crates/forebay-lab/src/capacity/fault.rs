//! Tells a target that is broken or turns us away from one that is full.
//!
//! A target that is down, or that answers every request with 401, fails at every rate. To call that
//! a capacity of nothing would be a figure about a mistake.

use std::collections::BTreeMap;

use crate::drill::criteria::Criteria;
use crate::results::{Fault, Outcome, Row, Run};

/// Why no capacity can be told of what a target did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// It served nobody, and nobody had to wait too long for it.
    #[error(
        "not one of {offered} requests was served; most often: {said}\nhint: ask it once by hand, \
         then see to its key, its model and its limits: a target that serves nobody at {per_s}/s \
         is not full, or begin far lower with --start"
    )]
    ServedNobody {
        /// The rate.
        per_s: String,
        /// Requests that were offered.
        offered: usize,
        /// What was said most often.
        said: String,
    },
    /// It has gone away.
    #[error(
        "the target went away: the last {requests} requests of a run at {per_s}/s found nobody \
         ({said})\nhint: see why it ended; what overload does to it is an answer, too, but no \
         capacity"
    )]
    Gone {
        /// The rate.
        per_s: String,
        /// Requests at the end of the run that could not be connected.
        requests: usize,
        /// What was said most often.
        said: String,
    },
    /// It turns us away by what we ask, not by how much.
    #[error(
        "{turned_away} of {offered} requests were turned away for what they are; most often: \
         {said}\nhint: see to the key, the model and the lengths of prompts, then search again"
    )]
    TurnedAway {
        /// Requests that were answered 400 to 499 but for 408 and 429.
        turned_away: usize,
        /// Requests that were offered.
        offered: usize,
        /// What was said most often.
        said: String,
    },
    /// A criterion is about a class that nobody asked for.
    #[error(
        "the criteria hold class `{0}` to something, and no request has that class\nhint: offer a \
         trace whose requests have it, or leave it out of the criteria"
    )]
    NoSuchClass(String),
}

/// Requests at the end of a run that say that the target is gone, at least: a few can fail by
/// chance while it restarts.
const GONE_MIN: usize = 10;
/// Share of the run that they are, at least.
const GONE_SHARE: f64 = 0.1;
/// Share of requests turned away for what they are, from which on the rate is not the matter.
const TURNED_AWAY_SHARE: f64 = 0.5;

/// What is wrong with the target of this run, if anything is.
pub(super) fn of(run: &Run, criteria: &Criteria, per_s: &str) -> Result<(), TargetFault> {
    let rows = &run.rows;
    let is_turned_away = |row: &&Row| {
        let status = row.last().and_then(|last| last.status);
        status.is_some_and(|it| (400..500).contains(&it) && it != 408 && it != 429)
    };
    let turned_away = rows.iter().filter(is_turned_away).count();
    let offered = rows.len();
    if turned_away as f64 > TURNED_AWAY_SHARE * offered as f64 {
        let said = most_often(rows.iter().filter(is_turned_away));
        return Err(TargetFault::TurnedAway { turned_away, offered, said });
    }
    let (per_s, is_lost) = (per_s.to_owned(), |row: &&Row| {
        row.last().is_some_and(|last| last.fault == Some(Fault::Connect))
    });
    let mut order: Vec<&Row> = rows.iter().filter(|row| !row.attempts.is_empty()).collect();
    order.sort_by_key(|row| (row.scheduled, row.request));
    let requests = order.iter().rev().take_while(|row| is_lost(row)).count();
    if requests >= GONE_MIN.max((GONE_SHARE * offered as f64) as usize) {
        let said = most_often(order.iter().rev().take(requests).copied());
        return Err(TargetFault::Gone { per_s, requests, said });
    }
    let served = |row: &Row| matches!(row.outcome, Outcome::Completed | Outcome::TimedOut);
    let is_telling = rows.iter().any(|row| !row.attempts.is_empty());
    if is_telling && !rows.iter().any(served) {
        let said = most_often(order.iter().copied());
        return Err(TargetFault::ServedNobody { per_s, offered, said });
    }
    let mut classes = criteria.list().iter().filter_map(|it| it.class.as_deref());
    let has = |class: &str| rows.iter().any(|row| row.class.as_deref() == Some(class));
    match classes.find(|class| !has(class)) {
        Some(class) if is_telling => Err(TargetFault::NoSuchClass(class.to_owned())),
        _ => Ok(()),
    }
}

/// What the target or the network said most often: `401: no such key`.
fn most_often<'r>(rows: impl Iterator<Item = &'r Row>) -> String {
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    for last in rows.filter_map(Row::last) {
        let status = last.status.map(|status| status.to_string());
        let error = last.error.as_deref().map(str::to_owned);
        let words: Vec<String> = status.into_iter().chain(error).collect();
        *said.entry(words.join(": ")).or_default() += 1;
    }
    let most = said.into_iter().max_by(|one, other| (one.1, &other.0).cmp(&(other.1, &one.0)));
    most.map(|(said, _)| said).filter(|said| !said.is_empty()).unwrap_or("nothing".to_owned())
}
