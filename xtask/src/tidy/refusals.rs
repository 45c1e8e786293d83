//! Holds the reference of refusals to the enum of refusals.

use forebay_core::RefusalReason;

use super::Findings;
use crate::workspace::Source;

/// The page that says what each refusal means.
const PAGE: &str = "docs/reference/refusals.md";

/// Checks that each reason has one row on the page, with its label and its status.
pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    let page = sources.iter().find(|source| source.path == PAGE);
    let text = page.and_then(|page| page.text.as_deref()).unwrap_or_default();
    for reason in RefusalReason::ALL {
        let row = format!("| `{}` | {} |", reason.label(), reason.status());
        let rows = text.lines().filter(|line| line.starts_with(&row)).count();
        if rows != 1 {
            let what = format!("{rows} rows start with {row}");
            findings.add(
                PAGE,
                1,
                what,
                "give each refusal one row, with its label and HTTP status",
            );
        }
    }
    for (nth, line) in text.lines().enumerate() {
        let label = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
        if label.is_some_and(|label| RefusalReason::ALL.iter().all(|it| it.label() != label)) {
            findings.add(PAGE, nth + 1, "a row for no refusal", "take it out");
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::RefusalReason;

    use super::{PAGE, check};
    use crate::tidy::tests::{found, source};

    fn page() -> String {
        let row = |it: &RefusalReason| format!("| `{}` | {} | why |\n", it.label(), it.status());
        RefusalReason::ALL.iter().map(row).collect()
    }

    #[test]
    fn a_page_with_a_row_for_each_refusal_is_right() {
        assert_eq!(found(|it| check(&[source(PAGE, &page())], it)), [""; 0]);
    }

    #[test]
    fn a_missing_row_a_wrong_status_and_a_row_too_many_are_found() {
        let missing = page().replace("| `shed` | 503 | why |\n", "");
        let expected = ["1: 0 rows start with | `shed` | 503 |"];
        assert_eq!(found(|it| check(&[source(PAGE, &missing)], it)), expected);
        let wrong = page().replace("| `shed` | 503 |", "| `shed` | 500 |");
        assert_eq!(found(|it| check(&[source(PAGE, &wrong)], it)), expected);
        let more = page() + "| `gone` | 410 | why |\n";
        assert_eq!(found(|it| check(&[source(PAGE, &more)], it)), ["21: a row for no refusal"]);
    }

    #[test]
    fn a_missing_page_lacks_every_refusal() {
        assert_eq!(found(|it| check(&[], it)).len(), RefusalReason::ALL.len());
    }
}
