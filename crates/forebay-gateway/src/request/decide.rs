//! Asks the core, follows what it says from pool to pool, and says how often it may be asked again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::FixedState;
use forebay_core::{Moment, Outcome, PoolId, Refusal, RefusalReason, Span, TenantId, Ticket};
use hashbrown::HashMap;

use super::classify::{self, Classified};
use super::{Account, Record, Taken};
use crate::pool::Verdict;
use crate::refuse::Denial;
use crate::rules::Rules;
use crate::workers::Worker;

/// Pools that a request may be handed through, one after the other.
const SPILLS_MAX: u32 = 8;

/// Offers a request to its pool's core.
pub(super) fn offer(taken: &mut Taken, classified: Classified, record: Record) -> Account {
    let Classified { pool, arrival, stream, text_bytes } = classified;
    let mut record = record;
    record.promised = arrival.ticket.map(|ticket| ticket.promised);
    taken.first_arrived = arrival.ticket.map_or(taken.arrived, |ticket| ticket.first_arrived);
    taken.gateway.retries.offered(arrival.tenant);
    let seat = pool.arrive(arrival, !stream, &record.name);
    let load = std::mem::replace(&mut taken.load, taken.gateway.held.open());
    Account::open(Arc::clone(&taken.gateway), seat, record, (text_bytes, load))
}

/// Waits until the core sends the request to a worker, or has it refused.
pub(super) async fn decide(account: &mut Account, taken: &Taken) -> Result<Arc<Worker>, Denial> {
    let mut spills = 0;
    let pool = account.seat().pool().id;
    account.record.trace.queued(&taken.gateway.clock, pool);
    loop {
        let decision = account.seat().decision().await;
        match decision.what {
            Verdict::Dispatched(id, why) => {
                let record = &mut account.record;
                let now = taken.gateway.clock.now();
                record.attempts = why.attempt;
                record.predicted_wait = record.predicted_wait.or(why.predicted_wait);
                record.cached = why.candidates.first().map_or(record.cached, |it| it.cached);
                account.dispatched(now);
                if let Some(worker) = account.seat().pool().roster.get(id) {
                    account.record.worker = Some(Arc::clone(&worker.name));
                    return Ok(worker);
                }
                // It has left since; the core hears of that, too.
                account.seat().try_elsewhere(Outcome::Broke);
            }
            Verdict::Spilled(pool, _) => {
                spills += 1;
                if spills > SPILLS_MAX {
                    return Err(Denial::plain(RefusalReason::NoWorker));
                }
                spill(account, taken, pool)?;
            }
            Verdict::Refused(refusal) => {
                return Err(refused(account, taken, (&refusal, decision.at)));
            }
        }
    }
}

/// Hands a request over to another pool, with its age.
fn spill(account: &mut Account, taken: &Taken, to: PoolId) -> Result<(), Denial> {
    let pool = taken.gateway.pools.get(usize::from(to.0));
    let classified = pool.and_then(|pool| classify::again(taken, pool));
    let Some(mut classified) = classified else {
        return Err(Denial::plain(RefusalReason::NoWorker));
    };
    classified.arrival.ticket =
        Some(Ticket { first_arrived: taken.first_arrived, promised: taken.first_arrived });
    let name = Arc::clone(&account.record.name);
    let seat = classified.pool.arrive(classified.arrival, !classified.stream, &name);
    account.reseat(seat, classified.text_bytes);
    Ok(())
}

/// What the client is told of a refusal, with its place kept where there is one. The core knows its
/// own promise by the moment, so that is counted from when it spoke.
fn refused(account: &mut Account, taken: &Taken, (refusal, at): (&Refusal, Moment)) -> Denial {
    let class = taken.rules.classes.get(usize::from(refusal.class.0));
    let mut denial = Denial::of(refusal, class.map(|class| class.name.clone()));
    let keeps = matches!(
        refusal.reason,
        RefusalReason::QueueFull | RefusalReason::Shed | RefusalReason::WaitedTooLong
    );
    if let Some(secs) = denial.retry_after_secs().filter(|_| keeps) {
        let promised = at + Span::secs(secs);
        let ticket = Ticket { first_arrived: taken.first_arrived, promised };
        let who = classify::fingerprint(taken, account.seat().pool());
        denial.ticket = Some(taken.gateway.tickets.issue(ticket, who, &taken.gateway.clock));
    }
    denial
}

/// Most tenants whose retries are counted apart; the one seen longest ago is forgotten first.
const TENANTS_MAX: usize = 16_384;
/// How long a request counts towards the retries that it allows.
const WINDOW: Span = Span::secs(60);

/// Counts requests and retries by tenant, so that what breaks does not multiply the load.
#[derive(Debug, Default)]
pub(crate) struct Retries(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    tenants: HashMap<TenantId, Count, FixedState>,
    order: VecDeque<TenantId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    offered: f64,
    retried: f64,
    since: Moment,
}

impl Retries {
    /// A request of the tenant came.
    pub(super) fn offered(&self, tenant: TenantId) {
        self.with(tenant, |count| count.offered += 1.0);
    }

    /// Whether the tenant may have one more retry at this moment, and counts it if so.
    pub(super) fn may_retry(&self, tenant: TenantId, now: Moment, rules: &Rules) -> bool {
        self.with(tenant, |count| {
            if now.since(count.since) > WINDOW {
                // Half of the last window counts on, so that no edge gives a burst.
                *count = Count { offered: count.offered / 2.0, retried: 0.0, since: now };
            }
            let allowed = f64::from(rules.retry_floor) + count.offered * rules.retry_share;
            let may = count.retried < allowed;
            count.retried += f64::from(u8::from(may));
            may
        })
    }

    fn with<T>(&self, tenant: TenantId, act: impl FnOnce(&mut Count) -> T) -> T {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { tenants, order } = &mut *counted;
        if !tenants.contains_key(&tenant) {
            if order.len() >= TENANTS_MAX
                && let Some(oldest) = order.pop_front()
            {
                tenants.remove(&oldest);
            }
            order.push_back(tenant);
        }
        act(tenants.entry(tenant).or_default())
    }
}
