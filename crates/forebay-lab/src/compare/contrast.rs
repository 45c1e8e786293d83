//! Holds one arm against the baseline: over all offered, blocks drawn anew.

use forebay_core::Rng;

use super::comparison::{Buckets, Contrast, Difference, Estimate, Group};
use super::group::METRICS;
use super::known::Known;
use super::request::Unit;
use super::{Options, say};
use crate::stats::bootstrap::{self, Plan};
use crate::stats::multiple::holm;
use crate::stats::quantile::Pooled;
use crate::stats::shift;

/// The quantiles that are held against one another.
const QS: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];

/// One side of a contrast: its units in the order in which they pair.
pub(super) struct Side<'a> {
    pub(super) label: &'a str,
    pub(super) units: &'a [Unit],
    pub(super) group: &'a Group,
    /// Blocks are whole runs, which have a length of their own.
    pub(super) are_runs: bool,
    pub(super) has_limits: bool,
}

/// How the blocks of both sides belong together.
#[derive(Clone, Copy)]
pub(super) struct Together {
    pub(super) plan: Plan,
    pub(super) autocorrelation: f64,
    pub(super) options: Options,
}

/// A figure that two arms may differ in.
struct Asked {
    metric: String,
    title: String,
    unit: &'static str,
    /// More of it is better.
    rises: bool,
    baseline: Estimate,
    arm: Estimate,
}

/// One arm against the baseline.
pub(super) fn difference(base: &Side<'_>, arm: &Side<'_>, together: &Together) -> Difference {
    let error = (1.0 - together.options.confidence) / 2.0;
    let rng = Rng::new(together.options.seed).fork("compare");
    let drawn = |name: &str, figures: &mut bootstrap::Figures<'_>| {
        let Together { plan, autocorrelation, options } = *together;
        let mut rng = rng.fork(name);
        bootstrap::Difference::of(plan, autocorrelation, options.resamples, &mut rng, figures)
    };
    let share = |name: &str, title: &str, rises: bool, count: fn(&Buckets) -> Option<u64>| {
        // Only what is good when there is more of it is said of serving to the end.
        let (ones, others) = (counted(base, count, rises)?, counted(arm, count, rises)?);
        let mut figures = |one: &[u32], other: &[u32]| (ratio(&ones, one), ratio(&others, other));
        let difference = drawn(name, &mut figures);
        let (baseline, tested) = (estimate(base, name), estimate(arm, name));
        let (metric, title) = (name.to_owned(), title.to_owned());
        let asked = Asked { metric, title, unit: "share", rises, baseline, arm: tested };
        Some(contrast(asked, difference.as_ref(), error, together))
    };
    let primary = share("good_share", "good", true, |unit| unit.good);
    let completed = share("completed_share", "completed", true, |unit| Some(unit.completed));
    let refused = share("refused_share", "refused", false, |unit| Some(unit.refused));
    let mut secondary: Vec<Contrast> = refused.into_iter().collect();
    let primary = match primary {
        Some(primary) => {
            if base.has_limits {
                secondary.extend(completed);
            }
            primary
        }
        // Nobody can tell good from slow.
        None => completed.unwrap_or_else(|| unknown("completed_share", "completed")),
    };
    secondary.extend(latencies(base, arm, together, &drawn));
    secondary.extend(rates(base, arm, together, &drawn));
    corrected(&mut secondary, together.options.confidence);
    let mut difference = Difference {
        arm: arm.label.to_owned(),
        baseline: base.label.to_owned(),
        is_paired: matches!(together.plan, Plan::Paired(_)),
        blocks: (base.units.len(), arm.units.len()),
        primary,
        secondary,
        survivorship: super::summary::survivorship(base, arm),
        sentence: String::new(),
    };
    difference.sentence = super::summary::difference(&difference, together.options.confidence);
    difference
}

type Draw<'d> = dyn Fn(&str, &mut bootstrap::Figures<'_>) -> Option<bootstrap::Difference> + 'd;

