//! Says how fast an arm would use up the budget of errors of each objective.

use super::Live;
use crate::compare::comparison::ArmFigures;
use crate::drill::criteria::{Criterion, Measure};
use crate::drill::notation::percent;
use crate::slo::{Burn, Latency, Objective, WINDOW_DAYS};

/// A sentence for each objective; without any, one for the share of good requests that the
/// criteria ask for.
pub(super) fn sentences(live: &Live<'_>, nth: usize, arm: &ArmFigures) -> Vec<String> {
    let Some(objectives) = &live.held.objectives else {
        return of_criteria(live, arm).into_iter().collect();
    };
    let of = |objective: &Objective| {
        let good = match objective.latency {
            None => arm.all.completed_share.value,
            Some((latency, ms)) => within(live, nth, latency, ms),
        }?;
        let burn = Burn::of(good, objective.target, objective.window_days);
        Some(format!(
            "{}: {} good of the offered against {}; {}",
            objective.name,
            percent(good),
            percent(objective.target),
            burn.said()
        ))
    };
    objectives.list.iter().filter_map(of).collect()
}

/// The budget that the criteria leave on the share of good or of completed requests.
fn of_criteria(live: &Live<'_>, arm: &ArmFigures) -> Option<String> {
    let least = |measure: Measure| {
        let mut all = live.held.criteria.list().iter();
        let is_it = |it: &&Criterion| it.class.is_none() && it.measure == measure;
        all.find(is_it).map(|criterion| criterion.limit)
    };
    let shares = [
        (Measure::GoodShare, "good", &arm.all.good_share),
        (Measure::CompletedShare, "completed", &arm.all.completed_share),
    ];
    shares.into_iter().find_map(|(measure, word, share)| {
        let (target, seen) = (least(measure)?, share.value?);
        let burn = Burn::of(seen, target, WINDOW_DAYS);
        Some(format!(
            "{} {word} of the offered against {}; {}",
            percent(seen),
            percent(target),
            burn.said()
        ))
    })
}

/// The share of the offered that kept within a latency; `None` where no request is known.
fn within(live: &Live<'_>, nth: usize, latency: Latency, ms: f64) -> Option<f64> {
    let (mut offered, mut good) = (0_u64, 0_u64);
    for row in live.rows(nth) {
        let seen = match latency {
            Latency::Ttft => row.ttft(),
            Latency::E2e => row.e2e(),
        };
        offered += 1;
        good += u64::from(seen.is_some_and(|seen| seen.as_millis_f64() <= ms));
    }
    (offered > 0).then(|| good as f64 / offered as f64)
}
