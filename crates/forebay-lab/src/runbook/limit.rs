//! Says at which rate it ends: from what `forebay capacity` left behind.

use std::fmt::Write as _;

use serde_json::Value;

use crate::capacity::{Growth, headroom};
use crate::drill::notation::{duration_ms, percent, three_digits};

/// A share of refusals that is no accident of one request: below it nobody is woken.
const REFUSED_NOTED: f64 = 0.001;

/// What is known of the limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limit {
    /// The highest rate that was shown to hold the criteria.
    holds: Option<f64>,
    /// The lowest that was shown to fail.
    fails: Option<f64>,
    knee: Option<f64>,
    now: Option<Growth>,
    rates: Vec<Rate>,
}

/// A rate that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rate {
    per_s: f64,
    /// Share that was refused; `None` where no run of it counts.
    refused: Option<f64>,
    ttft_ms_p90: Option<f64>,
    decided: String,
}

impl Limit {
    /// From the JSON of a capacity; `None` of JSON that is none.
    pub fn of_json(capacity: &Value) -> Option<Self> {
        capacity.get("schema")?.as_str().filter(|it| it.starts_with("forebay.capacity/"))?;
        let number = |name: &str| capacity.get(name).and_then(Value::as_f64);
        let now = capacity.get("headroom").and_then(|headroom| {
            let of = |name: &str| headroom.get(name)?.as_f64();
            Some(Growth { now_per_s: of("now_per_s")?, a_month: of("growth_a_month")? })
        });
        let rate = |trial: &Value| {
            let value = |name: &str| match trial.pointer(&format!("/{name}/value"))? {
                Value::String(word) if word == "infinite" => Some(f64::INFINITY),
                other => other.as_f64(),
            };
            Some(Rate {
                per_s: trial.get("per_s")?.as_f64()?,
                refused: value("refused_share"),
                ttft_ms_p90: value("ttft_ms_p90"),
                decided: trial.get("decided")?.as_str()?.to_owned(),
            })
        };
        let trials = capacity.get("trials")?.as_array()?;
        Some(Self {
            holds: number("capacity_per_s"),
            fails: number("high_per_s"),
            knee: number("knee_per_s"),
            now,
            rates: trials.iter().map(rate).collect::<Option<_>>()?,
        })
    }

    /// The same with what is asked today, where that is told anew.
    #[must_use]
    pub fn with_growth(self, growth: Option<Growth>) -> Self {
        Self { now: growth.or(self.now), ..self }
    }

    /// The lowest rate at which requests were refused, with the share of them.
    fn refuses(&self) -> Option<(f64, f64)> {
        let of = |rate: &Rate| Some((rate.per_s, rate.refused?));
        self.rates.iter().filter_map(of).find(|(_, share)| *share > REFUSED_NOTED)
    }

    /// The step that compares the rate of a storm with it.
    pub(super) fn step(&self) -> String {
        match (self.holds, self.fails) {
            (Some(holds), Some(fails)) => format!(
                "Is the rate beyond the capacity? Up to {} requests a second the criteria hold; \
                 from {} on they fail, whatever is changed but capacity and load.",
                three_digits(holds),
                three_digits(fails)
            ),
            (Some(holds), None) => format!(
                "Is the rate beyond what was measured? Up to {} requests a second the criteria \
                 hold; more was not tried.",
                three_digits(holds)
            ),
            (None, Some(fails)) => format!(
                "Is the rate beyond the capacity? At {} requests a second the criteria failed, \
                 and no lower rate was shown to hold.",
                three_digits(fails)
            ),
            (None, None) => "Its capacity is not known: the search for it found none.".to_owned(),
        }
    }

    /// The section about it.
    pub(super) fn write(&self, text: &mut String) {
        text.push_str("\n## Where it ends\n\nMeasured by `forebay capacity`.\n\n");
        let per_s = |rate: f64| format!("{} requests a second", three_digits(rate));
        if let Some(holds) = self.holds {
            let _ = writeln!(text, "- the criteria hold up to {}", per_s(holds));
        }
        if let Some(fails) = self.fails {
            let _ = writeln!(text, "- they fail at {}", per_s(fails));
        }
        let highest = self.rates.iter().rfind(|rate| rate.refused.is_some());
        match (self.refuses(), highest) {
            (Some((rate, share)), _) => {
                let _ = writeln!(
                    text,
                    "- refusals begin at {} or below: {} were refused there",
                    per_s(rate),
                    percent(share)
                );
            }
            (None, Some(highest)) => {
                let _ = writeln!(
                    text,
                    "- no rate up to {} led to refusals: what is too much waits longer instead",
                    per_s(highest.per_s)
                );
            }
            (None, None) => {}
        }
        if let Some(knee) = self.knee {
            let _ = writeln!(text, "- beyond {} no more is completed (the knee)", per_s(knee));
        }
        match (self.holds, self.now) {
            (Some(holds), Some(growth)) => {
                let _ = writeln!(text, "- {}", headroom(holds, self.fails, growth));
            }
            (Some(_), None) => text.push_str(
                "- headroom: give `--now`, the rate at the busiest time, and `--growth`\n",
            ),
            (None, _) => {}
        }
        text.push_str(
            "\n| offered a second | refused | TTFT p90 | criteria |\n|---|---|---|---|\n",
        );
        for rate in &self.rates {
            let refused = rate.refused.map_or("–".to_owned(), percent);
            let ttft = rate.ttft_ms_p90.map_or("–".to_owned(), duration_ms);
            let decided = &rate.decided;
            let per_s = three_digits(rate.per_s);
            let _ = writeln!(text, "| {per_s} | {refused} | {ttft} | {decided} |");
        }
    }
}
