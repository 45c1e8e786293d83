//! Holds an arm to its criteria: GO, NO-GO or INCONCLUSIVE.
//!
//! A quantile holds exactly when few enough of all offered are beyond the limit: p99 ≤ 60 s says
//! that at most 1 % are later, or never served. So every criterion but a mean and a maximum is a
//! share, and shares have honest intervals, for few blocks, for bursts, and for what is never
//! served.
//!
//! GO: every criterion holds with the confidence asked for, each for itself (Berger,
//! *Technometrics* 24(4), 1982: all of several claims at once need no correction). NO-GO: one fails
//! with that confidence, shared out among all criteria (Bonferroni), since any of them would do.
//!
//! A limit of nothing at all — refused ≤ 0 %, completed ≥ 100 %, a maximum — is about these runs,
//! since no number of runs shows that something never happens.

use super::comparison::{Buckets, Estimate, Finding};
use super::group::{Sure, tallies};
use super::known::{Bounds, Known};
use super::say;
use crate::drill::criteria::{Criterion, Measure, Metric};
use crate::drill::measure::Statistic;
use crate::drill::notation::{listed, percent};
use crate::drill::verdict::Outcome;
use crate::stats::distribution::t_quantile;
use crate::stats::share::{Share, Tally};

/// What is decided about one criterion.
enum State {
    Holds,
    Fails,
    Open(Option<u64>),
}

/// A criterion that is a share of requests on the wrong side: at least and at most by unit, and how
/// many may be.
struct Wrong {
    low: Vec<Tally>,
    high: Vec<Tally>,
    limit: f64,
}

/// The error that a verdict may make.
#[derive(Clone, Copy)]
struct Errors {
    holds: f64,
    fails: f64,
}

/// How each criterion fares, and what follows.
pub(super) fn judge(
    sure: &Sure<'_>,
    criteria: &[Criterion],
    confidence: f64,
) -> (Vec<Finding>, Outcome, String) {
    let alpha = 1.0 - confidence;
    let errors = Errors { holds: alpha, fails: alpha / criteria.len().max(1) as f64 };
    let findings: Vec<Finding> =
        criteria.iter().map(|criterion| finding(sure, criterion, errors)).collect();
    let (outcome, reason) = verdict(&findings, sure.units.len(), confidence);
    (findings, outcome, reason)
}

fn finding(sure: &Sure<'_>, criterion: &Criterion, errors: Errors) -> Finding {
    let class = criterion.class.as_deref();
    let (seen, share, state) = match criterion.measure {
        Measure::Latency(metric, Statistic::Mean) => mean(sure, criterion, metric, errors),
        Measure::Latency(metric, statistic) => quantile(sure, criterion, metric, statistic, errors),
        _ => of_share(sure, criterion, class, errors),
    };
    let (state, blocks_more) = match state {
        State::Holds => ("holds", None),
        State::Fails => ("fails", None),
        State::Open(more) => ("open", more),
    };
    Finding { criterion: criterion.to_string(), seen, share, state, blocks_more }
}

fn of_share(
    sure: &Sure<'_>,
    criterion: &Criterion,
    class: Option<&str>,
    errors: Errors,
) -> (Estimate, Estimate, State) {
    let each = sure.buckets(class).unwrap_or_default();
    let limit = if criterion.at_least() { 1.0 - criterion.limit } else { criterion.limit };
    let count: fn(&Buckets) -> u64 = match criterion.measure {
        Measure::CompletedShare => |unit| unit.offered - unit.completed,
        Measure::GoodShare => |unit| unit.offered - unit.good.unwrap_or(unit.completed),
        Measure::FailedShare => |unit| unit.failed + unit.timed_out,
        _ => |unit| unit.refused,
    };
    let low = tallies(&each, count);
    let good_unknown = each.iter().any(|unit| unit.good.is_none());
    let high = if good_unknown && criterion.measure == Measure::GoodShare {
        tallies(&each, |unit| unit.offered)
    } else {
        low.clone()
    };
    let wrong = Wrong { low, high, limit };
    let share = wrong.estimate(sure);
    let seen = if criterion.at_least() { mirrored(&share) } else { share.clone() };
    let state = wrong.state(sure, errors);
    (seen, share, state)
}

