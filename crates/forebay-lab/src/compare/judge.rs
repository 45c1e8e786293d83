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
//!
//! What a finding shows beside the figure is what decided it: the bound above at the error that
//! GO may make and the bound below at the one that NO-GO may make, so that GO never stands beside
//! an interval that reaches beyond its limit.

use super::comparison::{Buckets, Estimate, Finding};
use super::group::{Sure, tallies};
use super::known::{Bounds, Known};
use super::say;
use crate::drill::criteria::{Criterion, Measure, Metric};
use crate::drill::measure::Statistic;
use crate::drill::notation::{counted, listed, percent};
use crate::drill::verdict::Outcome;
use crate::stats::distribution::t_quantile;
use crate::stats::share::{Share, Tally};

/// What is decided about one criterion.
enum State {
    Holds,
    Fails,
    /// With as many times these blocks as would decide it.
    Open(Option<f64>),
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
    let (outcome, reason) = verdict(&findings, sure, confidence);
    (findings, outcome, reason)
}

fn finding(sure: &Sure<'_>, criterion: &Criterion, errors: Errors) -> Finding {
    let class = criterion.class.as_deref();
    let (seen, share, state) = match criterion.measure {
        Measure::Latency(metric, Statistic::Mean) => mean(sure, criterion, metric, errors),
        Measure::Latency(metric, statistic) => quantile(sure, criterion, metric, statistic, errors),
        _ => of_share(sure, criterion, class, errors),
    };
    let (state, times) = match state {
        State::Holds => ("holds", None),
        State::Fails => ("fails", None),
        State::Open(times) => ("open", times),
    };
    let more = |whole: f64| times.map(|times| ((times - 1.0) * whole).ceil().max(1.0));
    let offered = sure.buckets(None).unwrap_or_default().iter().map(|it| it.offered).sum::<u64>();
    Finding {
        criterion: criterion.to_string(),
        is_least: criterion.at_least(),
        seen,
        share,
        state,
        blocks_more: more(sure.units.len() as f64).map(|blocks| blocks as u64),
        requests_more: more(offered as f64).map(|requests| requests as u64),
        seconds_more: sure.seconds.and_then(more),
    }
}

fn of_share(
    sure: &Sure<'_>,
    criterion: &Criterion,
    class: Option<&str>,
    errors: Errors,
) -> (Estimate, Estimate, State) {
    let mut each = sure.buckets(class).unwrap_or_default();
    if criterion.at_least() {
        each.iter_mut().for_each(|unit| *unit = unit.stayed());
    }
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
    let share = wrong.estimate(sure, errors);
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
    let (low, high) = known.beyond(criterion.limit);
    let wrong = Wrong { low, high, limit: 1.0 - q };
    let share = wrong.estimate(sure, errors);
    let state = wrong.state(sure, errors);
    let interval = known.interval(q, (errors.fails, errors.holds), sure.autocorrelation);
    // The values at which the share of those beyond would no longer decide: Woodruff's interval
    // takes the spread at the quantile and not at the limit, and may differ in what it says of it.
    let interval = interval.map(|Bounds { low, high }| match state {
        State::Holds => Bounds { low, high: high.min(criterion.limit) },
        State::Fails => Bounds { low: low.max(criterion.limit), high },
        State::Open(_) => Bounds { low: low.min(criterion.limit), high: high.max(criterion.limit) },
    });
    let interval = interval.filter(|_| q < 1.0);
    let seen = say::latency(known.offered(q), interval, &buckets);
    (seen, share, state)
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
        State::Open(waited(times))
    };
    let interval = (means.len() >= 2 && value.is_finite())
        .then(|| Bounds { low: value - away(errors.fails), high: value + away(errors.holds) });
    (say::latency(Bounds { low: value, high: value }, interval, &buckets), say::nothing(), state)
}

impl Wrong {
    fn estimate(&self, sure: &Sure<'_>, errors: Errors) -> Estimate {
        let of = |tallies: &[Tally]| Share::of(tallies, sure.autocorrelation);
        let (Some(low), Some(high)) = (of(&self.low), of(&self.high)) else {
            return say::nothing();
        };
        if low.value < high.value {
            return say::share_between(low.value, high.value);
        }
        let said = say::share(low.value, low.interval(errors.fails, errors.holds));
        // A limit of nothing is about these runs, and has no interval.
        let ends = if self.is_of_nothing() { (None, None) } else { (said.low, said.high) };
        Estimate { low: ends.0, high: ends.1, ..said }
    }

    /// Whether not one request may be on the wrong side. Rounding leaves a little of 1 − 0.9.
    const fn is_of_nothing(&self) -> bool {
        self.limit < 1e-12
    }

    fn state(&self, sure: &Sure<'_>, errors: Errors) -> State {
        let of = |tallies: &[Tally]| Share::of(tallies, sure.autocorrelation);
        let (Some(low), Some(high)) = (of(&self.low), of(&self.high)) else {
            return State::Open(None);
        };
        let limit = self.limit.max(0.0);
        if self.is_of_nothing() {
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
            State::Open(waited(times))
        }
    }
}

