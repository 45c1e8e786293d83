//! Predicts waits from KV tokens: what is queued, what is in flight, and how fast room is freed.
//!
//! Room is freed at the rate limit ÷ residence, where the limit is the KV that may be committed
//! over the fleet and residence is the mean stay of a request weighted by its KV need (Little's law
//! in KV tokens). A flow, which is one tenant of one class, gets the fraction of it that its shares
//! give it against those that wait too.

use crate::Core;
use crate::request::{ClassId, TenantId};
use crate::units::{Span, Tokens};

/// Tenants whose weights are summed exactly; beyond it their mean stands for the rest.
const WEIGHED_MAX: usize = 64;

impl Core {
    /// The fraction of the fleet that the flow gets, in competition with all that wait.
    pub(crate) fn fraction(&self, class: ClassId, tenant: TenantId) -> f64 {
        let settings = &self.settings;
        let own = f64::from(settings.class(class).share);
        let others = self.queue.competing.iter().filter(|other| *other != class);
        let shares: f64 = others.map(|other| f64::from(settings.class(other).share)).sum();
        let tenants = &self.queue.class(class).tenants;
        let weight = f64::from(settings.tenant(tenant).weight);
        let (mut sum, mut counted) = (0.0, 0_usize);
        for other in tenants.iter().filter(|other| *other != tenant).take(WEIGHED_MAX) {
            sum += f64::from(settings.tenant(other).weight);
            counted += 1;
        }
        if tenants.len() > WEIGHED_MAX {
            sum *= tenants.len() as f64 / counted as f64;
        }
        own / (own + shares) * weight / (weight + sum)
    }

    /// KV tokens a second that the fleet frees when it is full.
    pub(crate) fn drain_rate(&self) -> f64 {
        self.fleet.limit().as_f64() / self.pace.residence().as_secs_f64().max(1e-6)
    }

    /// The time until so much need has run, at this fraction of the fleet. A fleet without room
    /// takes for ever.
    pub(crate) fn time_to_run(&self, need: f64, fraction: f64) -> Span {
        let rate = self.drain_rate() * fraction;
        if need <= 0.0 {
            Span::ZERO
        } else if rate > 0.0 {
            Span::secs_f64(need / rate)
        } else {
            Span::MAX
        }
    }

    /// The time until the flow's queue is empty.
    pub(crate) fn drain(&self, class: ClassId, tenant: TenantId) -> Span {
        let need = self.queue.flow(class, tenant).map_or(Tokens::ZERO, |flow| flow.need);
        self.time_to_run(need.as_f64(), self.fraction(class, tenant))
    }

    /// What first-come would make a request wait that arrives in the flow now: everything of the
    /// flow that waits, and everything that runs.
    pub(crate) fn first_come_wait(&self, class: ClassId, tenant: TenantId) -> Span {
        self.drain(class, tenant) + self.time_to_run(self.fleet.committed().as_f64(), 1.0)
    }

    /// How long a request of the flow with this need will wait, once `owed` has run before it.
    /// Nothing when there is room for it, and for what is owed, and nobody waits.
    pub(crate) fn wait_to_come(
        &self,
        (class, tenant): (ClassId, TenantId),
        need: Tokens,
        owed: Tokens,
    ) -> Span {
        let free = self.fleet.limit().saturating_sub(self.fleet.committed());
        if self.queue.len() == 0 && need + owed <= free {
            return Span::ZERO;
        }
        let queued = self.queue.flow(class, tenant).map_or(Tokens::ZERO, |flow| flow.need);
        self.time_to_run((queued + owed + need).as_f64(), self.fraction(class, tenant))
    }
}
