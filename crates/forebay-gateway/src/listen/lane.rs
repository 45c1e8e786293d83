//! Runs one lane: a thread, its runtime, and the connections that live on it.

use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::connection::{Desk, carry};
use super::counts::count;
use super::door::Place;
use super::pulse::{Doing, Order, Pulse};
use super::stop::{Phase, Stop};
use super::{ConnectionCounts, Handle, Listening};

/// How long an idle connection is kept once the gateway drains: a request that was on its way
/// when its answer said `connection: close` to nobody should still arrive.
const FAREWELL: Duration = Duration::from_millis(100);

/// The same for a connection on which nothing was asked yet.
const FIRST_WORD: Duration = Duration::from_secs(1);

/// How long a connection may go on after it was asked to close.
const LAST_STEPS: Duration = Duration::from_secs(5);

/// How long what a client still sends is read after the last answer.
const LINGER: Duration = Duration::from_secs(1);

/// A connection that comes in.
pub(super) struct Newcomer {
    pub(super) socket: StdStream,
    pub(super) addr: SocketAddr,
    pub(super) place: Place,
}

/// A lane, as the door sees it.
pub(super) struct Lane {
    pub(super) sender: mpsc::Sender<Newcomer>,
    pub(super) ended: oneshot::Receiver<()>,
    pub(super) thread: JoinHandle<()>,
}

/// Newcomers that a lane has not looked at yet. A lane that is this far behind takes no more.
const NEWCOMERS_MAX: usize = 1024;

/// Starts a lane.
pub(super) fn start<H: Handle>(
    desk: Desk<H>,
    limits: Limits,
    stop: Stop,
    index: usize,
) -> io::Result<Lane> {
    let (sender, newcomers) = mpsc::channel(NEWCOMERS_MAX);
    let (end, ended) = oneshot::channel();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name(format!("lane-{index}")).spawn(move || {
        runtime.block_on(run(Arc::new(desk), limits, newcomers, stop));
        // With the runtime go the tasks that are left, and what they hold.
        drop(runtime);
        // Nobody hears it where the door has given up on this lane.
        let _ = end.send(());
    })?;
    Ok(Lane { sender, ended, thread })
}

async fn run<H: Handle>(
    desk: Arc<Desk<H>>,
    limits: Limits,
    mut newcomers: mpsc::Receiver<Newcomer>,
    stop: Stop,
) {
    let mut ward = Ward { limits, slots: Vec::new(), counts: Arc::clone(&desk.counts) };
    let mut ticks = interval(ward.limits.tick());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut phase, mut open) = (stop.phase(), true);
    while (open || !ward.slots.is_empty()) && phase < Phase::Ended {
        desk.closing.store(phase >= Phase::Unready, Ordering::Relaxed);
        tokio::select! {
            newcomer = newcomers.recv(), if open => match newcomer {
                Some(newcomer) => ward.admit(&desk, newcomer),
                None => open = false,
            },
            now = ticks.tick(), if !ward.slots.is_empty() => ward.round(now, phase),
            later = stop.after(phase) => phase = later,
        }
    }
    ward.cut_all();
}

/// How long a connection may take for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    header: Duration,
    idle: Duration,
    pressed: Duration,
    write: Duration,
    /// Connections from which on there is pressure.
    pressed_at: usize,
}

impl Limits {
    pub(super) fn new(listening: &Listening, pressed_at: usize) -> Self {
        Self {
            header: listening.header_time_max,
            idle: listening.idle_time_max,
            pressed: listening.pressed_time_max,
            write: listening.write_time_max,
            pressed_at,
        }
    }

    /// How often all connections are looked at: a quarter of the shortest limit is how late one is
    /// found at most.
    fn tick(&self) -> Duration {
        let shortest = self.header.min(self.idle).min(self.pressed).min(self.write);
        (shortest / 4).clamp(Duration::from_millis(5), Duration::from_millis(250))
    }
}

