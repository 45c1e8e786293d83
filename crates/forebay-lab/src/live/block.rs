//! Runs one block of one arm: known state, warm-up, requests, and what the servers say of it.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_core::Span;
use forebay_wire::engine_metrics;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::design::{Arm, Cell, Design};
use super::error::LiveError;
use super::pages::{Change, Page};
use super::requests;
use super::sending::Ready;
use super::start::{Fleet, Running};
use crate::load::{self, Bodies, Planned, Planner, Settings, Words};
use crate::results::{About, Outcome, Row, Run};
use crate::trace::TraceRequest;

/// How often engines and exporters are looked at during a block.
const LOOK: Duration = Duration::from_secs(2);
/// Looks that are kept of a block at most: a day's.
const LOOKS_MAX: usize = 43_200;
/// Requests that warm up at once: the first ones are slow, and must not meet a refusal.
const WARMUP_IN_FLIGHT: usize = 4;

/// What one block came to.
#[derive(Clone, Debug)]
pub struct Done {
    /// The run.
    pub run: Run,
    /// What the servers say of it.
    pub seen: Seen,
}

/// What the servers say of a block.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seen {
    /// Refusals that the clients saw, by attempts.
    pub refused_by_clients: u64,
    /// Refusals that the arm counted; `None` where it does not count them, or nobody said where.
    pub refused_by_server: Option<u64>,
    /// The arm was to count its refusals, and its page could not be read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refusals_unreadable: bool,
    /// What moved on the arm's page of metrics, by series.
    pub arm: BTreeMap<String, Change>,
    /// The same of each engine, by URL.
    pub engines: BTreeMap<String, BTreeMap<String, Change>>,
    /// The same of each exporter, by name.
    pub exporters: BTreeMap<String, BTreeMap<String, Change>>,
    /// Engines and exporters as they were during the block.
    pub looks: Vec<Look>,
}

/// One look at a server during a block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    /// Milliseconds since the first request was due.
    pub at_ms: u64,
    /// The engine's URL, or the exporter's name.
    pub of: String,
    /// Requests that the engine runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// Requests that wait inside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// Share of its KV memory that is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_usage: Option<f64>,
    /// What an exporter says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, f64>,
}

impl Seen {
    /// Whether the server counted as many refusals as clients saw; `None` where it does not count.
    /// One that was to count, and whose page can't be read, has proven nothing.
    pub fn agrees(&self) -> Option<bool> {
        if self.refusals_unreadable {
            return Some(false);
        }
        self.refused_by_server.map(|counted| counted == self.refused_by_clients)
    }
}

/// What a block is made of.
pub(super) struct Setting<'a> {
    pub(super) design: &'a Design,
    pub(super) cell: Cell,
    pub(super) round: u32,
    pub(super) arm: &'a Arm,
    /// The arm's place among the arms.
    pub(super) place: usize,
    /// Keys and certificates.
    pub(super) ready: &'a Ready,
    pub(super) fleet: &'a Fleet,
    pub(super) requests: &'a requests::Block,
    /// What prompts are made of.
    pub(super) words: &'a Words,
    /// Where logs and configurations of the arm go.
    pub(super) logs: &'a Path,
}

