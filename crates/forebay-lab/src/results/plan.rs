//! Checks that every request of a plan is accounted for, once, in a bit a request.

use super::summary::Conservation;
use super::{Invalid, Outcome, ROWS_MAX, Row};

/// The places of a plan that were seen.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) rows: u64,
    seen: Vec<u64>,
    distinct: u64,
    contradictory: u64,
    /// The place after the last one that was seen.
    end: u64,
}

impl Plan {
    pub(super) fn add(&mut self, row: &Row) {
        self.rows += 1;
        let ended = row.last().map_or(Outcome::NotSent, |last| last.outcome);
        self.contradictory += u64::from(ended != row.outcome);
        self.end = self.end.max(row.request.saturating_add(1));
        // A place beyond any plan can't be marked: it counts as a row, and what is missing before
        // it shows.
        if row.request >= ROWS_MAX {
            return;
        }
        let (word, bit) = ((row.request / 64) as usize, 1 << (row.request % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        self.distinct += u64::from(self.seen[word] & bit == 0);
        self.seen[word] |= bit;
    }

    pub(super) const fn conservation(&self) -> Conservation {
        let (rows, distinct, contradictory) = (self.rows, self.distinct, self.contradictory);
        let (missing, repeated) = (self.end - distinct, rows - distinct);
        let holds = missing == 0 && repeated == 0 && contradictory == 0;
        Conservation { holds, rows, missing, repeated, contradictory }
    }
}

impl Conservation {
    /// What is said of a run in which it does not hold.
    pub(super) fn fault(&self) -> Invalid {
        let Self { rows, missing, repeated, contradictory, .. } = self;
        let what = format!(
            "{rows} rows, of which {repeated} repeat a request and {contradictory} contradict \
             their attempts; {missing} requests have none: figures over all offered can't be \
             trusted; run it again, and report this if it stays so"
        );
        Invalid { reason: "conservation".to_owned(), what }
    }
}
