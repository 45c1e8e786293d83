//! Makes the demo's load, and says how much of it is too much.

use forebay_core::Span;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::engine::Preset;
use crate::load::{Ask, Bodies, Form, Planned};
use crate::scenario::capacity;
use crate::simulate::SimulateError;
use crate::trace::TraceRequest;
use crate::trace::synth::Description;

/// The class that the load asks for, so that whoever tries a request of his own is in another one.
pub const CLASS: &str = "load";
/// The header that says so to the gateway.
const CLASS_HEADER: HeaderName = HeaderName::from_static("x-forebay-class");
/// The description that the requests are drawn from: the one of the drill.
const DESCRIPTION: &str = "evidence";
/// Requests that the capacity is measured with: the whole of the description.
const MEASURED: u64 = 1_000;
/// More requests than anybody watches.
const ENDLESS: u64 = 1_000_000_000;

/// Requests without end, at a multiple of what a fleet can serve.
#[derive(Clone, Debug)]
pub struct Workload {
    description: Description,
    seed: u64,
    /// Requests a second that the fleet can serve.
    pub capacity_per_s: f64,
    /// Requests a second that come.
    pub per_s: f64,
}

impl Workload {
    /// So many times what these workers can serve, with engines `faster` times as fast as real. The
    /// capacity is what the simulator says.
    pub fn of(
        preset: &Preset,
        workers: u16,
        (load, faster): (f64, f64),
        seed: u64,
    ) -> Result<Self, SimulateError> {
        let description = Description::named(DESCRIPTION).expect("a description that ships");
        let requests = description.requests(seed, Some(MEASURED));
        let at_once = |request| TraceRequest { at: Span::ZERO, ..request };
        let requests = requests.map(|request| request.map(at_once)).collect::<Result<Vec<_>, _>>();
        let fleet = vec![preset.clone(); usize::from(workers)];
        let name = DESCRIPTION.to_owned();
        let capacity_per_s = capacity::per_s(name, requests?, fleet, seed)? * faster;
        Ok(Self { description, seed, capacity_per_s, per_s: load * capacity_per_s })
    }

    /// The requests for this model, when they are due.
    pub(super) fn plan(&self, model: &str) -> impl Iterator<Item = Planned> {
        let bodies = Bodies::new(&Ask::new(model, Form::Completion, true));
        let slower = self.description.arrivals_per_s() / self.per_s;
        let headers: HeaderMap =
            [(CLASS_HEADER, HeaderValue::from_static(CLASS))].into_iter().collect();
        // What is drawn, and not read from a file, has no faults.
        let requests = self.description.requests(self.seed, Some(ENDLESS)).map_while(Result::ok);
        (0..).zip(requests).map(move |(nth, request)| Planned {
            at: request.at.scaled(slower),
            body: bodies.body(nth, &request),
            headers: headers.clone(),
            ..Planned::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Workload;
    use crate::engine::Preset;

    #[test]
    fn the_load_comes_at_its_multiple_of_what_the_fleet_can_serve() {
        let preset = Preset::resolve("a100-40gb/qwen3-8b").unwrap();
        let workload = Workload::of(&preset, 2, (1.5, 10.0), 1).unwrap();
        // The drill's load, 4.4 requests a second, is about 1.2 times what two workers serve.
        assert!((30.0..45.0).contains(&workload.capacity_per_s), "{}", workload.capacity_per_s);
        let count = 3_000_u32;
        let last = workload.plan("a").nth(count as usize - 1).unwrap();
        let per_s = f64::from(count) / last.at.as_secs_f64();
        assert!((per_s / workload.capacity_per_s / 1.5 - 1.0).abs() < 0.05, "{per_s} a second");
        assert_eq!(last.headers["x-forebay-class"], "load");
    }
}
