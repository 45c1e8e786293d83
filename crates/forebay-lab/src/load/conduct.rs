//! Runs a plan while its rows are written and somebody watches.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Span;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    Bodies, Calibration, CalibrationError, Ended, Planned, Settings, View, calibrate, run,
};
use crate::results::{Fault, ResultsError, Row, RunFolder};

/// How often the live line is drawn: often enough to look alive, seldom enough to be read.
const DRAWN_EVERY: Duration = Duration::from_millis(500);
/// Words of the probes that lengths are calibrated with: from what the shortest prompts have to
/// what every model takes.
const PROBES: [u64; 3] = [32, 256, 1_024];
/// How long a probe may take.
const PROBE_PATIENCE: Span = Span::secs(60);

/// Sends a plan and writes each row into the folder as its request ends. A folder that can't be
/// written to stops the run.
pub async fn conduct(
    plan: impl Iterator<Item = Planned>,
    settings: &Settings,
    folder: &mut RunFolder,
    mut view: View,
    stop: impl Future<Output = ()>,
) -> Result<Ended, ResultsError> {
    let (unwritable, is_full) = (RefCell::new(None), Notify::new());
    let (start, seen) = (Instant::now(), RefCell::new(&mut view));
    let each = |row: Row| {
        seen.borrow_mut().add(&row);
        if unwritable.borrow().is_none()
            && let Err(error) = folder.push(&row)
        {
            *unwritable.borrow_mut() = Some(error);
            is_full.notify_one();
        }
    };
    let stop = async {
        tokio::select! {
            () = stop => {}
            () = is_full.notified() => {}
        }
    };
    let mut load = pin!(run(plan, settings, each, stop));
    let mut ticks = interval(DRAWN_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            ended = &mut load => break ended,
            _ = ticks.tick() => {
                let now = Span(start.elapsed().as_nanos() as u64);
                seen.borrow_mut().draw(now, &settings.pulse);
            }
        }
    };
    seen.borrow().clear();
    match unwritable.take() {
        None => Ok(ended),
        Some(error) => Err(error),
    }
}

/// Why lengths can't be calibrated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// Nobody is there.
    #[error(
        "{0}\nhint: see that the target is up, and that its URL and the version of HTTP are right"
    )]
    Unreachable(String),
    /// The target does not answer a probe.
    #[error("a probe teaches nothing: {0}\nhint: send prompts without calibration")]
    Unserved(String),
    /// What it answers teaches nothing.
    #[error(transparent)]
    Untold(#[from] CalibrationError),
}

/// Learns how many tokens a word is, from what the target says it used for a few probes, one after
/// the other.
pub async fn probe(bodies: &Bodies, settings: &Settings) -> Result<Calibration, ProbeError> {
    let settings = Settings {
        users: None,
        patience: PROBE_PATIENCE,
        pulse: Arc::default(),
        ..settings.clone()
    };
    let mut told = Vec::new();
    for (nth, words) in (0..).zip(PROBES) {
        let planned = Planned { body: bodies.probe(nth, words), ..Planned::default() };
        let mut row = None;
        let each = |ended: Row| row = Some(ended);
        run(std::iter::once(planned), &settings, each, std::future::pending()).await;
        let last = row.as_ref().and_then(Row::last);
        let served = row.as_ref().is_some_and(|row| row.e2e().is_some());
        match last.and_then(|last| last.usage.prompt_tokens).filter(|_| served) {
            Some(tokens) => told.push((words, tokens)),
            None if served => return Err(unserved("it says nothing of the tokens it used")),
            None => {
                let said = last.and_then(|last| last.error.as_deref()).unwrap_or("no answer");
                let is_gone = last.is_some_and(|last| last.fault == Some(Fault::Connect));
                return Err(if is_gone {
                    ProbeError::Unreachable(said.to_owned())
                } else {
                    unserved(said)
                });
            }
        }
    }
    Ok(calibrate(&told)?)
}

fn unserved(said: &str) -> ProbeError {
    ProbeError::Unserved(said.to_owned())
}