impl Setting<'_> {
    /// Runs the block.
    pub(super) async fn run(&self) -> Result<Done, LiveError> {
        let Self { design, arm, fleet, .. } = self;
        let workers = self.cell.workers;
        let asker = self.ready.asker_of(self.place);
        let mut running = Running::start((arm, asker), fleet, workers, design, self.logs).await?;
        let at = (self.place, running.url.as_str());
        let settings = design.load.sending.settings(at, self.ready, design.blocks.seed)?;
        let mut notes = self.requests.notes.clone();
        self.warm(&settings).await;
        if let Some(engines) = &design.engines {
            notes.extend(fleet.idle(engines, design.blocks.idle_max).await);
            fleet.reset(engines.reset.as_ref()).await?;
        }
        running.asker.reset(&arm.name, &running.url, arm.reset.as_ref()).await?;
        let before = self.pages(&running).await;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut rows: Vec<Row> = Vec::with_capacity(self.requests.requests.len());
        let mut looks = Vec::new();
        let plan = self.planned(&self.requests.requests);
        let ended = tokio::select! {
            ended = load::run(plan, &settings, |row| rows.push(row), pending()) => ended,
            () = self.look(&mut looks) => unreachable!("looking has no end"),
        };
        rows.sort_by_key(|row| row.request);
        let after = self.pages(&running).await;
        notes.extend(ended.notes);
        notes.extend(running.has_ended());
        notes.extend(fleet.has_ended());
        let about = About {
            label: arm.name.clone(),
            tool: concat!("forebay ", env!("CARGO_PKG_VERSION")).to_owned(),
            targets: vec![running.url.clone()],
            model: arm.model.as_ref().unwrap_or(&design.load.model).clone(),
            workload: self.workload(),
            plan: Some(self.requests.plan.clone()),
            is_closed_loop: false,
            retry: settings.retry.client.name().to_owned(),
            seed: design.blocks.seed,
            started_unix_ms: started.as_millis() as u64,
            was_interrupted: ended.was_interrupted,
            repeat: format!("forebay drill --live {}", design.file.display()),
            invalid: ended.invalid,
            notes,
            generator: Some(ended.generator),
        };
        let seen = self.seen(&rows, &before, &after, looks);
        Ok(Done { run: Run { about, rows }, seen })
    }

    fn workload(&self) -> String {
        let load = &self.design.load;
        format!(
            "{} requests of {}, {} ({:.3}/s), round {}",
            self.requests.requests.len(),
            load.source.name(),
            self.cell.title(),
            self.requests.per_s,
            self.round + 1,
        )
    }

    fn planned<'p>(&self, requests: &'p [TraceRequest]) -> impl Iterator<Item = Planned> + 'p {
        let sending = &self.design.load.sending;
        let model = self.arm.model.as_ref().unwrap_or(&self.design.load.model);
        let bodies = Bodies::new(&sending.ask(model)).with_words(self.words.clone());
        let (names, seed) = (self.ready.names.clone(), self.design.blocks.seed);
        let mut planner = Planner::new(bodies, names, sending.leaves, 0, seed);
        (0..).zip(requests).map(move |(nth, request)| planner.planned(nth, request, true))
    }

    /// Sends the first requests of the block, a few at a time, and forgets what came of them.
    async fn warm(&self, settings: &Settings) {
        let count = (self.design.load.warmup as usize).min(self.requests.requests.len());
        let mut first: Vec<TraceRequest> = self.requests.requests[..count].to_vec();
        for request in &mut first {
            (request.at, request.session, request.delay) = (Span::ZERO, None, None);
        }
        let settings = Settings { in_flight_max: WARMUP_IN_FLIGHT, ..settings.clone() };
        load::run(self.planned(&first), &settings, drop, pending()).await;
    }

    async fn pages(&self, running: &Running) -> Pages {
        let mut pages = Pages { arm: running.page().await, ..Pages::default() };
        if let Some(engines) = &self.design.engines {
            for url in &self.fleet.urls {
                let page = self.fleet.asker.page(&format!("{url}{}", engines.metrics), &[]).await;
                pages.engines.insert(url.clone(), page);
            }
        }
        for exporter in &self.design.exporters {
            let page = self.fleet.asker.page(&exporter.url, &exporter.metrics).await;
            pages.exporters.insert(exporter.name.clone(), page);
        }
        pages
    }

    /// Looks at engines and exporters again and again.
    async fn look(&self, looks: &mut Vec<Look>) {
        let begun = Instant::now();
        loop {
            sleep(LOOK).await;
            let at_ms = begun.elapsed().as_millis() as u64;
            let none = Look {
                at_ms,
                of: String::new(),
                running: None,
                waiting: None,
                kv_usage: None,
                series: BTreeMap::new(),
            };
            if let Some(engines) = &self.design.engines {
                for url in &self.fleet.urls {
                    let Ok(page) = self.fleet.asker.get(url, &engines.metrics).await else {
                        continue;
                    };
                    let figures = engine_metrics::read(page.as_bytes());
                    looks.push(Look {
                        of: url.clone(),
                        running: figures.running,
                        waiting: figures.waiting,
                        kv_usage: figures.kv_usage,
                        ..none.clone()
                    });
                }
            }
            for exporter in &self.design.exporters {
                let page = self.fleet.asker.page(&exporter.url, &exporter.metrics).await;
                let series = page.into_series();
                looks.push(Look { of: exporter.name.clone(), series, ..none.clone() });
            }
            if looks.len() >= LOOKS_MAX {
                pending::<()>().await;
            }
        }
    }

    fn seen(&self, rows: &[Row], before: &Pages, after: &Pages, looks: Vec<Look>) -> Seen {
        let attempts = rows.iter().flat_map(|row| &row.attempts);
        let refused = attempts.filter(|attempt| attempt.outcome == Outcome::Refused).count();
        let counted = |page: &Page| {
            let sums = self.arm.refusals.iter().map(|metric| page.sum(metric));
            // A counter that has not moved yet may not be there at all.
            sums.map(|sum| sum.unwrap_or(0.0)).sum::<f64>()
        };
        let moved = |of: fn(&Pages) -> &BTreeMap<String, Page>| {
            let none = Page::default();
            let pages = of(after).iter();
            pages
                .map(|(name, page)| {
                    let earlier = of(before).get(name).unwrap_or(&none);
                    (name.clone(), page.since(earlier))
                })
                .collect()
        };
        let is_counted = !self.arm.refusals.is_empty();
        let is_readable = !before.arm.is_empty() && !after.arm.is_empty();
        let moved_by = (counted(&after.arm) - counted(&before.arm)).round();
        // A counter that went back is that of another process.
        let is_known = is_counted && is_readable && moved_by >= 0.0;
        Seen {
            refused_by_clients: refused as u64,
            refused_by_server: is_known.then_some(moved_by as u64),
            refusals_unreadable: is_counted && !is_known,
            arm: after.arm.since(&before.arm),
            engines: moved(|pages| &pages.engines),
            exporters: moved(|pages| &pages.exporters),
            looks,
        }
    }
}

/// What all servers of a block say at one moment.
#[derive(Clone, Debug, Default)]
struct Pages {
    arm: Page,
    engines: BTreeMap<String, Page>,
    exporters: BTreeMap<String, Page>,
}