/// Looks after the time of a lane's connections.
struct Ward {
    limits: Limits,
    slots: Vec<Slot>,
    counts: Arc<ConnectionCounts>,
}

/// What is known of one connection.
struct Slot {
    pulse: Arc<Pulse>,
    turns: u32,
    /// When `turns` was first seen.
    since: Instant,
    stalled: Option<(u32, Instant)>,
    /// When it was told to close.
    told: Option<Instant>,
    finishing: bool,
}

impl Ward {
    fn admit<H: Handle>(&mut self, desk: &Arc<Desk<H>>, newcomer: Newcomer) {
        let Newcomer { socket, addr, place } = newcomer;
        let Ok(socket) = TcpStream::from_std(socket) else {
            return count(&self.counts.accept_failed_total);
        };
        let pulse = Arc::new(Pulse::default());
        let desk = Arc::clone(desk);
        let its = Arc::clone(&pulse);
        tokio::spawn(async move {
            carry(desk, socket, addr, its).await;
            drop(place);
        });
        let since = Instant::now();
        let slot = Slot { pulse, turns: 0, since, stalled: None, told: None, finishing: false };
        self.slots.push(slot);
    }

    fn round(&mut self, now: Instant, phase: Phase) {
        self.slots.retain(|slot| Arc::strong_count(&slot.pulse) > 1);
        let mut limits = self.limits;
        if self.counts.open.load(Ordering::Relaxed) >= limits.pressed_at {
            limits.idle = limits.idle.min(limits.pressed);
            limits.header = limits.header.min(limits.pressed);
        }
        for slot in &mut self.slots {
            slot.look(now);
            slot.act(now, phase, &limits, &self.counts);
        }
    }

    fn cut_all(&self) {
        let cut =
            |slot: &&Slot| Arc::strong_count(&slot.pulse) > 1 && slot.pulse.doing() == Doing::Work;
        let cut = self.slots.iter().filter(cut).count() as u64;
        self.counts.cut_total.fetch_add(cut, Ordering::Relaxed);
    }
}

impl Slot {
    fn look(&mut self, now: Instant) {
        let turns = self.pulse.turns();
        if turns != self.turns {
            (self.turns, self.since, self.told) = (turns, now, None);
        }
        self.stalled = match (self.pulse.stalled(), self.stalled) {
            (Some(stall), Some(known)) if known.0 == stall => Some(known),
            (Some(stall), _) => Some((stall, now)),
            (None, _) => None,
        };
    }

    fn act(&mut self, now: Instant, phase: Phase, limits: &Limits, counts: &ConnectionCounts) {
        let doing = self.pulse.doing();
        let draining = phase >= Phase::Draining;
        let held = now - self.since;
        if self.stalled.is_some_and(|(_, since)| now - since >= limits.write) {
            count(&counts.write_timeouts_total);
            return self.pulse.order(Order::Cut);
        }
        if let Some(told) = self.told {
            if now - told >= LAST_STEPS {
                self.pulse.order(Order::Cut);
            }
            return;
        }
        if draining && !self.finishing && (doing != Doing::Idle || self.pulse.multiplexed()) {
            self.finishing = true;
            return self.pulse.order(Order::Finish);
        }
        let order = match doing {
            Doing::Idle if draining => {
                let enough = if self.pulse.used() { FAREWELL } else { FIRST_WORD };
                (held >= enough).then_some(Order::CloseIdle)
            }
            Doing::Idle => (held >= limits.idle).then(|| {
                count(&counts.idle_timeouts_total);
                Order::CloseIdle
            }),
            Doing::Header => (held >= limits.header).then(|| {
                count(&counts.header_timeouts_total);
                Order::RefuseHeader
            }),
            Doing::Linger => (held >= LINGER.min(limits.idle)).then_some(Order::Cut),
            Doing::Work => None,
        };
        if let Some(order) = order {
            self.told = Some(now);
            self.pulse.order(order);
        }
    }
}
