//! Sends each request when it is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::call::{self, Run};
use super::connect::Idle;
use super::record::Record;
use super::{Planned, Settings};

/// Sends a plan, in its order, and hands over the record of each request as it ends.
///
/// The next request is taken from the plan ahead of its moment, so that making its body is not lag;
/// no further one is, so that a long plan needs no memory. What is due while `in_flight_max`
/// requests are under way is not sent. The run is over when the last request is.
pub async fn run(
    plan: impl Iterator<Item = Planned>,
    settings: &Settings,
    mut each: impl FnMut(Record),
) {
    let targets = settings.targets.len();
    if targets == 0 {
        return;
    }
    let run = Arc::new(Run {
        settings: settings.clone(),
        idle: settings.targets.iter().map(|_| Idle::default()).collect(),
        start: Instant::now(),
    });
    let mut calls = JoinSet::new();
    for (nth, planned) in (0_u64..).zip(plan) {
        let due = run.start + Duration::from_nanos(planned.at.0);
        loop {
            tokio::select! {
                biased;
                () = sleep_until(due) => break,
                Some(ended) = calls.join_next() => each(joined(ended)),
            }
        }
        while let Some(ended) = calls.try_join_next() {
            each(joined(ended));
        }
        let record = Record::new(nth, (nth % targets as u64) as usize, planned.at);
        if calls.len() < settings.in_flight_max {
            calls.spawn(call::call(Arc::clone(&run), planned, record));
        } else {
            each(record);
        }
    }
    while let Some(ended) = calls.join_next().await {
        each(joined(ended));
    }
}

fn joined(ended: Result<Record, JoinError>) -> Record {
    ended.expect("a call is never aborted, and a panic in one is a bug of ours")
}
