//! Says a capacity to a person and to a machine.

use std::fmt::Write as _;

use serde_json::json;

use super::{Capacity, Ended, Trial};
use crate::compare::comparison::Estimate;
use crate::drill::notation::{duration_ms, percent, three_digits};
use crate::stats::knee::months_left;
use crate::stats::search::Answer;

/// What the target is asked today, and how that grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Requests a second at the busiest time.
    pub now_per_s: f64,
    /// Growth a month: 0.05 is 5 %.
    pub a_month: f64,
}

/// What is asked today and how it grows are no figures.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "today's rate lies above 0 and growth from 0 to 10, not {now_per_s} and {a_month}\nhint: 0.05 \
     is 5 % a month"
)]
pub struct GrowthError {
    now_per_s: f64,
    a_month: f64,
}

impl Growth {
    /// What is asked today, where that is told, with the growth of a month.
    pub fn read(now_per_s: Option<f64>, a_month: f64) -> Result<Option<Self>, GrowthError> {
        let Some(now_per_s) = now_per_s else { return Ok(None) };
        let is_figure = now_per_s > 0.0 && now_per_s.is_finite() && (0.0..=10.0).contains(&a_month);
        if is_figure {
            Ok(Some(Self { now_per_s, a_month }))
        } else {
            Err(GrowthError { now_per_s, a_month })
        }
    }
}

/// The capacity in a few lines.
pub fn told(capacity: &Capacity, growth: Option<Growth>) -> String {
    let mut text = table(capacity);
    text.push('\n');
    for sentence in sentences(capacity, growth) {
        let _ = writeln!(text, "{sentence}");
    }
    text
}

fn table(capacity: &Capacity) -> String {
    let mut text =
        String::from("  offered/s  runs  completed/s  good     TTFT p50  TTFT p90  criteria\n");
    for trial in &capacity.trials {
        let said = |estimate: &Estimate| estimate.value.map_or("–".to_owned(), duration_ms);
        let _ = writeln!(
            text,
            "  {:>9}  {:>4}  {:>11}  {:>7}  {:>8}  {:>8}  {}",
            three_digits(trial.per_s),
            trial.runs.len(),
            trial.completed_per_s.map_or("–".to_owned(), three_digits),
            trial.good_share.value.map_or("–".to_owned(), percent),
            said(&trial.ttft_ms_p50),
            said(&trial.ttft_ms_p90),
            state(trial),
        );
    }
    text
}

/// What is known of a rate, in a word or three.
pub fn state(trial: &Trial) -> &'static str {
    match (trial.decided, trial.looks) {
        ("holds", _) => "hold",
        ("fails", _) => "fail",
        (_, "well") => "look well, not shown",
        (_, "ill") => "look ill, not shown",
        _ => "INVALID: the generator could not keep up",
    }
}

/// What the search came to, a sentence each.
pub fn sentences(capacity: &Capacity, growth: Option<Growth>) -> Vec<String> {
    let answer = &capacity.answer;
    let sure = percent(capacity.confidence);
    let per_s = |rate: f64| format!("{} requests a second", three_digits(rate));
    let mut all = vec![match (answer.rate, answer.high.is_finite()) {
        (Some(rate), true) => format!(
            "capacity: the criteria hold at {}, and fail at {}; what lies between was not shown \
             ({sure} confidence at each end)",
            per_s(rate),
            three_digits(answer.high)
        ),
        (Some(rate), false) => format!(
            "capacity: at least {}, where the criteria hold ({sure} confidence); no rate was \
             shown to fail",
            per_s(rate)
        ),
        (None, true) => format!(
            "capacity: no rate was shown to hold the criteria; they fail at {} ({sure} confidence)",
            per_s(answer.high)
        ),
        (None, false) => {
            "capacity: unknown; no rate was shown to hold the criteria, and none to fail".to_owned()
        }
    }];
    if let Some(rate) = answer.beyond_reach {
        all.push(format!(
            "The generator is the limit: {} can't be offered from here. What the target can do \
             beyond is not known; run it on a machine of its own, or on several.",
            per_s(rate)
        ));
    }
    all.extend(looks(answer));
    match &capacity.ended {
        Ended::Searched => {}
        Ended::Interrupted => all.push("The search was stopped before its end.".to_owned()),
        Ended::Failed(why) => {
            let why = why.lines().next().unwrap_or_default();
            all.push(format!("The search could not go on: {why}."));
        }
    }
    if let Some(knee) = &capacity.knee {
        all.push(format!(
            "knee: what is completed stops growing with what is offered at {}",
            per_s(knee.at)
        ));
    }
    let high = Some(answer.high).filter(|high| high.is_finite());
    all.extend(growth.zip(answer.rate).map(|(growth, rate)| headroom(rate, high, growth)));
    all
}

