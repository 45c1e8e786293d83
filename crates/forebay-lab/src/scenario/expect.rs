//! Compares a run's figures with what must hold.
//!
//! Figures have the names that they have in the object of `forebay simulate --json`, joined by dots
//! (`ttft_ms.p99`), and a few more that only a scenario needs. A latency that an unserved request
//! makes infinite is above every limit; a finite one is 0 × an infinite one, and two infinite ones
//! cannot be compared.

use forebay_core::RefusalReason;

use crate::drill::notation::INFINITE;
use crate::simulate::{Group, Latency, Millis, Summary};

/// What must hold of one figure.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    pub(super) figure: Figure,
    /// Whose requests.
    pub(super) of: Of,
    /// The arm whose figure it is; `None` is the scenario's own run.
    pub(super) arm: Option<String>,
    /// The figure is divided by the same one of this arm.
    pub(super) against: Option<String>,
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
}

/// Whose requests a figure is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Of {
    All,
    Class(String),
    Tenant(String),
}

/// A figure of a run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Figure {
    /// A figure of a group of requests.
    Plain(&'static str, OfGroup),
    /// One of a distribution's figures.
    Latency(&'static str, LatencyOf, &'static str, OfLatency),
    /// Requests refused for good for this reason.
    RefusedBy(RefusalReason),
    /// Seconds from the last arrival or event to the last end.
    Drained,
}

/// Reads a figure of a group of requests.
type OfGroup = fn(&Group) -> Option<f64>;
/// Finds a distribution of a group of requests.
type LatencyOf = fn(&Group) -> &Latency;
/// Reads a figure of a distribution.
type OfLatency = fn(&Latency) -> Millis;

const PLAIN: [(&str, OfGroup); 20] = [
    ("offered", |group| Some(group.offered as f64)),
    ("completed", |group| Some(group.completed as f64)),
    ("refused", |group| Some(group.refused as f64)),
    ("abandoned", |group| Some(group.abandoned as f64)),
    ("failed", |group| Some(group.failed as f64)),
    ("completed_share", |group| share(group.completed, group)),
    ("refused_share", |group| share(group.refused, group)),
    ("abandoned_share", |group| share(group.abandoned, group)),
    ("failed_share", |group| share(group.failed, group)),
    ("attempts", |group| Some(group.attempts as f64)),
    ("amplification", |group| group.amplification.0),
    ("makespan_s", |group| group.makespan_s.0),
    ("prefix_hit_share", |group| group.prefix_hit_share.0),
    ("preemptions", |group| Some(group.preemptions as f64)),
    ("output_tokens_per_s", |group| group.output_tokens_per_s.0),
    ("goodput_share", |group| group.goodput_share.0),
    ("waited_beyond_promise_share", |group| group.waited_beyond_promise_share.0),
    ("promises.given", |group| Some(group.promises.given as f64)),
    ("promises.cut_by_cap", |group| Some(group.promises.cut_by_cap as f64)),
    ("promises.kept_share", |group| group.promises.kept_share.0),
];

const DISTRIBUTIONS: [(&str, LatencyOf); 6] = [
    ("ttft_ms", |group| &group.ttft_ms),
    ("itl_ms", |group| &group.itl_ms),
    ("e2e_ms", |group| &group.e2e_ms),
    ("queue_ms", |group| &group.queue_ms),
    ("completed_only.ttft_ms", |group| &group.completed_only.ttft_ms),
    ("completed_only.queue_ms", |group| &group.completed_only.queue_ms),
];

const QUANTILES: [(&str, OfLatency); 6] = [
    ("mean", |latency| latency.mean),
    ("p50", |latency| latency.p50),
    ("p75", |latency| latency.p75),
    ("p90", |latency| latency.p90),
    ("p99", |latency| latency.p99),
    ("max", |latency| latency.max),
];

const REFUSED_BY: &str = "refused_by.";
const DRAINED: &str = "drained_s";

fn share(part: u64, group: &Group) -> Option<f64> {
    (group.offered > 0).then(|| part as f64 / group.offered as f64)
}

impl Figure {
    /// The figure of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        if name == DRAINED {
            return Some(Self::Drained);
        }
        if let Some(label) = name.strip_prefix(REFUSED_BY) {
            let all = RefusalReason::ALL.into_iter();
            return all.into_iter().find(|reason| reason.label() == label).map(Self::RefusedBy);
        }
        if let Some((name, read)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
            return Some(Self::Plain(name, *read));
        }
        let (of, which) = name.rsplit_once('.')?;
        let (of, latency) = DISTRIBUTIONS.iter().find(|(known, _)| *known == of)?;
        let (which, read) = QUANTILES.iter().find(|(known, _)| *known == which)?;
        Some(Self::Latency(of, *latency, which, *read))
    }

    /// Every figure's name.
    pub(super) fn names() -> Vec<String> {
        let plain = PLAIN.iter().map(|(name, _)| (*name).to_owned());
        let latencies = DISTRIBUTIONS
            .iter()
            .flat_map(|(of, _)| QUANTILES.iter().map(move |(which, _)| format!("{of}.{which}")));
        let reasons = RefusalReason::ALL.iter().map(|reason| format!("{REFUSED_BY}{reason}"));
        plain.chain([DRAINED.to_owned()]).chain(latencies).chain(reasons).collect()
    }

    /// Its name.
    pub(super) fn name(self) -> String {
        match self {
            Self::Plain(name, _) => name.to_owned(),
            Self::Latency(of, _, which, _) => format!("{of}.{which}"),
            Self::RefusedBy(reason) => format!("{REFUSED_BY}{reason}"),
            Self::Drained => DRAINED.to_owned(),
        }
    }

    /// Its value; `None` where there is none, such as the share of nothing.
    fn read(self, group: &Group, drained_s: f64) -> Option<f64> {
        match self {
            Self::Plain(_, read) => read(group),
            Self::Latency(_, latency, _, read) => {
                (group.offered > 0).then(|| read(latency(group)).0.unwrap_or(f64::INFINITY))
            }
            Self::RefusedBy(reason) => {
                Some(group.refused_by.get(reason.label()).map_or(0.0, |count| *count as f64))
            }
            Self::Drained => Some(drained_s),
        }
    }
}

