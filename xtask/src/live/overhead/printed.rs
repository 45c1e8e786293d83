//! Reads what the shared script prints of one router.

use anyhow::{Context, ensure};

use super::bodies::KINDS;

/// What it prints of one kind of body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    /// Requests a second at 16 connections.
    pub(super) rate: f64,
    /// CPU of all its processes, in microseconds a request.
    pub(super) cpu_us: f64,
    /// Milliseconds: p50 and p99 at 16 connections, p50 and p99 at one.
    pub(super) latency_ms: [f64; 4],
    /// Answers that were no success.
    pub(super) errors: f64,
}

/// What it prints of one router.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Printed {
    /// One for each of [`KINDS`].
    pub(super) costs: Vec<Cost>,
    /// Resident memory at the end, in kilobytes.
    pub(super) resident_kb: f64,
}

impl Printed {
    /// Reads all lines.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let mut costs = Vec::new();
        for kind in KINDS {
            let line = text.lines().find(|line| line.split_whitespace().nth(1) == Some(kind));
            let line =
                line.with_context(|| format!("the script says nothing of {kind}\n{text}"))?;
            let cost = cost(line).with_context(|| format!("no figures in: {line}"))?;
            ensure!(cost.rate > 0.0, "no request was served\n{text}");
            costs.push(cost);
        }
        let resident =
            text.lines().find_map(|line| line.split_once(" resident ")?.1.split_once(' '));
        let resident = resident.and_then(|(kb, _)| kb.parse().ok());
        Ok(Self { costs, resident_kb: resident.context("the script says nothing of memory")? })
    }
}

/// `NAME KIND R req/s C us CPU/request 16 conn p50 A p99 B 1 conn p50 C p99 D errors E`.
fn cost(line: &str) -> Option<Cost> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |what: &str| {
        let place = words.iter().position(|word| *word == what)?;
        words.get(place.checked_sub(1)?)?.parse().ok()
    };
    let after = |what: &str, nth: usize| {
        let place = words.iter().enumerate().filter(|(_, word)| **word == what).nth(nth)?.0;
        words.get(place + 1).copied()
    };
    let ms = |what, nth| millis(after(what, nth)?);
    Some(Cost {
        rate: before("req/s")?,
        cpu_us: before("us")?,
        latency_ms: [ms("p50", 0)?, ms("p99", 0)?, ms("p50", 1)?, ms("p99", 1)?],
        errors: after("errors", 0)?.parse().ok()?,
    })
}

/// `wrk` says 850.00us, 1.23ms, 1.50s.
fn millis(text: &str) -> Option<f64> {
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    number.parse().ok().map(|number: f64| number * factor)
}

#[cfg(test)]
mod tests {
    use super::{Cost, KINDS, Printed, cost, millis};

    const LINE: &str = "a-b 1k_0  8000 req/s  72.1 us CPU/request  16 conn p50 1.50ms p99 2.50ms  \
                        1 conn p50 100.00us p99 1.00s  errors 3";

    #[test]
    fn a_line_of_the_script_is_read() {
        let latency_ms = [1.5, 2.5, 0.1, 1_000.0];
        let expected = Cost { rate: 8_000.0, cpu_us: 72.1, latency_ms, errors: 3.0 };
        assert_eq!(cost(LINE), Some(expected));
        assert_eq!(cost("a 1k_0 nan"), None);
        assert_eq!(millis("12"), None);
    }

    #[test]
    fn a_kind_that_is_missing_is_named() {
        let mut text: String = KINDS.iter().map(|kind| LINE.replace("1k_0", kind) + "\n").collect();
        let error = Printed::read(&text).unwrap_err().to_string();
        assert_eq!(error, "the script says nothing of memory");
        text += "a-b resident 90000 KB\n";
        assert!((Printed::read(&text).unwrap().resident_kb - 9e4).abs() < 1e-9);
        let error = Printed::read(&text.replace("32k_1", "x")).unwrap_err().to_string();
        assert!(error.starts_with("the script says nothing of 32k_1"), "{error}");
    }
}
