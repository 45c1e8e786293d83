//! Writes figures the way people read them.

use indexmap::IndexMap;

/// How an infinite or missing figure is written.
pub const INFINITE: &str = "∞";

/// About three significant digits, never an exponent: `0.312`, `4.51`, `12.1`, `136`.
pub fn three_digits(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { INFINITE.to_owned() } else { format!("−{INFINITE}") };
    }
    let places = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{:.places$}", value.abs());
    if value < 0.0 && text.contains(|digit| ('1'..='9').contains(&digit)) {
        format!("−{text}")
    } else {
        text
    }
}

/// The same without zeros at the end of a fraction: `5`, `0.5`.
pub fn trimmed(value: f64) -> String {
    let text = three_digits(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Milliseconds as a person says them: `40 ms`, `12.1 s`, `∞`.
pub fn duration_ms(ms: f64) -> String {
    match ms {
        _ if ms.is_infinite() => INFINITE.to_owned(),
        _ if ms.abs() < 999.5 => format!("{} ms", trimmed(ms)),
        _ => format!("{} s", trimmed(ms / 1000.0)),
    }
}

/// The same with three digits always, for figures that stand below one another: `2.00 s`.
pub fn aligned_ms(ms: f64) -> String {
    match ms {
        _ if ms.is_infinite() => INFINITE.to_owned(),
        _ if ms.abs() < 999.5 => format!("{ms:.0} ms"),
        _ => format!("{} s", three_digits(ms / 1000.0)),
    }
}

/// A share from 0 to 1 as a percentage. What is not all is never rounded up to 100 %.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = format!("{percent:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "100" if share < 1.0 => "99.99 %".to_owned(),
        "0" if share > 0.0 => "0.01 %".to_owned(),
        _ => format!("{text} %"),
    }
}

/// A change against 1 as a signed percentage: `+15 %`, `−4.2 %`.
pub fn change(ratio: f64) -> String {
    if ratio.is_infinite() {
        return format!("+{INFINITE}");
    }
    let percent = (ratio - 1.0) * 100.0;
    let text =
        if percent.abs() < 9.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") };
    let text = if text == "-0.0" || text == "+0.0" { "±0".to_owned() } else { text };
    format!("{} %", text.replace('-', "−"))
}

/// Words in a row: `2`, `2 and 4`, `2, 4 and 8`.
pub fn listed<T: ToString>(items: &[T]) -> String {
    let words: Vec<String> = items.iter().map(ToString::to_string).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Counts by reason: `shed 3, workers_busy 208`; `–` for none.
pub fn reasons(counts: &IndexMap<&'static str, u64>) -> String {
    let parts: Vec<String> =
        counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join(", ") }
}

/// A count with its noun: `1 seed`, `3 seeds`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{change, counted, duration_ms, listed, percent, three_digits};

    #[test]
    fn figures_have_three_digits_and_no_exponent() {
        let shown = [0.0004, 0.3117, 4.508, 12.14, 136.4, 99.96, f64::INFINITY, -0.5, -0.0001]
            .map(three_digits);
        assert_eq!(shown, ["0.000", "0.312", "4.51", "12.1", "136", "100", "∞", "−0.500", "0.000"]);
    }

    #[test]
    fn durations_change_unit_at_a_second() {
        assert_eq!(
            [40.0, 312.0, 5000.0, 60_000.0, f64::INFINITY].map(duration_ms),
            ["40 ms", "312 ms", "5 s", "60 s", "∞"]
        );
    }

    #[test]
    fn what_is_not_all_is_never_rounded_to_all() {
        assert_eq!(
            [1.0, 0.99999, 0.999, 0.857, 0.00001, 0.0].map(percent),
            ["100 %", "99.99 %", "99.9 %", "85.7 %", "0.01 %", "0 %"]
        );
    }

    #[test]
    fn changes_carry_their_sign() {
        assert_eq!(
            [1.15, 0.958, 1.0, f64::INFINITY].map(change),
            ["+15 %", "−4.2 %", "±0 %", "+∞"]
        );
    }

    #[test]
    fn lists_end_with_and() {
        assert_eq!(listed(&[2]), "2");
        assert_eq!(listed(&[2, 4, 8]), "2, 4 and 8");
        assert_eq!(counted(1, "seed"), "1 seed");
    }
}