fn latencies(
    base: &Side<'_>,
    arm: &Side<'_>,
    together: &Together,
    drawn: &Draw<'_>,
) -> Vec<Contrast> {
    let error = (1.0 - together.options.confidence) / 2.0;
    let mut contrasts = Vec::new();
    for (nth, (metric, name)) in METRICS.iter().enumerate() {
        let known = |side: &Side<'_>| Known::of(side.units, *metric, None);
        let (ones, others) = (known(base), known(arm));
        for (q, quantile) in QS {
            let figure = |side: &Side<'_>| {
                let offered = &side.group.latencies[nth].offered;
                match quantile {
                    "p50" => offered.p50.clone(),
                    "p90" => offered.p90.clone(),
                    _ => offered.p99.clone(),
                }
            };
            let asked = Asked {
                metric: format!("{name}_{quantile}"),
                title: format!("{} {quantile}", metric.title()),
                unit: "ms",
                rises: false,
                baseline: figure(base),
                arm: figure(arm),
            };
            let values = ones.as_ref().zip(others.as_ref());
            let Some((
                Known::Values { offered: one, units: ones },
                Known::Values { offered: other, units: others },
            )) = values
            else {
                contrasts.push(bounded(asked));
                continue;
            };
            let at = |pooled: &Pooled, weights: &[u32]| {
                pooled.weighted(weights, &[q]).first().copied().unwrap_or(f64::NAN)
            };
            let mut figures = |left: &[u32], right: &[u32]| (at(one, left), at(other, right));
            let difference = drawn(&asked.metric, &mut figures);
            let mut made = contrast(asked, difference.as_ref(), error, together);
            if quantile == "p50" {
                made.shift = shifted(ones, others, together, error);
            }
            contrasts.push(made);
        }
    }
    contrasts
}

/// The shift of the median over blocks.
fn shifted(
    ones: &[Vec<f64>],
    others: &[Vec<f64>],
    together: &Together,
    error: f64,
) -> Option<Estimate> {
    let median = |units: &[Vec<f64>]| -> Vec<f64> {
        let of = |unit: &Vec<f64>| Pooled::of(std::slice::from_ref(unit)).quantile(0.5);
        units.iter().map(|unit| of(unit).unwrap_or(f64::NAN)).collect()
    };
    let (one, other) = (median(ones), median(others));
    let shift = match together.plan {
        Plan::Paired(_) => {
            let pairs = one.iter().zip(&other).map(|(one, other)| bootstrap::less(*other, *one));
            shift::paired(&pairs.collect::<Vec<f64>>(), error)
        }
        Plan::Unpaired(..) => shift::unpaired(&one, &other, error),
    }?;
    Some(Estimate {
        value: Some(shift.value),
        low: Some(shift.low),
        high: Some(shift.high),
        is_bounded_only: false,
        said: say::change(shift.value, "ms"),
    })
}

/// Completed requests a second and the makespan, where blocks are whole runs.
fn rates(base: &Side<'_>, arm: &Side<'_>, together: &Together, drawn: &Draw<'_>) -> Vec<Contrast> {
    let error = (1.0 - together.options.confidence) / 2.0;
    if !base.are_runs || !arm.are_runs {
        return Vec::new();
    }
    let made = |metric: &str,
                title: &str,
                unit: &'static str,
                rises: bool,
                of: fn(&Unit) -> Option<f64>| {
        let values = |side: &Side<'_>| side.units.iter().map(of).collect::<Option<Vec<f64>>>();
        let (ones, others) = (values(base)?, values(arm)?);
        let whole = |values: &[f64]| mean(values, &vec![1; values.len()]);
        let estimate = |values: &[f64]| Estimate {
            value: Some(whole(values)),
            said: say::in_unit(whole(values), unit),
            ..Estimate::default()
        };
        let asked = Asked {
            metric: metric.to_owned(),
            title: title.to_owned(),
            unit,
            rises,
            baseline: estimate(&ones),
            arm: estimate(&others),
        };
        let mut figures = |one: &[u32], other: &[u32]| (mean(&ones, one), mean(&others, other));
        let difference = drawn(metric, &mut figures);
        Some(contrast(asked, difference.as_ref(), error, together))
    };
    let per_s = made("completed_per_s", "completed a second", "per_s", true, completed_per_s);
    let makespan = made("makespan_s", "makespan", "s", false, Unit::makespan_s);
    per_s.into_iter().chain(makespan).collect()
}

/// Completed requests of a run a second of it.
pub(super) fn completed_per_s(unit: &Unit) -> Option<f64> {
    let completed = unit.buckets(None, false)?.completed as f64;
    unit.makespan_s().filter(|seconds| *seconds > 0.0).map(|seconds| completed / seconds)
}

