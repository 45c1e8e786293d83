//! Turns signals of the operating system into a stop, or into a reload.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::stop::{Asked, Phase, Stop, StopTimes};

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
    match stop.ask() {
        Asked::Stop => tracing::info!(signal, "asked to stop; a second signal hurries"),
        Asked::Hurry => tracing::info!(
            signal,
            "hurries: what is left has {} s; a third signal cuts it",
            StopTimes::default().hurried_max.as_secs()
        ),
        Asked::Cut => tracing::warn!(signal, "what is left is cut now"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};
    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::obey_signals;
    use crate::listen::stop::{Phase, Stop};

    #[tokio::test]
    async fn hangups_reload_and_terminations_stop() {
        let (stop, hung_up) = (Stop::default(), Arc::new(Notify::new()));
        let told = Arc::clone(&hung_up);
        let obeying = tokio::spawn(obey_signals(stop.clone(), move || told.notify_one()));
        // It listens from its first turn on, which comes before this task's next one.
        tokio::task::yield_now().await;
        let forever = Duration::from_secs(20);
        kill_process(getpid(), Signal::HUP).unwrap();
        timeout(forever, hung_up.notified()).await.unwrap();
        assert_eq!(stop.phase(), Phase::Serving);
        kill_process(getpid(), Signal::TERM).unwrap();
        timeout(forever, stop.reached(Phase::Unready)).await.unwrap();
        kill_process(getpid(), Signal::INT).unwrap();
        timeout(forever, stop.hurried()).await.unwrap();
        stop.advance(Phase::Ended);
        timeout(forever, obeying).await.unwrap().unwrap().unwrap();
    }
}
