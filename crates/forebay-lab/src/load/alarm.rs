//! Waits for a moment, to some dozens of microseconds where the system can.
//!
//! The runtime's own timers go by whole milliseconds, which alone would make a generator half a
//! millisecond late on average. Linux has timers that are files, so that the same loop that
//! watches the sockets wakes for them.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// An alarm clock for one moment at a time.
#[derive(Debug)]
pub(super) struct Alarm {
    /// `None` where the system has no such timer.
    precise: Option<precise::Timer>,
}

impl Alarm {
    /// A clock that is not set.
    pub(super) fn new() -> Self {
        Self { precise: precise::Timer::new() }
    }

    /// Returns at this moment, or at once where it has passed.
    pub(super) async fn wait_until(&mut self, due: Instant) {
        if due <= Instant::now() {
            return;
        }
        match &mut self.precise {
            Some(timer) => {
                while due > Instant::now() {
                    if timer.expires(due).await.is_err() {
                        // A system that takes its timer back still has the runtime's.
                        sleep_until(due).await;
                    }
                }
            }
            None => sleep_until(due).await,
        }
    }
}

#[cfg(target_os = "linux")]
mod precise {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;
    use tokio::time::Instant;

    use super::Duration;

    /// A timer of the kernel.
    #[derive(Debug)]
    pub(super) struct Timer {
        file: AsyncFd<OwnedFd>,
        /// What it is set to.
        set: Option<Instant>,
    }

    impl Timer {
        pub(super) fn new() -> Option<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let file = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
            #[expect(deprecated, reason = "an owned file stays open for as long as it is watched")]
            let file = AsyncFd::new(file).ok()?;
            Some(Self { file, set: None })
        }

        /// Returns when the timer has expired, which may have been set to another moment before.
        pub(super) async fn expires(&mut self, due: Instant) -> io::Result<()> {
            if self.set != Some(due) {
                self.set = None;
                let left = due.saturating_duration_since(Instant::now());
                // Zero would unset it.
                let left = left.max(Duration::from_nanos(1));
                let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
                let it_value = Timespec {
                    tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: left.subsec_nanos().into(),
                };
                let once = Itimerspec { it_interval: zero, it_value };
                timerfd_settime(self.file.get_ref(), TimerfdTimerFlags::empty(), &once)?;
                self.set = Some(due);
            }
            let mut ready = self.file.readable().await?;
            let mut count = [0; 8];
            let read = ready.try_io(|file| Ok(rustix::io::read(file.get_ref(), &mut count)?));
            match read {
                Ok(Ok(_)) => {
                    self.set = None;
                    // One expiry is all there is to read.
                    ready.clear_ready();
                }
                Ok(Err(error)) => return Err(error),
                // It was the expiry of an earlier setting.
                Err(_) => {}
            }
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod precise {
    use std::io;

    use tokio::time::Instant;

    /// No timer.
    #[derive(Debug)]
    pub(super) enum Timer {}

    impl Timer {
        pub(super) const fn new() -> Option<Self> {
            None
        }
        pub(super) async fn expires(&mut self, _: Instant) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Alarm;

    #[tokio::test]
    async fn it_never_rings_early_whatever_it_was_set_to_before() {
        let mut alarm = Alarm::new();
        let begun = Instant::now();
        for millis in [1, 3, 2, 9, 0] {
            let due = begun + Duration::from_millis(millis);
            alarm.wait_until(due).await;
            assert!(Instant::now() >= due, "set to {millis} ms");
        }
        // A wait that is given up leaves the clock set to its moment.
        let now = Instant::now();
        let soon = now + Duration::from_millis(4);
        for far in [Duration::from_mins(1), Duration::from_millis(1)] {
            tokio::select! {
                biased;
                () = alarm.wait_until(now + far) => {}
                () = tokio::task::yield_now() => {}
            }
        }
        alarm.wait_until(soon).await;
        assert!(Instant::now() >= soon);
    }
}
