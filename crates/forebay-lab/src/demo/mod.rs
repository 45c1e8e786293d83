//! Shows a newcomer a gateway under load: sends it more than its workers can serve, and watches
//! what it does with that.
//!
//! | module | answers |
//! |---|---|
//! | [`Workload`] | which requests come, and how many a second are too many? |
//! | `gauges` | what does the gateway say of itself? |
//! | [`Seen`] | what came of the requests, lately and in all? |
//! | `line` | how does that fit into one line? |
//! | [`Screen`] | where does that line go: onto a terminal, or into a pipe? |

mod gauges;
mod line;
mod screen;
mod seen;
mod workload;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use forebay_core::Span;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::load::{self, Settings, Target, TargetError};
use gauges::Gauges;
use line::Line;

pub use screen::Screen;
pub use seen::Seen;
pub use workload::{CLASS, Workload};

/// How often the line is drawn: often enough to look alive, seldom enough to be read.
const DRAWN_EVERY: Duration = Duration::from_millis(500);
/// How often the gateway's metrics are read.
const READ_EVERY: Duration = Duration::from_millis(500);
/// How long the gateway may take until it knows its workers.
const READY_MAX: Duration = Duration::from_secs(10);
/// Most requests that are under way at once. A mode that holds nothing has its queue in the
/// engines, where it grows for as long as the load is above capacity.
const IN_FLIGHT_MAX: usize = 2_000;

/// Sends the workload to the gateway at this address, and shows what happens, until told to stop.
pub async fn watch(
    gateway: SocketAddr,
    model: &str,
    workload: &Workload,
    screen: &mut Screen<'_>,
    stop: impl Future<Output = ()>,
) -> Result<Seen, TargetError> {
    let metrics: Target = format!("http://{gateway}/metrics").parse()?;
    let target = format!("http://{gateway}/v1/completions").parse()?;
    let settings = Settings { in_flight_max: IN_FLIGHT_MAX, ..Settings::for_targets(vec![target]) };
    ready(&format!("http://{gateway}/readyz").parse()?).await;
    let (seen, latest) = (RefCell::new(Seen::default()), Cell::new(Gauges::default()));
    let plan = workload.plan(model).inspect(|planned| seen.borrow_mut().plan(planned.at));
    let start = Instant::now();
    let each = |row| seen.borrow_mut().add(&row);
    // Whoever ends a demo does not wait for answers: the load is dropped where it stands.
    let mut load = pin!(load::run(plan, &settings, each, pending()));
    let mut reading = pin!(async {
        loop {
            if let Some(gauges) = gauges::read(&metrics).await {
                latest.set(gauges);
            }
            sleep(READ_EVERY).await;
        }
    });
    let mut stop = pin!(stop);
    let mut ticks = interval(DRAWN_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = &mut load => break,
            () = &mut reading => {}
            _ = ticks.tick() => {
                let now = Span(start.elapsed().as_nanos() as u64);
                screen.show(&Line::of(now, &seen.borrow_mut().lately(now), latest.get()));
            }
        }
    }
    let now = Span(start.elapsed().as_nanos() as u64);
    screen.clear();
    let mut seen = seen.borrow().clone();
    seen.end(now);
    Ok(seen)
}

/// Waits until the gateway says that it can serve. One that never does shows that in the line.
async fn ready(page: &Target) {
    let until = Instant::now() + READY_MAX;
    while load::fetch(page).await.is_err() && Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
    }
}
