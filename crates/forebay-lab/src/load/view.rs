//! Shows on a terminal how a run goes.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};

use forebay_core::Span;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::termios::tcgetwinsize;

use super::Pulse;
use crate::results::{Outcome, Row};

/// How far back "lately" goes.
const LATELY: Span = Span::secs(10);
/// Columns of a terminal that does not say.
const COLUMNS_USUAL: u16 = 80;

/// A line that lives, where standard error is a terminal; elsewhere nothing.
#[derive(Debug)]
pub struct View {
    bar: Option<ProgressBar>,
    /// When the last request is due, where that is known.
    last: Option<Span>,
    seen: Seen,
}

/// What came of the requests of the last seconds.
#[derive(Debug, Default)]
struct Seen {
    /// When requests ended, and their TTFT.
    ended: VecDeque<(Span, Span)>,
    /// How many were sent by when.
    sent: VecDeque<(Span, u64)>,
    refused: u64,
}

impl View {
    /// A view of a run whose last request is due then.
    pub fn new(last: Option<Span>) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}").expect("the template is a known key");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Self { bar, last, seen: Seen::default() }
    }

    /// One request is over.
    pub(super) fn add(&mut self, row: &Row) {
        if self.bar.is_some() {
            self.seen.add(row);
        }
    }

    /// Draws the line as it is at this moment.
    pub(super) fn draw(&mut self, now: Span, pulse: &Pulse) {
        let Some(bar) = &self.bar else { return };
        let line = self.seen.line(now, pulse, self.last);
        let columns = tcgetwinsize(io::stderr()).map_or(COLUMNS_USUAL, |size| size.ws_col);
        let columns = if columns == 0 { COLUMNS_USUAL } else { columns };
        // A line as wide as the terminal would move its cursor to the next.
        bar.set_message(line.chars().take(usize::from(columns) - 1).collect::<String>());
        bar.tick();
    }

    /// Takes the line away, so that whatever is printed next starts on a clean one.
    pub(super) fn clear(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Seen {
    fn add(&mut self, row: &Row) {
        self.refused += u64::from(row.outcome == Outcome::Refused);
        if let Some((ttft, last)) = row.ttft().zip(row.last()) {
            self.ended.push_back((last.end, ttft));
        }
    }

    fn line(&mut self, now: Span, pulse: &Pulse, last: Option<Span>) -> String {
        let from = now - Span(now.0.min(LATELY.0));
        while self.ended.front().is_some_and(|(end, _)| *end < from) {
            self.ended.pop_front();
        }
        while self.sent.front().is_some_and(|(at, _)| *at < from) {
            self.sent.pop_front();
        }
        self.sent.push_back((now, pulse.sent()));
        let (since, before) = self.sent.front().copied().unwrap_or_default();
        let over_s = (now - since).as_secs_f64();
        let per_s = if over_s > 0.0 { (pulse.sent() - before) as f64 / over_s } else { 0.0 };
        let mut ttft: Vec<Span> = self.ended.iter().map(|(_, ttft)| *ttft).collect();
        ttft.sort_unstable();
        let rank = |percent: usize| {
            let place = (ttft.len() * percent).div_ceil(100).checked_sub(1)?;
            ttft.get(place).map(|ttft| format!("{:.2}", ttft.as_secs_f64()))
        };
        let [p50, p90] = [50, 90].map(|percent| rank(percent).unwrap_or_else(|| "-".to_owned()));
        let left = last.map_or_else(String::new, |last| {
            let secs = (last.0.saturating_sub(now.0)).div_ceil(1_000_000_000);
            format!("  {}:{:02} left", secs / 60, secs % 60)
        });
        format!(
            "{per_s:.1}/s  in flight {}  TTFT p50 {p50} s p90 {p90} s  refused {}  own lag {:.1} ms\
             {left}",
            pulse.in_flight(),
            self.refused,
            pulse.take_lag_max().as_millis_f64(),
        )
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Span;

    use super::Seen;
    use crate::load::Pulse;
    use crate::results::{Attempt, Outcome, Row};

    fn row(end_s: u64, ttft_s: u64, outcome: Outcome) -> Row {
        let (end, scheduled) = (Span::secs(end_s), Span::secs(end_s - ttft_s));
        let attempt = Attempt { end, outcome, ..Attempt::new(scheduled, 0) };
        Row { attempts: vec![attempt], ..Row::new(0, scheduled, outcome) }
    }

    #[test]
    fn a_line_tells_of_the_last_ten_seconds() {
        let (mut seen, pulse) = (Seen::default(), Pulse::default());
        let begins = "0.0/s  in flight 0  TTFT p50 - s p90 - s  refused 0  own lag 0.0 ms";
        assert_eq!(seen.line(Span::ZERO, &pulse, None), begins);
        seen.add(&row(3, 3, Outcome::Completed));
        seen.add(&row(14, 2, Outcome::Completed));
        seen.add(&row(15, 1, Outcome::Refused));
        (0..30).for_each(|_| pulse.sends(Span::millis(2)));
        assert_eq!(
            seen.line(Span::secs(10), &pulse, Some(Span::secs(75))),
            "3.0/s  in flight 0  TTFT p50 2.00 s p90 3.00 s  refused 1  own lag 2.0 ms  1:05 left"
        );
        let later = seen.line(Span::secs(20), &pulse, None);
        assert!(later.starts_with("0.0/s") && later.contains("p90 2.00 s"), "{later}");
    }
}
