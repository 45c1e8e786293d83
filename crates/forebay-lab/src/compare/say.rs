//! Puts figures into the words of a table.

use super::comparison::{Buckets, Estimate};
use super::known::Bounds;
use crate::drill::notation::{duration_ms, percent, three_digits};

/// A share with its interval.
pub(super) fn share(value: f64, (low, high): (f64, f64)) -> Estimate {
    Estimate {
        value: Some(value),
        low: Some(low),
        high: Some(high),
        is_bounded_only: false,
        said: percent(value),
    }
}

/// A share of which only bounds are known.
pub(super) fn share_between(low: f64, high: f64) -> Estimate {
    Estimate {
        value: None,
        low: Some(low),
        high: Some(high),
        is_bounded_only: true,
        said: format!("{} to {}", percent(low), percent(high)),
    }
}

/// A latency over all offered: undefined where too many were not served.
pub(super) fn latency(known: Bounds, interval: Option<Bounds>, buckets: &Buckets) -> Estimate {
    let Bounds { low, high } = known;
    let undefined = || format!("undefined: {}", buckets.unserved());
    if low.is_nan() {
        return nothing();
    }
    if low < high {
        let said = match (low, high) {
            (low, high) if high.is_infinite() => format!("at least {}", duration_ms(low)),
            _ => format!("{} to {}", duration_ms(low), duration_ms(high)),
        };
        let (low, high) = (Some(low), Some(high));
        return Estimate { value: None, low, high, is_bounded_only: true, said };
    }
    Estimate {
        value: Some(low),
        low: interval.map(|bounds| bounds.low),
        high: interval.map(|bounds| bounds.high),
        is_bounded_only: false,
        said: if low.is_infinite() { undefined() } else { duration_ms(low) },
    }
}

/// Where there is nothing to say.
pub(super) fn nothing() -> Estimate {
    Estimate { said: "–".to_owned(), ..Estimate::default() }
}

/// A figure in one of the units of a contrast.
pub(super) fn in_unit(value: f64, unit: &str) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    match unit {
        _ if value.is_infinite() => format!("{sign}∞"),
        "share" => format!("{sign}{}", percent(value.abs())),
        "ms" => format!("{sign}{}", duration_ms(value.abs())),
        "per_s" => format!("{}/s", three_digits(value)),
        _ => format!("{} s", three_digits(value)),
    }
}

/// The same with a sign always: a difference. Shares differ by points of a percent.
pub(super) fn change(value: f64, unit: &str) -> String {
    let text = if unit == "share" && value.is_finite() {
        format!("{} pts", three_digits(100.0 * value))
    } else {
        in_unit(value, unit)
    };
    if value > 0.0 { format!("+{text}") } else { text }
}
