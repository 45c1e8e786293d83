//! Keeps each tenant within its limits, and the number of tenants within ours.

use std::collections::BTreeMap;

use crate::buckets::BucketState;
use crate::refusal::RefusalReason;
use crate::request::{Arrival, TenantId};
use crate::settings::Settings;
use crate::units::{Moment, Span};

/// The tenant that stands for all beyond the bound on tenants.
pub(crate) const REST: TenantId = TenantId(u32::MAX);

#[derive(Clone, Copy, Debug, Default)]
struct TenantState {
    requests: BucketState,
    tokens: BucketState,
    /// Requests that wait or run.
    open: u32,
}

/// A tenant's limit that was hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LimitHit {
    pub(crate) reason: RefusalReason,
    pub(crate) limit: u64,
    /// When the bucket refills; `None` for a limit that time alone does not lift.
    pub(crate) wait: Option<Span>,
}

/// What the core keeps of each tenant.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    states: BTreeMap<TenantId, TenantState>,
}

impl Tenants {
    /// The tenant that the request is accounted to: its own, or the rest when there are too many.
    pub(crate) fn accounted(&mut self, tenant: TenantId, settings: &Settings) -> TenantId {
        let full = self.states.len() >= settings.limits.tenants_max as usize;
        if full && !self.states.contains_key(&tenant) {
            // One walk over the map frees all that are idle, so it is not done for each arrival in
            // a row.
            self.states.retain(|_, state| state.open > 0);
            if self.states.len() >= settings.limits.tenants_max as usize {
                return REST;
            }
        }
        tenant
    }

    /// Takes a request into account, or says which limit it hits. Nothing is charged when one is
    /// hit.
    pub(crate) fn open(
        &mut self,
        now: Moment,
        arrival: &Arrival,
        settings: &Settings,
    ) -> Result<(), LimitHit> {
        let limits = settings.tenant(arrival.tenant);
        let state = self.states.entry(arrival.tenant).or_default();
        if let Some(max) = limits.concurrency_max.filter(|max| state.open >= *max) {
            let reason = RefusalReason::TenantConcurrency;
            return Err(LimitHit { reason, limit: u64::from(max), wait: None });
        }
        let mut requests = state.requests;
        if let Some(bucket) = &limits.rate {
            let hit = |wait| (RefusalReason::TenantRate, bucket.per_second, wait);
            requests.take(now, 1.0, bucket).map_err(hit).map_err(limit_hit)?;
        }
        if let Some(bucket) = &limits.tokens {
            let hit = |wait| (RefusalReason::TenantTokens, bucket.per_second, wait);
            let units = arrival.prompt.as_f64();
            state.tokens.take(now, units, bucket).map_err(hit).map_err(limit_hit)?;
        }
        state.requests = requests;
        state.open += 1;
        Ok(())
    }

    /// A request of the tenant has left.
    pub(crate) fn close(&mut self, tenant: TenantId) {
        if let Some(state) = self.states.get_mut(&tenant) {
            debug_assert!(state.open > 0, "a tenant closed more requests than it opened");
            state.open = state.open.saturating_sub(1);
        }
    }

    /// Requests that wait or run, over all tenants.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn open_len(&self) -> u64 {
        self.states.values().map(|state| u64::from(state.open)).sum()
    }
}

fn limit_hit((reason, limit, wait): (RefusalReason, f64, Span)) -> LimitHit {
    LimitHit { reason, limit: limit.ceil() as u64, wait: Some(wait) }
}
