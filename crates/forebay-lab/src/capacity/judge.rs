//! Judges rates by all runs that say something about them.
//!
//! Runs at one rate are laid end to end and judged as one long run is: in blocks by their schedule,
//! whose number and correlation are seen (see [`crate::compare`]). As a block each, three runs
//! would have two degrees of freedom and hardly ever show anything.
//!
//! A rate is also judged together with what was run on the far side of it: if the criteria hold
//! over runs at this rate and at higher ones, they hold at this one, since a higher rate passes no
//! more often; and if they fail over runs at this rate and at lower ones, they fail at this one.

use forebay_core::Span;

use crate::compare::comparison::ArmFigures;
use crate::compare::{self, Arm, Block, CompareError, Options};
use crate::drill::criteria::Criteria;
use crate::drill::verdict::Outcome;
use crate::results::{Results, Run};
use crate::stats::search::{Looks, Shown};

/// What runs came to.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) figures: ArmFigures,
    pub(super) looks: Looks,
    pub(super) shown: Option<Shown>,
}

/// Judges runs as one, with an error of `alpha` on either side.
pub(super) fn judge(
    runs: &[&Run],
    criteria: &Criteria,
    seed: u64,
    alpha: f64,
) -> Result<Judged, CompareError> {
    let run = end_to_end(runs);
    let block = Block { from: String::new(), results: Results::Run(Box::new(run)) };
    let arm = Arm { label: "rate".to_owned(), runs: vec![block] };
    let options = Options { seed, confidence: 1.0 - alpha, ..Options::default() };
    let mut comparison = compare::compare(&[arm], criteria, &options)?;
    let figures = comparison.arms.remove(0);
    let met = criteria.list().iter().zip(&figures.findings).all(|(criterion, finding)| {
        // What is not known, such as a class that no request has, speaks for neither.
        finding.seen.value.is_none_or(|value| criterion.passes(value))
    });
    let shown = match figures.outcome.0 {
        Outcome::Go => Some(Shown::Holds),
        Outcome::NoGo => Some(Shown::Fails),
        Outcome::Inconclusive => None,
    };
    Ok(Judged { figures, looks: if met { Looks::Well } else { Looks::Ill }, shown })
}

/// Runs one after the other, as if they were one.
fn end_to_end(runs: &[&Run]) -> Run {
    let mut whole = Run { about: runs[0].about.clone(), rows: Vec::new() };
    let mut from = Span::ZERO;
    for run in runs {
        let mut last = Span::ZERO;
        for row in run.rows.iter().filter(|row| !row.is_warmup) {
            let mut row = row.clone();
            last = last.max(row.scheduled);
            row.request = whole.rows.len() as u64;
            row.session = None;
            row.scheduled = row.scheduled + from;
            row.attempts.iter_mut().for_each(|attempt| shift(attempt, from));
            whole.rows.push(row);
        }
        // What comes later must be due later: the order of the schedule makes the blocks.
        from = from + last + Span::secs(1);
    }
    whole
}

fn shift(attempt: &mut crate::results::Attempt, by: Span) {
    let later = |moment: &mut Span| *moment = *moment + by;
    later(&mut attempt.due);
    later(&mut attempt.end);
    let moments = [
        &mut attempt.dequeued,
        &mut attempt.connected,
        &mut attempt.written,
        &mut attempt.first_byte,
        &mut attempt.first_token,
        &mut attempt.first_answer,
    ];
    moments.into_iter().flatten().for_each(later);
    attempt.chunks.iter_mut().for_each(later);
}
