//! Keeps what came of the demo's requests: of those of the last seconds, and of all.

use std::collections::VecDeque;
use std::fmt::Write as _;

use forebay_core::Span;

use super::line::seconds;
use crate::load::Tally;
use crate::results::Row;
use crate::simulate::Latency;

/// How far back "lately" goes.
const LATELY: Span = Span::secs(10);

/// What came of the requests so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    tally: Tally,
    /// When the requests of the last seconds were due, and the one that is to be sent next.
    due: VecDeque<Span>,
    /// When requests of the last seconds ended, and their TTFT.
    ended: VecDeque<(Span, Span)>,
    planned: u64,
    /// How many were refused by the limit on the wait that their class sets.
    shed: u64,
    length: Span,
}

/// What came of the requests of the last seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lately {
    /// Requests a second that were sent.
    pub(super) per_s: f64,
    /// TTFT p50 and p90 of those that were completed.
    pub(super) ttft: Option<(Span, Span)>,
    /// All that were refused so far.
    pub(super) refused: u64,
}

impl Seen {
    /// One more request will be sent at this moment.
    pub(super) fn plan(&mut self, at: Span) {
        self.planned += 1;
        self.due.push_back(at);
    }

    /// One request is over.
    pub(super) fn add(&mut self, row: &Row) {
        self.tally.add(row);
        let Some(last) = row.last() else { return };
        let is_shed = |error: &str| error.contains("\"code\":\"shed\"");
        self.shed += u64::from(last.error.as_deref().is_some_and(is_shed));
        if let Some(ttft) = row.ttft() {
            self.ended.push_back((last.end, ttft));
        }
    }

    /// The last seconds before this moment.
    pub(super) fn lately(&mut self, now: Span) -> Lately {
        let from = Span(now.0.saturating_sub(LATELY.0));
        while self.due.front().is_some_and(|at| *at < from) {
            self.due.pop_front();
        }
        while self.ended.front().is_some_and(|(end, _)| *end < from) {
            self.ended.pop_front();
        }
        let sent = self.due.iter().filter(|at| **at <= now).count();
        let over_s = now.as_secs_f64().min(LATELY.as_secs_f64());
        let mut ttft: Vec<Span> = self.ended.iter().map(|(_, ttft)| *ttft).collect();
        ttft.sort_unstable();
        let rank = |percent: usize| ttft[(ttft.len() * percent).div_ceil(100) - 1];
        Lately {
            per_s: if over_s > 0.0 { sent as f64 / over_s } else { 0.0 },
            ttft: (!ttft.is_empty()).then(|| (rank(50), rank(90))),
            refused: self.tally.refused(),
        }
    }

    /// The demo has ended.
    pub(super) fn end(&mut self, now: Span) {
        self.length = now;
    }

    /// All that were offered: the one that is made but not due yet is not.
    fn offered(&self) -> u64 {
        let early = self.due.iter().filter(|at| **at > self.length).count() as u64;
        self.planned - early.min(self.planned)
    }

    /// How many were refused by their class's limit on the wait, and of how many; `None` if none.
    pub fn shed(&self) -> Option<(u64, u64)> {
        (self.shed > 0).then(|| (self.shed, self.offered()))
    }

    /// Says what was seen, over all that were offered and over those that were completed.
    pub fn told(&self) -> String {
        let all = self.tally.summary();
        let offered = self.offered();
        let under_way = offered.saturating_sub(all.offered);
        let mut text =
            format!("{:.0} s, {offered} requests offered\n\n", self.length.as_secs_f64());
        let share = |count: u64| 100.0 * count as f64 / offered.max(1) as f64;
        let mut count = |what: &str, count: u64, more: &str| {
            let _ = writeln!(text, "  {what:<12}{count:>8}{:>7.1} %{more}", share(count));
        };
        count("completed", all.completed, "");
        count("refused", all.refused, "");
        count("under way", under_way, "  when it ended");
        for (what, none) in [("failed", all.failed), ("timed out", all.timed_out)] {
            if none > 0 {
                count(what, none, "");
            }
        }
        if all.not_sent > 0 {
            count("not sent", all.not_sent, "  too many were under way");
        }
        text.push_str("\n  TTFT              p50      p99  longest\n");
        let mut row = |of: &str, ttft: &Latency| {
            let [p50, p99, max] = [ttft.p50, ttft.p99, ttft.max].map(|it| shown(it.0));
            let _ = writeln!(text, "  {of:<12}{p50:>9}{p99:>9}{max:>9}");
        };
        row("completed", &self.tally.completed_ttft_ms());
        row("all ended", &all.ttft_ms);
        text
    }
}

/// A latency in milliseconds as seconds, or that it never came.
fn shown(millis: Option<f64>) -> String {
    millis.map_or_else(|| "never".to_owned(), |millis| format!("{} s", seconds(millis / 1e3)))
}

#[cfg(test)]
mod tests {
    use forebay_core::Span;

    use super::{Lately, Seen};
    use crate::results::{Attempt, Outcome, Row};

    fn row(scheduled: u64, first: Option<u64>, end: u64, outcome: Outcome) -> Row {
        let scheduled = Span::secs(scheduled);
        let attempt = Attempt {
            first_token: first.map(Span::secs),
            end: Span::secs(end),
            outcome,
            ..Attempt::new(scheduled, 0)
        };
        Row { attempts: vec![attempt], ..Row::new(0, scheduled, outcome) }
    }

    fn seen() -> Seen {
        let mut seen = Seen::default();
        (0..=20).for_each(|at| seen.plan(Span::secs(at)));
        seen.add(&row(0, Some(3), 5, Outcome::Completed));
        seen.add(&row(1, None, 1, Outcome::Refused));
        seen.add(&row(9, Some(10), 12, Outcome::Completed));
        seen.add(&row(9, Some(14), 14, Outcome::Completed));
        seen
    }

    #[test]
    fn lately_is_the_last_ten_seconds() {
        let mut seen = seen();
        let ttft = Some((Span::secs(1), Span::secs(5)));
        let lately = seen.lately(Span::secs(19));
        // From 9 to 19, both of them due.
        assert_eq!(lately, Lately { per_s: 1.1, ttft, refused: 1 });
        assert_eq!(seen.lately(Span::secs(40)), Lately { per_s: 0.0, ttft: None, refused: 1 });
        assert_eq!(Seen::default().lately(Span::ZERO), Lately::default());
    }

    #[test]
    fn the_end_counts_everything_that_was_offered() {
        let mut seen = seen();
        seen.end(Span::secs(19));
        assert_eq!(
            seen.told(),
            "19 s, 20 requests offered\n\
             \n\
             \x20 completed          3   15.0 %\n\
             \x20 refused            1    5.0 %\n\
             \x20 under way         16   80.0 %  when it ended\n\
             \n\
             \x20 TTFT              p50      p99  longest\n\
             \x20 completed      3.00 s   5.00 s   5.00 s\n\
             \x20 all ended      3.00 s    never    never\n"
        );
        assert_eq!(seen.shed(), None);
        let mut shed = row(3, None, 3, Outcome::Refused);
        shed.attempts[0].error = Some("{\"error\":{\"class\":\"load\",\"code\":\"shed\"}}".into());
        seen.add(&shed);
        assert_eq!(seen.shed(), Some((1, 20)));
        assert!(Seen::default().told().starts_with("0 s, 0 requests offered\n"));
    }
}
