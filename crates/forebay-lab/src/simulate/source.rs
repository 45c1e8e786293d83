//! Pulls requests from a trace one at a time, and settles their time, class and tenant.

use forebay_core::{ClassId, Moment, Rng, Span, TenantId};
use forebay_service::Service;
use indexmap::IndexSet;

use super::SimulateError;
use crate::trace::{Requests, TraceRequest};

/// A request of the trace, ready to be offered.
#[derive(Clone, Debug)]
pub(super) struct Pulled {
    /// Its place in the trace, from 0.
    pub(super) id: u64,
    /// What the trace says of it.
    pub(super) request: TraceRequest,
    /// Its class.
    pub(super) class: ClassId,
    /// Its tenant.
    pub(super) tenant: TenantId,
}

/// The trace, with its rate scaled and its gaps filled by seeded draws.
pub(super) struct Source {
    trace: String,
    requests: Requests,
    scale: f64,
    pulled: u64,
    last: Moment,
    classes: Vec<String>,
    class_of_tenant: Vec<Option<ClassId>>,
    tenants: IndexSet<String>,
    class_draw: Draw,
    tenant_draw: Draw,
}

impl Source {
    /// A trace that has not begun.
    pub(super) fn new(
        trace: &str,
        requests: Requests,
        scale: f64,
        service: &Service,
        rng: &Rng,
    ) -> Self {
        let class = |place: usize| ClassId(place as u16);
        let class_traffic = service.classes.iter().map(|class| class.traffic);
        let tenant_traffic = service.tenants.iter().map(|tenant| tenant.traffic);
        Self {
            trace: trace.to_owned(),
            requests,
            scale,
            pulled: 0,
            last: Moment::START,
            classes: service.classes.iter().map(|class| class.name.clone()).collect(),
            class_of_tenant: service.tenants.iter().map(|tenant| tenant.class.map(class)).collect(),
            tenants: service.tenants.iter().map(|tenant| tenant.name.clone()).collect(),
            class_draw: Draw::new(class_traffic, rng.fork("classes")),
            tenant_draw: Draw::new(tenant_traffic, rng.fork("tenants")),
        }
    }

    /// The next request and when it is due. Times that go back are taken as now.
    pub(super) fn pull(&mut self) -> Result<Option<(Moment, Pulled)>, SimulateError> {
        let Some(request) = self.requests.next().transpose()? else { return Ok(None) };
        let id = self.pulled;
        self.pulled += 1;
        // A time beyond all time stays there, and the run refuses it.
        let at = Moment::START + Span(scaled(request.at.0, self.scale));
        self.last = self.last.max(at);
        let tenant = self.tenant(&request);
        let class = self.class(&request, tenant)?;
        Ok(Some((self.last, Pulled { id, request, class, tenant })))
    }

    /// Names of the tenants, by id.
    pub(super) fn into_tenants(self) -> Vec<String> {
        self.tenants.into_iter().collect()
    }

    fn tenant(&mut self, request: &TraceRequest) -> TenantId {
        let place = match request.tenant.as_deref() {
            None => self.tenant_draw.next(),
            Some(name) => match self.tenants.get_index_of(name) {
                Some(place) => place,
                None => self.tenants.insert_full(name.to_owned()).0,
            },
        };
        TenantId(place as u32)
    }

    fn class(
        &mut self,
        request: &TraceRequest,
        tenant: TenantId,
    ) -> Result<ClassId, SimulateError> {
        let Some(name) = request.class.as_deref() else {
            let of_tenant = self.class_of_tenant.get(tenant.0 as usize).copied().flatten();
            return Ok(of_tenant.unwrap_or_else(|| ClassId(self.class_draw.next() as u16)));
        };
        let place = self.classes.iter().position(|class| class == name);
        place.map(|place| ClassId(place as u16)).ok_or_else(|| SimulateError::UnknownClass {
            trace: self.trace.clone(),
            nth: self.pulled,
            class: name.to_owned(),
            remedy: format!(
                "add a `[[class]]` of that name to the service file; it has `{}`",
                self.classes.join("`, `")
            ),
        })
    }
}

/// Nanoseconds divided by a scale. At 1 nothing is rounded.
fn scaled(nanos: u64, scale: f64) -> u64 {
    if scale.to_bits() == 1.0_f64.to_bits() { nanos } else { (nanos as f64 / scale).round() as u64 }
}

/// Draws places by share.
#[derive(Debug)]
struct Draw {
    /// Sums of the shares up to and including each place.
    sums: Vec<f64>,
    rng: Rng,
}

impl Draw {
    fn new(shares: impl Iterator<Item = f64>, rng: Rng) -> Self {
        let mut sum = 0.0;
        let sums = shares.map(|share| {
            sum += share;
            sum
        });
        Self { sums: sums.collect(), rng }
    }

    /// A place, never one whose share is 0.
    fn next(&mut self) -> usize {
        let total = self.sums.last().copied().unwrap_or(0.0);
        let drawn = self.rng.unit() * total;
        self.sums.partition_point(|sum| *sum <= drawn).min(self.sums.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Rng;

    use super::{Draw, scaled};

    #[test]
    fn draws_follow_their_shares_and_never_take_a_share_of_zero() {
        let mut draw = Draw::new([1.0, 0.0, 3.0].into_iter(), Rng::new(5));
        let mut counts = [0_u32; 3];
        (0..4000).for_each(|_| counts[draw.next()] += 1);
        assert_eq!(counts[1], 0);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn a_scale_of_one_keeps_every_nanosecond() {
        assert_eq!(scaled(u64::MAX - 1, 1.0), u64::MAX - 1);
        assert_eq!(scaled(1000, 2.0), 500);
    }
}
