//! Keeps room for those who use less of the fleet than their share, against those who use more.
//!
//! A fair order alone does not protect a tenant from one that floods: the flood's requests hold the
//! KV memory of the whole fleet for a residence each, so a long prompt of the other waits until
//! enough of them have ended, however entitled it is. So while a flow that runs is below its share,
//! a flow above its own may be added to a worker only if the worker keeps room for two large
//! requests of the first (its mean need and two standard deviations each): one that comes next, and
//! one for the burst that it comes with. That costs the flood a few percent of the fleet's
//! throughput, and nobody anything while one flow is alone.

use crate::Core;
use crate::queue::Flow;
use crate::request::{ClassId, TenantId};
use crate::units::Tokens;

/// Flows that are looked at: beyond it the rest goes unprotected, and work per input stays bounded.
const FLOWS_MAX: usize = 256;

/// Who is above and who is below its share of the fleet.
#[derive(Debug, Default)]
pub(crate) struct Entitlements {
    /// Sum of the shares of the classes that have something waiting or running.
    shares: f64,
    /// For each class, the sum of the weights of such tenants.
    weights: Vec<f64>,
    /// Room to be kept on each worker for a flow below its share.
    kept: Tokens,
}

impl Core {
    /// Looks who is above and who is below its share; nothing when one flow is alone.
    pub(crate) fn entitlements(&self) -> Entitlements {
        let mut found = Entitlements::default();
        if self.queue.flows_len() < 2 {
            return found;
        }
        for (class, queue) in (0..).map(ClassId).zip(&self.queue.classes) {
            let weights = queue.flows.keys().take(FLOWS_MAX);
            let weight: f64 =
                weights.map(|tenant| f64::from(self.settings.tenant(*tenant).weight)).sum();
            found.weights.push(weight);
            if weight > 0.0 {
                found.shares += f64::from(self.settings.class(class).share);
            }
        }
        for (class, queue) in (0..).map(ClassId).zip(&self.queue.classes) {
            for (tenant, flow) in queue.flows.iter().take(FLOWS_MAX) {
                if !self.is_above(&found, (class, *tenant), flow) {
                    found.kept = found.kept.max(flow.large_need() + flow.large_need());
                }
            }
        }
        found
    }

    /// Room that a request of the flow must leave on a worker.
    pub(crate) fn room_to_leave(
        &self,
        entitlements: &Entitlements,
        class: ClassId,
        tenant: TenantId,
    ) -> Tokens {
        if entitlements.kept == Tokens::ZERO {
            return Tokens::ZERO;
        }
        match self.queue.flow(class, tenant) {
            Some(flow) if self.is_above(entitlements, (class, tenant), flow) => entitlements.kept,
            _ => Tokens::ZERO,
        }
    }

    fn is_above(
        &self,
        entitlements: &Entitlements,
        (class, tenant): (ClassId, TenantId),
        flow: &Flow,
    ) -> bool {
        let share = f64::from(self.settings.class(class).share) / entitlements.shares;
        let weights = entitlements.weights[usize::from(class.0)];
        let weight = f64::from(self.settings.tenant(tenant).weight) / weights;
        flow.flying.as_f64() > share * weight * self.fleet.limit().as_f64()
    }
}