fn contrast(
    asked: Asked,
    difference: Option<&bootstrap::Difference>,
    error: f64,
    together: &Together,
) -> Contrast {
    let Asked { metric, title, unit, rises, baseline, arm } = asked;
    let (p_value, p_above) =
        difference.map(|difference| (difference.p_value(), difference.p_above())).unzip();
    let differs = p_value.is_some_and(|p| p < 1.0 - together.options.confidence);
    let estimate = difference.map_or_else(say::nothing, |difference| {
        let (low, high) = difference.interval(error);
        Estimate {
            value: Some(difference.value),
            low: Some(low),
            high: Some(high),
            is_bounded_only: false,
            said: say::change(difference.value, unit),
        }
    });
    Contrast {
        metric,
        title,
        unit,
        is_better: p_above.filter(|_| differs).map(|above| (above > 0.5) == rises),
        p_better: p_above.map(|above| if rises { above } else { 1.0 - above }),
        baseline,
        arm,
        difference: estimate,
        p_value,
        p_holm: None,
        differs,
        shift: None,
    }
}

/// A contrast of which summaries give bounds only, and which nobody can test.
fn bounded(asked: Asked) -> Contrast {
    let end = |estimate: &Estimate| {
        estimate.value.map(|value| (value, value)).or(estimate.low.zip(estimate.high))
    };
    let ends = end(&asked.baseline).zip(end(&asked.arm));
    let difference = ends.map_or_else(say::nothing, |(base, arm)| {
        let (low, high) = (bootstrap::less(arm.0, base.1), bootstrap::less(arm.1, base.0));
        let said = if (low - high).abs() < 1e-9 || low.is_infinite() {
            say::change(low, asked.unit)
        } else {
            format!("{} to {}", say::change(low, asked.unit), say::change(high, asked.unit))
        };
        let (low, high) = (Some(low), Some(high));
        Estimate { value: None, low, high, is_bounded_only: true, said }
    });
    Contrast {
        difference,
        baseline: asked.baseline,
        arm: asked.arm,
        unit: asked.unit,
        ..unknown(&asked.metric, &asked.title)
    }
}

fn unknown(metric: &str, title: &str) -> Contrast {
    Contrast {
        metric: metric.to_owned(),
        title: title.to_owned(),
        unit: "share",
        baseline: say::nothing(),
        arm: say::nothing(),
        difference: say::nothing(),
        p_better: None,
        p_value: None,
        p_holm: None,
        differs: false,
        is_better: None,
        shift: None,
    }
}

/// Tests all of them together: each claim has to stand among all that could have been made.
fn corrected(contrasts: &mut [Contrast], confidence: f64) {
    let tested: Vec<f64> = contrasts.iter().filter_map(|contrast| contrast.p_value).collect();
    let mut adjusted = holm(&tested).into_iter();
    for contrast in contrasts.iter_mut().filter(|contrast| contrast.p_value.is_some()) {
        contrast.p_holm = adjusted.next();
        contrast.differs = contrast.p_holm.is_some_and(|p| p < 1.0 - confidence);
        contrast.is_better = contrast.is_better.filter(|_| contrast.differs);
    }
}

/// A share of an arm as its group has it.
fn estimate(side: &Side<'_>, name: &str) -> Estimate {
    match name {
        "good_share" => side.group.good_share.clone(),
        "completed_share" => side.group.completed_share.clone(),
        _ => side.group.refused_share.clone(),
    }
}

/// Requests and those that count, by unit.
fn counted(
    side: &Side<'_>,
    count: fn(&Buckets) -> Option<u64>,
    of_stayed: bool,
) -> Option<Vec<(f64, f64)>> {
    let of = |unit: &Unit| {
        let buckets = unit.buckets(None, side.has_limits)?;
        let buckets = if of_stayed { buckets.stayed() } else { buckets };
        Some((buckets.offered as f64, count(&buckets)? as f64))
    };
    side.units.iter().map(of).collect()
}

fn ratio(units: &[(f64, f64)], weights: &[u32]) -> f64 {
    let sum = |of: fn(&(f64, f64)) -> f64| {
        units.iter().zip(weights).map(|(unit, weight)| of(unit) * f64::from(*weight)).sum::<f64>()
    };
    sum(|unit| unit.1) / sum(|unit| unit.0)
}

fn mean(values: &[f64], weights: &[u32]) -> f64 {
    let count: u32 = weights.iter().sum();
    let sum: f64 = values.iter().zip(weights).map(|(value, w)| value * f64::from(*w)).sum();
    sum / f64::from(count)
}
