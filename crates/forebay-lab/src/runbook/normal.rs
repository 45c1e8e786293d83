//! Reads what was measured when all was well from a comparison.

use serde_json::Value;

use crate::compare::Comparison;

/// What one arm was measured at, as a person reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Normal {
    label: String,
    offered: String,
    completed_per_s: String,
    ttft_p50: String,
    ttft_p90: String,
    refused: String,
    verdict: String,
}

impl Normal {
    /// Of each arm of a comparison.
    pub fn of(comparison: &Comparison) -> Vec<Self> {
        let value = serde_json::to_value(comparison);
        value.ok().and_then(|value| Self::of_json(&value)).unwrap_or_default()
    }

    /// Of each arm of a comparison as JSON has it; `None` of JSON that is none.
    pub fn of_json(comparison: &Value) -> Option<Vec<Self>> {
        comparison.get("schema")?.as_str().filter(|it| it.starts_with("forebay.comparison/"))?;
        let text = |value: Option<&Value>| {
            value.and_then(Value::as_str).filter(|it| !it.is_empty()).unwrap_or("–").to_owned()
        };
        let arms = comparison.get("arms")?.as_array()?;
        let of = |arm: &Value| {
            let latencies = arm.pointer("/all/latencies").and_then(Value::as_array);
            let ttft = latencies.and_then(|all| {
                all.iter().find(|one| one.get("metric").and_then(Value::as_str) == Some("ttft_ms"))
            });
            let quantile =
                |name: &str| text(ttft.and_then(|it| it.pointer(&format!("/offered/{name}/said"))));
            let offered = arm.pointer("/all/buckets/offered").and_then(Value::as_u64);
            Self {
                label: text(arm.get("label")),
                offered: offered.map_or("–".to_owned(), |it| it.to_string()),
                completed_per_s: text(arm.pointer("/completed_per_s/said")),
                ttft_p50: quantile("p50"),
                ttft_p90: quantile("p90"),
                refused: text(arm.pointer("/all/refused_share/said")),
                verdict: text(arm.get("outcome")),
            }
        };
        Some(arms.iter().map(of).collect())
    }

    /// The cells of its row.
    pub(super) fn cells(&self) -> [String; 7] {
        [
            &self.label,
            &self.offered,
            &self.completed_per_s,
            &self.ttft_p50,
            &self.ttft_p90,
            &self.refused,
            &self.verdict,
        ]
        .map(Clone::clone)
    }
}
