//! Turns signals of the operating system into a stop, or into a reload.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::stop::{Phase, Stop};

/// Asks for a stop at each SIGTERM and SIGINT, and calls `on_hangup` at each SIGHUP, until the
/// gateway has ended. From the first call on the process no longer dies of them.
pub(crate) async fn obey_signals(stop: Stop, mut on_hangup: impl FnMut()) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => ask(&stop, "SIGTERM"),
            _ = interrupt.recv() => ask(&stop, "SIGINT"),
            _ = hangup.recv() => on_hangup(),
            () = stop.reached(Phase::Ended) => return Ok(()),
        }
    }
}

fn ask(stop: &Stop, signal: &str) {
    stop.ask();
    tracing::info!(signal, phase = ?stop.phase(), "stopping");
}
