//! Gathers what a summary needs of each row, in some tens of bytes for each.
//!
//! Counts are kept for each class and tenant as rows come; of latencies only whole microseconds
//! are kept, once for all groups, and sorted at the end.

use std::sync::Arc;

use forebay_core::Span;
use indexmap::IndexMap;

use super::counters::{Counters, Parts, Served, whole};
use super::plan::Plan;
use super::summary::{Counts, Group, Summary};
use super::{About, Attempt, Invalid, Outcome, Row, SCHEMA};

/// Classes, and tenants, that have figures of their own: those that come later are summed up under
/// [`OTHERS`]. As many as a table of a report could show, and far more than a reader takes in.
pub const GROUPS_MAX: usize = 1_000;
/// Where what came after [`GROUPS_MAX`] names is summed up.
pub const OTHERS: &str = "(others)";
/// Nanoseconds in a microsecond.
const NANOS: u64 = 1_000;

/// What is gathered of a run.
#[derive(Default)]
pub(super) struct Gather {
    plan: Plan,
    warmup: Counts,
    all: Counters,
    classes: IndexMap<Arc<str>, Counters>,
    tenants: IndexMap<Arc<str>, Counters>,
    served: Vec<(Key, Served)>,
    refused: Vec<(Key, u64)>,
    waits: Vec<(Key, u64)>,
}

/// The places of the class and the tenant of a row among the names seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    class: Option<u16>,
    tenant: Option<u16>,
}

impl Gather {
    /// Takes in one row.
    pub(super) fn add(&mut self, row: &Row) {
        self.plan.add(row);
        if row.is_warmup {
            *self.warmup.entry(row.outcome).or_default() += 1;
            return;
        }
        let class = row.class.as_ref().map(|name| place_of(&mut self.classes, name));
        let tenant = row.tenant.as_ref().map(|name| place_of(&mut self.tenants, name));
        let key = Key { class, tenant };
        self.all.add(row);
        for (counters, place) in [(&mut self.classes, class), (&mut self.tenants, tenant)] {
            if let Some(place) = place {
                counters[usize::from(place)].add(row);
            }
        }
        let micros = |span: Span| span.0 / NANOS;
        if let (Some(ttft), Some(e2e)) = (row.ttft(), row.e2e()) {
            let itl = row.itl().map(micros);
            self.served.push((key, Served { ttft: micros(ttft), itl, e2e: micros(e2e) }));
        }
        self.refused.extend(row.time_to_refuse().map(|wait| (key, micros(wait))));
        let waits = row.attempts.iter().filter_map(asked_to_wait);
        self.waits.extend(waits.map(|wait| (key, micros(wait))));
    }

    /// Rows that were taken in.
    pub(super) const fn rows(&self) -> u64 {
        self.plan.rows
    }

    /// Sums up. A run that lost sight of a request is invalid.
    pub(super) fn into_summary(mut self, about: &About) -> Summary {
        let conservation = self.plan.conservation();
        let mut about = about.clone();
        let told = |it: &Invalid| it.reason == "conservation";
        if !conservation.holds && !about.invalid.iter().any(told) {
            about.invalid.push(conservation.fault());
        }
        let parts = Parts { served: &self.served, refused: &self.refused, waits: &self.waits };
        let all = self.all.group(&parts);
        let classes = std::mem::take(&mut self.classes);
        let classes = self.groups(&classes, |key| key.class);
        let tenants = std::mem::take(&mut self.tenants);
        let tenants = self.groups(&tenants, |key| key.tenant);
        let warmup = whole(&self.warmup);
        Summary { schema: SCHEMA, about, conservation, warmup, all, classes, tenants }
    }

    fn groups(
        &mut self,
        counters: &IndexMap<Arc<str>, Counters>,
        place: fn(Key) -> Option<u16>,
    ) -> IndexMap<String, Group> {
        // Each group then is one run of neighbours.
        self.served.sort_by_key(|it| place(it.0));
        self.refused.sort_by_key(|it| place(it.0));
        self.waits.sort_by_key(|it| place(it.0));
        let group = |(nth, (name, counters)): (usize, (&Arc<str>, &Counters))| {
            let nth = Some(nth as u16);
            let parts = Parts {
                served: neighbours(&self.served, place, nth),
                refused: neighbours(&self.refused, place, nth),
                waits: neighbours(&self.waits, place, nth),
            };
            (name.to_string(), counters.group(&parts))
        };
        let mut groups: IndexMap<String, Group> = counters.iter().enumerate().map(group).collect();
        // The order in which names came is that of the run's luck.
        groups.sort_unstable_keys();
        groups
    }
}

/// The place of a name, which gets one if there is room.
fn place_of(names: &mut IndexMap<Arc<str>, Counters>, name: &Arc<str>) -> u16 {
    let place = names.get_index_of(name).unwrap_or_else(|| {
        let name = if names.len() < GROUPS_MAX { name.clone() } else { OTHERS.into() };
        let entry = names.entry(name);
        let place = entry.index();
        entry.or_default();
        place
    });
    u16::try_from(place).expect("there are at most a thousand names, and the others")
}

/// The items of a group, of items in the order of groups.
fn neighbours<T>(
    items: &[(Key, T)],
    of: fn(Key) -> Option<u16>,
    group: Option<u16>,
) -> &[(Key, T)] {
    let begin = items.partition_point(|(key, _)| of(*key) < group);
    let end = items.partition_point(|(key, _)| of(*key) <= group);
    &items[begin..end]
}

/// What an attempt that was refused was asked to wait.
fn asked_to_wait(attempt: &Attempt) -> Option<Span> {
    attempt.retry_after.filter(|_| attempt.outcome == Outcome::Refused)
}
