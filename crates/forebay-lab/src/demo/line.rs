//! Says in one line what happens now, as long as the line may be.

use forebay_core::Span;

use super::gauges::Gauges;
use super::seen::Lately;

/// What happens now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    elapsed: Span,
    lately: Lately,
    gauges: Gauges,
}

impl Line {
    pub(super) fn of(elapsed: Span, lately: &Lately, gauges: Gauges) -> Self {
        Self { elapsed, lately: lately.clone(), gauges }
    }

    /// The line within so many columns: in full words, else in short ones, else without its end.
    pub(super) fn within(&self, columns: usize) -> String {
        let fits = |line: &String| line.chars().count() <= columns;
        let mut whole = [true, false].map(|in_full| joined(&self.fields(in_full))).into_iter();
        if let Some(line) = whole.find(fits) {
            return line;
        }
        let mut fields = self.fields(false);
        while fields.len() > 1 && !fits(&joined(&fields)) {
            fields.pop();
        }
        joined(&fields).chars().take(columns).collect()
    }

    /// What it says, the most telling first.
    fn fields(&self, in_full: bool) -> Vec<String> {
        let Self { elapsed, lately, gauges } = self;
        let secs = elapsed.0 / 1_000_000_000;
        let ttft = match lately.ttft {
            None => "TTFT -".to_owned(),
            Some((p50, p90)) => {
                let [p50, p90] = [p50, p90].map(|ttft| seconds(ttft.as_secs_f64()));
                if in_full {
                    format!("TTFT p50 {p50} s p90 {p90} s")
                } else {
                    format!("TTFT {p50}/{p90} s")
                }
            }
        };
        let kv = match gauges.committed / gauges.capacity {
            share if share.is_finite() => format!("KV {:.0} %", share * 100.0),
            _ => "KV -".to_owned(),
        };
        vec![
            format!("{}:{:02}", secs / 60, secs % 60),
            format!("{}{:.1}/s", if in_full { "offered " } else { "" }, lately.per_s),
            format!("running {:.0}", gauges.running),
            format!("waiting {:.0}", gauges.waiting),
            ttft,
            format!("refused {}", lately.refused),
            kv,
        ]
    }
}

fn joined(fields: &[String]) -> String {
    fields.join("  ")
}

/// Seconds with about three digits.
pub(super) fn seconds(secs: f64) -> String {
    let decimals = match secs {
        secs if secs < 9.995 => 2,
        secs if secs < 99.95 => 1,
        _ => 0,
    };
    format!("{secs:.decimals$}")
}

#[cfg(test)]
mod tests {
    use forebay_core::Span;

    use super::{Gauges, Lately, Line, seconds};

    fn line() -> Line {
        let lately = Lately {
            per_s: 22.14,
            ttft: Some((Span::millis(420), Span::millis(12_340))),
            refused: 17,
        };
        let gauges =
            Gauges { waiting: 131.0, running: 60.0, committed: 186_000.0, capacity: 200_000.0 };
        Line::of(Span::secs(72), &lately, gauges)
    }

    #[test]
    fn a_wide_line_has_whole_words_and_a_narrow_one_loses_its_end() {
        let full = "1:12  offered 22.1/s  running 60  waiting 131  TTFT p50 0.42 s p90 12.3 s  \
                    refused 17  KV 93 %";
        let short = "1:12  22.1/s  running 60  waiting 131  TTFT 0.42/12.3 s  refused 17  KV 93 %";
        assert_eq!(line().within(100), full);
        assert_eq!(line().within(80), short);
        assert_eq!(line().within(76), short);
        assert_eq!(line().within(57), "1:12  22.1/s  running 60  waiting 131  TTFT 0.42/12.3 s");
        assert_eq!(line().within(3), "1:1");
        assert_eq!(line().within(0), "");
    }

    #[test]
    fn what_is_not_known_yet_is_a_dash() {
        let line = Line::of(Span::ZERO, &Lately::default(), Gauges::default());
        assert_eq!(
            line.within(80),
            "0:00  offered 0.0/s  running 0  waiting 0  TTFT -  refused 0  KV -"
        );
    }

    #[test]
    fn seconds_have_about_three_digits() {
        let shown = [0.004, 0.42, 9.994, 9.996, 99.94, 99.96, 1234.5].map(seconds);
        assert_eq!(shown, ["0.00", "0.42", "9.99", "10.0", "99.9", "100", "1234"]);
    }
}
