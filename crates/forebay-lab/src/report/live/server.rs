//! Holds refusals as servers count them against those that clients saw.

use super::Live;
use crate::compare::comparison::ArmFigures;
use crate::report::frame::narrow;
use crate::report::html::Table;

/// Whether the server counted what the clients saw; `None` where nobody knows.
pub(super) fn agrees(live: &Live<'_>, arm: &ArmFigures) -> Option<bool> {
    let counted = live.counted_by_server.get(&arm.label)?;
    let seen = arm.wasted.map(|wasted| wasted.refused_attempts);
    counted.agrees.or(seen.map(|seen| seen == counted.refused))
}

/// Both beside each other; `None` where nobody asked a server.
pub(super) fn section(live: &Live<'_>) -> Option<String> {
    let mut table = Table::new(
        "Attempts refused, as counted on both sides. They must be equal: else something between \
         the two refuses, or retries.",
        &["arm", "by the server", "seen by clients", "equal"],
    );
    for arm in &live.comparison.arms {
        let Some(counted) = live.counted_by_server.get(&arm.label) else { continue };
        let seen = arm.wasted.map(|wasted| wasted.refused_attempts);
        let equal = match agrees(live, arm) {
            Some(true) => "yes",
            Some(false) if seen == Some(counted.refused) => "no: in sum, but not in each run",
            Some(false) => "no",
            None => "not known from a summary",
        };
        table.row([
            arm.label.clone(),
            counted.refused.to_string(),
            seen.map_or("–".to_owned(), |seen| seen.to_string()),
            equal.to_owned(),
        ]);
    }
    (!table.rows.is_empty()).then(|| narrow(&table))
}
