//! Collects what a reader passed over, for the caller to print.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a reader passed over or put right: skipped rows, rows out of order. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Notes(Rc<RefCell<BTreeMap<&'static str, Note>>>);

/// How often something was passed over, and where first.
#[derive(Clone, Copy, Debug)]
struct Note {
    rows: u64,
    first_line: u64,
}

impl Notes {
    /// Counts one row of which `what` is true.
    pub(super) fn add(&self, what: &'static str, line: u64) {
        let mut notes = self.0.borrow_mut();
        notes.entry(what).or_insert(Note { rows: 0, first_line: line }).rows += 1;
    }

    /// One sentence for each kind of note, in a stable order. Complete once the trace has been read
    /// to its end.
    pub fn lines(&self) -> Vec<String> {
        let sentence = |(what, note): (&&str, &Note)| {
            let (rows, first) = (note.rows, note.first_line);
            if rows == 1 {
                format!("1 row {what}: line {first}")
            } else {
                format!("{rows} rows {what}: the first is line {first}")
            }
        };
        self.0.borrow().iter().map(sentence).collect()
    }
}