fn quantile(
    sure: &Sure<'_>,
    criterion: &Criterion,
    metric: Metric,
    statistic: Statistic,
    errors: Errors,
) -> (Estimate, Estimate, State) {
    let class = criterion.class.as_deref();
    let Some(known) = Known::of(sure.units, metric, class) else {
        return (say::nothing(), say::nothing(), State::Open(None));
    };
    let q = match statistic {
        Statistic::P50 => 0.5,
        Statistic::P75 => 0.75,
        Statistic::P90 => 0.9,
        Statistic::P99 => 0.99,
        Statistic::Mean | Statistic::Max => 1.0,
    };
    let buckets = sure.buckets(class).unwrap_or_default();
    let buckets = buckets.iter().fold(Buckets::none(), |sum, unit| sum.and(*unit));
    let interval = known.interval(q, sure.error, sure.autocorrelation);
    let seen = say::latency(known.offered(q), interval, &buckets);
    let (low, high) = known.beyond(criterion.limit);
    let wrong = Wrong { low, high, limit: 1.0 - q };
    let share = wrong.estimate(sure);
    (seen, share, wrong.state(sure, errors))
}

/// The mean over all offered: infinite as soon as one is not served, and that is a fact.
fn mean(
    sure: &Sure<'_>,
    criterion: &Criterion,
    metric: Metric,
    errors: Errors,
) -> (Estimate, Estimate, State) {
    let class = criterion.class.as_deref();
    let Some(known) = Known::of(sure.units, metric, class) else {
        return (say::nothing(), say::nothing(), State::Open(None));
    };
    let buckets = sure.buckets(class).unwrap_or_default();
    let buckets = buckets.iter().fold(Buckets::none(), |sum, unit| sum.and(*unit));
    let means = known.means();
    let count = means.len() as f64;
    let value = means.iter().sum::<f64>() / count;
    let spread: f64 = means.iter().map(|mean| (mean - value).powi(2)).sum();
    let error = (spread / (count - 1.0) / count).sqrt();
    let away = |alpha: f64| t_quantile(1.0 - alpha, count - 1.0) * error;
    let state = if value.is_infinite() {
        State::Fails
    } else if means.len() < 2 {
        State::Open(None)
    } else if value + away(errors.holds) <= criterion.limit {
        State::Holds
    } else if value - away(errors.fails) > criterion.limit {
        State::Fails
    } else {
        let times = (away(errors.holds) / (value - criterion.limit)).powi(2);
        State::Open(more(times, means.len()))
    };
    let interval = (means.len() >= 2 && value.is_finite())
        .then(|| Bounds { low: value - away(sure.error), high: value + away(sure.error) });
    (say::latency(Bounds { low: value, high: value }, interval, &buckets), say::nothing(), state)
}

impl Wrong {
    fn estimate(&self, sure: &Sure<'_>) -> Estimate {
        let of = |tallies: &[Tally]| Share::of(tallies, sure.autocorrelation);
        let (Some(low), Some(high)) = (of(&self.low), of(&self.high)) else {
            return say::nothing();
        };
        if low.value < high.value {
            return say::share_between(low.value, high.value);
        }
        say::share(low.value, low.interval(sure.error, sure.error))
    }