/// Where the edge seems to be, and what it would take to show it, where that says more than what
/// was shown.
fn looks(answer: &Answer) -> Option<String> {
    let Answer { low, high, looks_low, looks_high, .. } = *answer;
    let is_shown = looks_low <= low && looks_high >= high;
    if is_shown || looks_low <= 0.0 {
        return None;
    }
    let up_to = if looks_high.is_finite() {
        format!("and ill at {}", three_digits(looks_high))
    } else {
        "and no rate that was offered looked ill".to_owned()
    };
    Some(format!(
        "Runs look well at {} a second, {up_to}: longer runs (--for), or more of them (--runs), \
         would show more.",
        three_digits(looks_low)
    ))
}

/// What is left between what is asked today and the two ends of a capacity, and when it is used up.
/// Only a rate that was shown to fail says that nothing is left.
pub fn headroom(low: f64, high: Option<f64>, growth: Growth) -> String {
    let Growth { now_per_s, a_month } = growth;
    let factor = three_digits(low / now_per_s);
    let mut text = format!("headroom: {factor} times what is asked today was shown to hold");
    if high.is_some_and(|high| now_per_s >= high) {
        text.push_str("; it is used up already");
        return text;
    }
    if now_per_s >= low {
        text.push_str(", so whether any is left is not known");
        return text;
    }
    let Some(first) = months_left(low, now_per_s, a_month) else { return text };
    let last = high.and_then(|high| months_left(high, now_per_s, a_month));
    let when = match last {
        Some(last) => format!("in {} to {} months", three_digits(first), three_digits(last)),
        None => format!("in {} months at the earliest", three_digits(first)),
    };
    let a_year = percent((1.0 + a_month).powi(12) - 1.0);
    let a_month = percent(a_month);
    let _ = write!(text, "; at {a_month} more each month ({a_year} a year) it is used up {when}");
    text
}

impl Capacity {
    /// The capacity as JSON, on several lines. What is infinite is `null`.
    pub fn json(&self, growth: Option<Growth>) -> String {
        let finite = |value: f64| value.is_finite().then_some(value);
        let headroom = growth.zip(self.answer.rate).map(|(growth, rate)| {
            json!({
                "now_per_s": growth.now_per_s,
                "growth_a_month": growth.a_month,
                "factor": rate / growth.now_per_s,
                "months": months_left(rate, growth.now_per_s, growth.a_month),
                "months_at_most": finite(self.answer.high)
                    .and_then(|high| months_left(high, growth.now_per_s, growth.a_month)),
            })
        });
        let value = json!({
            "schema": "forebay.capacity/1",
            "capacity_per_s": self.answer.rate,
            "low_per_s": self.answer.low,
            "high_per_s": finite(self.answer.high),
            "confidence": self.confidence,
            "is_settled": self.answer.is_settled,
            "looks_low_per_s": self.answer.looks_low,
            "looks_high_per_s": finite(self.answer.looks_high),
            "beyond_reach_per_s": self.answer.beyond_reach,
            "ended": match self.ended {
                Ended::Searched => "searched",
                Ended::Interrupted => "interrupted",
                Ended::Failed(_) => "failed",
            },
            "fault": match &self.ended {
                Ended::Failed(why) => Some(why),
                _ => None,
            },
            "knee_per_s": self.knee.map(|knee| knee.at),
            "headroom": headroom,
            "criteria": self.criteria,
            "criteria_sha256": self.criteria_sha256,
            "trials": self.trials,
        });
        format!("{value:#}\n")
    }
}
