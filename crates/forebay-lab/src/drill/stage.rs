//! Sets a cell up as a simulation, and runs it.

use std::path::PathBuf;

use forebay_core::Span;
use forebay_service::Service;

use super::criteria::{Criteria, Measure, Metric};
use super::matrix::Cell;
use super::{Run, published};
use crate::engine::Preset;
use crate::simulate::{self, Plan, SimulateError, Summary, Thresholds};
use crate::trace::synth::{Description, DescriptionError};
use crate::trace::{self, Notes, Requests, TraceError};

/// Where the requests come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, read anew for each run: the same requests for every arm and every seed.
    File(PathBuf),
    /// A description, from which each seed makes its own requests, the same for every arm.
    Synthetic {
        /// The description.
        description: Box<Description>,
        /// It ships with the program, so its name says what it is.
        shipped: bool,
    },
}

impl Source {
    /// A synthetic trace by the name of a shipped description or the path of another.
    pub fn synthetic(name: &str) -> Result<Self, DescriptionError> {
        let shipped = Description::names().any(|shipped| shipped == name);
        Ok(Self::Synthetic { description: Box::new(Description::find(name)?), shipped })
    }

    /// Its name in the results: a file's without its folder.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Self::Synthetic { description, .. } => description.name.clone(),
        }
    }

    /// The requests that a seed stands for.
    fn requests(&self, seed: u64, notes: &Notes) -> Result<Requests, TraceError> {
        match self {
            Self::File(path) => trace::open_noting(path, notes),
            Self::Synthetic { description, .. } => Ok(description.requests(seed, None)),
        }
    }
}

/// What all cells have in common.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Where the requests come from.
    pub source: Source,
    /// Every worker's engine.
    pub engine: Preset,
    /// What happens at the door.
    pub service: Service,
    /// The rate, in multiples of the trace's.
    pub scale: f64,
    /// What a request must keep to count as good in the summaries.
    pub thresholds: Thresholds,
}

impl Stage {
    /// Whether figures can be held against the published ones: their engine and workload, as they
    /// ship.
    pub fn is_published(&self) -> bool {
        let Source::Synthetic { description, shipped: true } = &self.source else { return false };
        description.name == published::WORKLOAD
            && Preset::resolve(published::ENGINE).is_ok_and(|engine| engine == self.engine)
            && self.service == Service::single()
            && (self.scale - 1.0).abs() < f64::EPSILON
    }

    /// Where every seed replays the same requests, what its draws still decide; `None` where each
    /// seed makes requests of its own.
    pub fn replayed(&self) -> Option<&'static str> {
        let Source::File(_) = self.source else { return None };
        // With one of each, there is nothing to draw for a request that names none.
        let is_single = self.service.classes.len() < 2 && self.service.tenants.len() < 2;
        Some(if is_single {
            "the router's draws"
        } else {
            "the router's draws and the classes and tenants that the trace leaves open"
        })
    }

    /// Refuses what no cell could run with, before the first one runs.
    pub fn check(&self, workers: &[u32]) -> Result<(), SimulateError> {
        simulate::check_scale(self.scale)?;
        workers
            .iter()
            .try_for_each(|&one| simulate::check_workers(u64::from(one), &self.service.limits))
    }

    /// Runs one cell.
    pub fn run(&self, cell: &Cell) -> Result<Run, SimulateError> {
        let worker = self.worker(cell);
        let workers = simulate::fleet(&worker, cell.workers, &self.service.limits)?;
        let notes = Notes::default();
        let requests = self.source.requests(cell.seed, &notes)?;
        let mut plan = Plan::new(self.source.name(), requests, workers, cell.arm);
        plan.seed = cell.seed;
        plan.service = self.service.clone();
        plan.scale = self.scale;
        plan.capacity_error_pct = f64::from(cell.variation.belief_pct);
        let record = simulate::run(plan)?;
        let summary = Summary::of(&record, &self.thresholds);
        Ok(Run { notes: notes.lines(), ..Run::of(*cell, &record, &summary) })
    }

    /// The engine's preset with the cell's variation.
    fn worker(&self, cell: &Cell) -> Preset {
        let factor = |pct: i32| 1.0 + f64::from(pct) / 100.0;
        let kv = f64::from(self.engine.kv_tokens) * factor(cell.variation.kv_pct);
        Preset {
            kv_tokens: (kv.round() as u32).max(self.engine.block_size),
            ..self.engine.scaled(1.0 / factor(cell.variation.speed_pct))
        }
    }
}

/// A request is good when it keeps the largest limit that the criteria set to each latency of all
/// requests, so that the share of good requests in a summary is a share within the criteria. Where
/// the criteria say what is good, that is it.
pub fn thresholds(criteria: &Criteria) -> Thresholds {
    if !criteria.good().is_empty() {
        let most = |ms: f64| ms.is_finite().then(|| Span::secs_f64(ms / 1000.0));
        let good = criteria.good_of(None);
        return Thresholds {
            ttft_max: most(good.ttft_ms_max).unwrap_or(Span(u64::MAX)),
            itl_max: most(good.itl_ms_max),
            e2e_max: most(good.e2e_ms_max),
        };
    }
    let largest = |wanted: Metric| {
        let limits = criteria.list().iter().filter_map(|criterion| match criterion.measure {
            Measure::Latency(metric, _) if metric == wanted && criterion.class.is_none() => {
                Some(Span::secs_f64(criterion.limit / 1000.0))
            }
            _ => None,
        });
        limits.max()
    };
    Thresholds {
        ttft_max: largest(Metric::Ttft).unwrap_or(Thresholds::default().ttft_max),
        itl_max: largest(Metric::Itl),
        e2e_max: largest(Metric::E2e),
    }
}

#[cfg(test)]
mod tests {
    use forebay_service::Service;

    use super::{Source, Stage, published};
    use crate::engine::Preset;
    use crate::simulate::Thresholds;

    fn replayed(source: Source, service: Service) -> Option<&'static str> {
        let engine = Preset::resolve(published::ENGINE).unwrap();
        let thresholds = Thresholds::default();
        Stage { source, engine, service, scale: 1.0, thresholds }.replayed()
    }

    #[test]
    fn seeds_of_a_file_differ_in_the_router_and_in_the_classes_it_leaves_open() {
        let file = || Source::File("trace.jsonl".into());
        assert_eq!(replayed(file(), Service::single()), Some("the router's draws"));
        let mut two = Service::single();
        two.classes.push(two.classes[0].clone());
        assert!(replayed(file(), two).unwrap().contains("classes"));
    }

    #[test]
    fn seeds_of_a_synthetic_trace_make_requests_of_their_own() {
        let source = Source::synthetic(published::WORKLOAD).unwrap();
        assert_eq!(replayed(source, Service::single()), None);
    }
}
