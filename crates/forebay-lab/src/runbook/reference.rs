//! Takes the meaning of each refusal from the reference, so that it is written down once.

use forebay_core::RefusalReason;

const REFERENCE: &str = include_str!("../../../../docs/reference/refusals.md");

/// What the reference says of one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    /// When it happens.
    pub(super) when: String,
    /// What a client should do.
    pub(super) client: String,
}

impl Meaning {
    /// Of this reason.
    pub(super) fn of(reason: RefusalReason) -> Self {
        let label = format!("| `{}` |", reason.label());
        let row = REFERENCE.lines().find(|line| line.starts_with(&label)).unwrap_or("");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        // Links lead from the folder of the reference, and nowhere from a runbook.
        let cell = |nth: usize| without_links(cells.get(nth).copied().unwrap_or("–"));
        Self { when: cell(4), client: cell(5) }
    }
}

/// Text with the words of its links only.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        let link = after.split_once("](");
        let link = link.and_then(|(words, rest)| Some((words, rest.split_once(')')?.1)));
        let (words, behind) = link.unwrap_or(("[", after));
        out.push_str(words);
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use forebay_core::RefusalReason;

    use super::{Meaning, without_links};

    #[test]
    fn every_reason_has_its_row_in_the_reference() {
        for reason in RefusalReason::ALL {
            let meaning = Meaning::of(reason);
            assert!(meaning.when.len() > 5 && meaning.client.len() > 5, "{reason}: {meaning:?}");
        }
    }

    #[test]
    fn links_leave_their_words() {
        assert_eq!(
            without_links("see [the endpoints](../a.md), or [not"),
            "see the endpoints, or [not"
        );
    }
}
