//! Finds the series of a request without hashing anything.

use std::sync::Arc;

use forebay_core::{ClassId, PoolId};

use super::series::Series;
use crate::rules::Rules;

/// The series of every class in every pool, and the names of classes and tenants.
#[derive(Debug)]
pub(super) struct Table {
    /// Names of classes, in the order of their numbers.
    pub(super) classes: Vec<Arc<str>>,
    /// Names of tenants, in the order of their numbers.
    pub(super) tenants: Vec<Arc<str>>,
    /// Of requests that ended before their pool and class were known.
    pub(super) outside: Arc<Series>,
    /// By pool, then by class.
    series: Vec<Arc<Series>>,
}

impl Table {
    /// A table of so many pools. Classes of an older table keep their counts, by name.
    pub(super) fn new(pools: usize, rules: &Rules, older: Option<&Self>) -> Self {
        let classes: Vec<Arc<str>> =
            rules.classes.iter().map(|class| Arc::from(class.name.as_str())).collect();
        let kept = |pool: usize, name: &Arc<str>| {
            let older = older?;
            let class = older.classes.iter().position(|class| class == name)?;
            older.series.get(pool * older.classes.len() + class).map(Arc::clone)
        };
        let places = (0..pools).flat_map(|pool| classes.iter().map(move |name| (pool, name)));
        let series = places.map(|(pool, name)| kept(pool, name).unwrap_or_default()).collect();
        Self {
            tenants: rules.tenants.iter().map(|name| Arc::from(name.as_str())).collect(),
            outside: older.map(|older| Arc::clone(&older.outside)).unwrap_or_default(),
            series,
            classes,
        }
    }

    /// The series of a request. As in the core, a class that is not listed any more is the last.
    pub(super) fn of(&self, pool: Option<PoolId>, class: Option<ClassId>) -> &Series {
        let Some((pool, class)) = pool.zip(class) else { return &self.outside };
        let class = usize::from(class.0).min(self.classes.len().saturating_sub(1));
        let place = usize::from(pool.0) * self.classes.len() + class;
        self.series.get(place).unwrap_or(&self.outside)
    }
}