    fn state(&self, sure: &Sure<'_>, errors: Errors) -> State {
        let of = |tallies: &[Tally]| Share::of(tallies, sure.autocorrelation);
        let (Some(low), Some(high)) = (of(&self.low), of(&self.high)) else {
            return State::Open(None);
        };
        // Rounding leaves a little of 1 − 0.9.
        let limit = self.limit.max(0.0);
        if limit < 1e-12 {
            return match () {
                () if low.value > 0.0 => State::Fails,
                () if high.value > 0.0 => State::Open(None),
                () => State::Holds,
            };
        }
        if high.interval(errors.holds, errors.holds).1 <= limit {
            State::Holds
        } else if low.interval(errors.fails, errors.fails).0 > limit {
            State::Fails
        } else if (low.value - high.value).abs() > f64::EPSILON {
            // What a summary does not say, more summaries do not say either.
            State::Open(None)
        } else {
            let error = if low.value < limit { errors.holds } else { errors.fails };
            let times = low.times_to_decide(limit, error).unwrap_or(f64::INFINITY);
            State::Open(more(times, self.low.len()))
        }
    }
}

/// Blocks that are missing to so many times these; `None` where nobody would wait for them.
fn more(times: f64, blocks: usize) -> Option<u64> {
    let missing = (times * blocks as f64).ceil() - blocks as f64;
    (missing.is_finite() && missing < 1e5).then(|| (missing as u64).max(1))
}

/// The share of the rest.
fn mirrored(share: &Estimate) -> Estimate {
    let rest = |end: Option<f64>| end.map(|end| 1.0 - end);
    let said = match (share.value, share.low, share.high) {
        (Some(value), ..) => percent(1.0 - value),
        (None, Some(low), Some(high)) => {
            format!("{} to {}", percent(1.0 - high), percent(1.0 - low))
        }
        _ => share.said.clone(),
    };
    Estimate {
        value: rest(share.value),
        low: rest(share.high),
        high: rest(share.low),
        is_bounded_only: share.is_bounded_only,
        said,
    }
}

fn verdict(findings: &[Finding], blocks: usize, confidence: f64) -> (Outcome, String) {
    let with = |state: &str| -> Vec<&Finding> {
        findings.iter().filter(|finding| finding.state == state).collect()
    };
    let (fails, open) = (with("fails"), with("open"));
    let sure = percent(confidence);
    if findings.is_empty() {
        return (Outcome::Inconclusive, "there is nothing to judge".to_owned());
    }
    if !fails.is_empty() {
        let told: Vec<String> = fails.iter().map(|finding| failed(finding)).collect();
        return (Outcome::NoGo, listed(&told));
    }
    if open.is_empty() {
        let told: Vec<String> = findings.iter().map(held).collect();
        let over = crate::drill::notation::counted(blocks, "block");
        return (Outcome::Go, format!("with {sure} confidence over {over}: {}", listed(&told)));
    }
    let told: Vec<String> = open
        .iter()
        .map(|finding| format!("{} (seen {})", finding.criterion, with_interval(&finding.seen)))
        .collect();
    let verb = if open.len() == 1 { "is" } else { "are" };
    let more = open.iter().map(|finding| finding.blocks_more).collect::<Option<Vec<u64>>>();
    let more = match more.and_then(|more| more.into_iter().max()) {
        Some(1) => "about 1 more block like these would decide".to_owned(),
        Some(more) => format!("about {more} more blocks like these would decide"),
        None => "more blocks like these would not decide it soon".to_owned(),
    };
    let reason = format!("{} {verb} open at {sure} confidence; {more}", listed(&told));
    (Outcome::Inconclusive, reason)
}

/// `refused 14.3 % (7.4 % to 26 %) where ≤ 1 % is asked`.
fn failed(finding: &Finding) -> String {
    format!("{} is missed: {}", finding.criterion, with_interval(&finding.seen))
}

fn held(finding: &Finding) -> String {
    format!("{} holds ({})", finding.criterion, with_interval(&finding.seen))
}

fn with_interval(estimate: &Estimate) -> String {
    let is_share = estimate.value.is_some_and(|value| value <= 1.0) && estimate.said.ends_with('%');
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) if is_share && !estimate.is_bounded_only => {
            format!("{}, interval {} to {}", estimate.said, percent(low), percent(high))
        }
        _ => estimate.said.clone(),
    }
}