/// So many times these runs; `None` where nobody would wait for them.
fn waited(times: f64) -> Option<f64> {
    (times.is_finite() && times < 1e4).then_some(times)
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

fn verdict(findings: &[Finding], sure: &Sure<'_>, confidence: f64) -> (Outcome, String) {
    let with = |state: &str| -> Vec<&Finding> {
        findings.iter().filter(|finding| finding.state == state).collect()
    };
    let (fails, open) = (with("fails"), with("open"));
    let confident = percent(confidence);
    if findings.is_empty() {
        return (Outcome::Inconclusive, "there is nothing to judge".to_owned());
    }
    if !fails.is_empty() {
        let told: Vec<String> = fails
            .iter()
            .map(|finding| format!("{} is missed: {}", finding.criterion, missed(finding)))
            .collect();
        return (Outcome::NoGo, format!("{} ({confident} confidence)", listed(&told)));
    }
    if open.is_empty() {
        let held = |finding: &Finding| format!("{} holds ({})", finding.criterion, held(finding));
        let told: Vec<String> = findings.iter().map(held).collect();
        let over = counted(sure.units.len(), "block");
        return (
            Outcome::Go,
            format!("with {confident} confidence over {over}: {}", listed(&told)),
        );
    }
    let told: Vec<String> = open
        .iter()
        .map(|finding| format!("{} (seen {})", finding.criterion, undecided(finding)))
        .collect();
    let verb = if open.len() == 1 { "is" } else { "are" };
    let more = wanted(&open, sure);
    let reason = format!("{} {verb} open at {confident} confidence; {more}", listed(&told));
    (Outcome::Inconclusive, reason)
}

/// What would decide, in units that somebody can plan with.
fn wanted(open: &[&Finding], sure: &Sure<'_>) -> String {
    let requests = open.iter().map(|finding| finding.requests_more).collect::<Option<Vec<u64>>>();
    let Some(requests) = requests.and_then(|all| all.into_iter().max()) else {
        return "more requests like these would not decide it soon".to_owned();
    };
    let offered: u64 = sure.buckets(None).unwrap_or_default().iter().map(|it| it.offered).sum();
    let each = offered as f64 / sure.runs.max(1) as f64;
    let runs = (requests as f64 / each.max(1.0)).ceil() as u64;
    let seconds = open.iter().filter_map(|finding| finding.seconds_more).reduce(f64::max);
    let lasting = seconds.map_or_else(String::new, |seconds| format!(", {}", lasting(seconds)));
    let requests = if requests == 1 {
        "about 1 more request".to_owned()
    } else {
        format!("about {} more requests", about(requests))
    };
    let like = if runs == 1 {
        "1 more run like these".to_owned()
    } else {
        format!("{runs} more runs like these")
    };
    format!("{requests} would decide: {like}{lasting}")
}

/// Two digits and thousands apart: `2,900`. More would claim to know it.
fn about(count: u64) -> String {
    let mut unit = 1;
    while count / unit >= 100 {
        unit *= 10;
    }
    let text = (count.div_ceil(unit) * unit).to_string();
    let mut told = String::new();
    for (nth, digit) in text.chars().enumerate() {
        if nth > 0 && (text.len() - nth).is_multiple_of(3) {
            told.push(',');
        }
        told.push(digit);
    }
    told
}

/// `24 minutes`.
fn lasting(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 99.5 => (s, "second"),
        s if s < 99.5 * 60.0 => (s / 60.0, "minute"),
        s if s < 72.0 * 3_600.0 => (s / 3_600.0, "hour"),
        s => (s / 86_400.0, "day"),
    };
    counted(value.ceil() as usize, unit)
}

/// What was seen with the bound above it, which is the one that GO goes by.
fn held(finding: &Finding) -> String {
    bounded(finding, finding.is_least, !finding.is_least)
}

/// The same with the bound that NO-GO goes by.
fn missed(finding: &Finding) -> String {
    bounded(finding, !finding.is_least, finding.is_least)
}

/// The same with both.
fn undecided(finding: &Finding) -> String {
    bounded(finding, true, true)
}

fn bounded(finding: &Finding, least: bool, most: bool) -> String {
    let estimate = &finding.seen;
    let is_share = estimate.value.is_some_and(|value| value <= 1.0) && estimate.said.ends_with('%');
    let (Some(low), Some(high)) = (estimate.low, estimate.high) else {
        return estimate.said.clone();
    };
    let said = &estimate.said;
    let (low, high) = (percent(low), percent(high));
    match (least, most) {
        _ if !is_share || estimate.is_bounded_only => said.clone(),
        (true, true) => format!("{said}, at least {low} and at most {high}"),
        (true, false) => format!("{said}, at least {low}"),
        _ => format!("{said}, at most {high}"),
    }
}