/// What one arm has come to.
#[derive(Clone, Debug)]
pub(super) struct ArmFigures {
    pub(super) name: String,
    pub(super) summary: Summary,
    pub(super) drained_s: f64,
}

/// What an expectation has come to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Checked {
    pub(super) holds: bool,
    /// The figure, its value and what was expected.
    pub(super) text: String,
}

impl Expectation {
    /// Compares; the first arm is the scenario's own run.
    pub(super) fn check(&self, arms: &[ArmFigures]) -> Checked {
        let own = self.arm.as_ref().map_or(&arms[0], |name| arm(arms, name));
        let label = self.label();
        let Some(value) = self.value(own) else {
            return Checked { holds: false, text: format!("{label} has no value") };
        };
        let (value, unit) = match &self.against {
            None => (value, String::new()),
            Some(name) => match self.value(arm(arms, name)) {
                // Of two requests that were both never served, neither was served sooner.
                Some(base) if value.is_infinite() && base.is_infinite() => {
                    let text =
                        format!("{label} cannot be compared with {name}: infinite under both");
                    return Checked { holds: false, text };
                }
                Some(base) if base > 0.0 => (value / base, format!(" × {name}")),
                base => {
                    let base = base.map_or("no value".to_owned(), number);
                    let text = format!("{label} cannot be compared with {name}, which has {base}");
                    return Checked { holds: false, text };
                }
            },
        };
        let too_small = self.at_least.filter(|least| value < *least);
        let too_large = self.at_most.filter(|most| value > *most);
        let value = number(value);
        let text = match (too_small, too_large) {
            (Some(least), _) => format!("{label} is {value}{unit}, below {}", number(least)),
            (_, Some(most)) => format!("{label} is {value}{unit}, above {}", number(most)),
            _ => format!("{label} {value}{unit}"),
        };
        Checked { holds: too_small.is_none() && too_large.is_none(), text }
    }

    fn value(&self, arm: &ArmFigures) -> Option<f64> {
        let group = match &self.of {
            Of::All => Some(&arm.summary.all),
            Of::Class(name) => arm.summary.classes.get(name),
            Of::Tenant(name) => arm.summary.tenants.get(name),
        };
        self.figure.read(group?, arm.drained_s)
    }

    fn label(&self) -> String {
        let figure = self.figure.name();
        let figure = match &self.of {
            Of::All => figure,
            Of::Class(name) | Of::Tenant(name) => format!("{name}'s {figure}"),
        };
        match &self.arm {
            None => figure,
            Some(arm) => format!("{figure} of {arm}"),
        }
    }
}

fn arm<'a>(arms: &'a [ArmFigures], name: &str) -> &'a ArmFigures {
    arms.iter().find(|arm| arm.name == name).expect("every arm that is named was run")
}

/// At most three decimals, and none that say nothing.
pub(super) fn number(value: f64) -> String {
    if value.is_infinite() {
        return INFINITE.to_owned();
    }
    let text = format!("{value:.3}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{ArmFigures, Checked, Expectation, Figure, Of};
    use crate::drill::fake;
    use crate::simulate::{Summary, Thresholds};

    /// The mean TTFT of a run of which so many requests were refused, against that of another.
    fn against(own_refused: u64, base_refused: u64) -> Checked {
        let of = |name: &str, refused: u64| ArmFigures {
            name: name.to_owned(),
            summary: Summary::of(
                &fake::run(&fake::Shape { refused, ..fake::SHAPE }, 1),
                &Thresholds::default(),
            ),
            drained_s: 0.0,
        };
        let expectation = Expectation {
            figure: Figure::named("ttft_ms.mean").unwrap(),
            of: Of::All,
            arm: None,
            against: Some("round-robin".to_owned()),
            at_least: None,
            at_most: Some(1.0),
        };
        expectation.check(&[of("the scenario", own_refused), of("round-robin", base_refused)])
    }

    #[test]
    fn two_infinite_figures_break_an_expectation_that_compares_them() {
        let checked = against(1, 1);
        assert!(!checked.holds);
        let said = "ttft_ms.mean cannot be compared with round-robin: infinite under both";
        assert_eq!(checked.text, said);
    }

    #[test]
    fn a_finite_figure_is_nothing_of_an_infinite_one_and_the_reverse_is_above_every_limit() {
        let better = against(0, 1);
        assert!(better.holds && better.text == "ttft_ms.mean 0 × round-robin", "{better:?}");
        let worse = against(1, 0);
        assert!(!worse.holds);
        assert_eq!(worse.text, "ttft_ms.mean is ∞ × round-robin, above 1");
    }
}
