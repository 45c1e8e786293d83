//! Finds runs that were given twice: the same requests would count as twice as many.

use super::{Arm, Block, CompareError};
use crate::results::Results;

/// Refuses an arm that holds one run twice, under whatever names.
pub(super) fn refuse_within(arm: &Arm) -> Result<(), CompareError> {
    for (nth, run) in arm.runs.iter().enumerate() {
        if let Some(other) = arm.runs[..nth].iter().find(|other| is_same(other, run)) {
            let (first, second) = (other.from.clone(), run.from.clone());
            return Err(CompareError::SameRun { arm: arm.label.clone(), first, second });
        }
    }
    Ok(())
}

/// A sentence for each run that is in two arms: held against itself, it can't differ.
pub(super) fn notes(arms: &[Arm]) -> Vec<String> {
    let mut notes = Vec::new();
    for (nth, arm) in arms.iter().enumerate() {
        for other in &arms[..nth] {
            let shared = arm.runs.iter().flat_map(|run| {
                other.runs.iter().filter(|it| is_same(it, run)).map(move |it| (it, run))
            });
            notes.extend(shared.map(|(first, second)| {
                format!(
                    "{} and {} share a run: {} and {} are the same one, so nothing can differ in \
                     it.",
                    other.label, arm.label, first.from, second.from
                )
            }));
        }
    }
    notes
}

/// Whether two runs are one: by what happened, not by where it lies.
fn is_same(one: &Block, other: &Block) -> bool {
    let (about, others) = (one.results.about(), other.results.about());
    let started = |about: &crate::results::About| {
        about
            .plan
            .clone()
            .filter(|_| about.started_unix_ms > 0)
            .map(|it| (it, about.started_unix_ms))
    };
    if started(about).is_some() && started(about) == started(others) {
        return true;
    }
    match (&one.results, &other.results) {
        (Results::Run(one), Results::Run(other)) => !one.rows.is_empty() && one.rows == other.rows,
        (Results::Figures(one), Results::Figures(other)) => {
            let told = |it: &crate::results::Figures| {
                (it.duration_s, it.ttft_ms.clone(), it.itl_ms.clone(), it.e2e_ms.clone())
            };
            // Figures to many digits are alike by chance only where there are none.
            one.duration_s.is_some() && one.counts == other.counts && told(one) == told(other)
        }
        _ => false,
    }
}
