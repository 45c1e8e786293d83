//! Says a capacity to a person and to a machine.

use std::fmt::Write as _;

use serde_json::json;

use super::Capacity;
use crate::drill::notation::{duration_ms, percent, three_digits};
use crate::stats::knee::months_left;

/// What the target is asked today, and how that grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Requests a second at the busiest time.
    pub now_per_s: f64,
    /// Growth a month: 0.05 is 5 %.
    pub a_month: f64,
}

/// The capacity in a few lines.
pub fn told(capacity: &Capacity, growth: Option<Growth>) -> String {
    let mut text = String::from("  offered/s  completed/s  TTFT p50  criteria\n");
    let mut trials: Vec<_> = capacity.trials.iter().collect();
    trials.sort_by(|one, other| one.per_s.total_cmp(&other.per_s));
    for trial in trials {
        let completed = trial.completed_per_s.map_or("–".to_owned(), three_digits);
        let ttft = duration_ms(trial.ttft_ms_p50.unwrap_or(f64::INFINITY));
        let rate = three_digits(trial.per_s);
        let _ = writeln!(text, "  {rate:>9}  {completed:>11}  {ttft:>8}  {}", trial.decided);
    }
    text.push('\n');
    let answer = &capacity.answer;
    let sure = percent(capacity.confidence);
    let high = three_digits(answer.high);
    match answer.rate {
        Some(rate) => {
            let rate = three_digits(rate);
            let _ = writeln!(
                text,
                "capacity: the criteria hold at {rate} requests a second; what is offered when \
                 they\nfail lies between {rate} and {high} ({sure} confidence at each rate)"
            );
        }
        None => {
            let _ = writeln!(
                text,
                "capacity: no rate was shown to hold the criteria; they fail below {high} requests \
                 a\nsecond at the latest ({sure} confidence at each rate)"
            );
        }
    }
    if !answer.is_settled {
        text.push_str("The search ended before the interval was as narrow as asked for.\n");
    }
    if let Some(knee) = &capacity.knee {
        let _ = writeln!(
            text,
            "knee: the median TTFT bends at {} requests a second",
            three_digits(knee.at)
        );
    }
    if let (Some(growth), Some(rate)) = (growth, answer.rate) {
        let Growth { now_per_s, a_month } = growth;
        let _ =
            write!(text, "headroom: {} times what is asked today", three_digits(rate / now_per_s));
        match months_left(rate, now_per_s, a_month) {
            Some(months) => {
                let _ = writeln!(
                    text,
                    "; at {} more a month it is used up in {} months",
                    percent(a_month),
                    three_digits(months)
                );
            }
            None => text.push('\n'),
        }
    }
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
            })
        });
        let value = json!({
            "schema": "forebay.capacity/1",
            "capacity_per_s": self.answer.rate,
            "low_per_s": self.answer.low,
            "high_per_s": finite(self.answer.high),
            "confidence": self.confidence,
            "is_settled": self.answer.is_settled,
            "knee_per_s": self.knee.map(|knee| knee.at),
            "headroom": headroom,
            "criteria": self.criteria,
            "criteria_sha256": self.criteria_sha256,
            "trials": self.trials,
        });
        format!("{value:#}\n")
    }
}
