//! Counts and logs what happens.

use crate::request::Record;

/// What is counted and logged.
#[derive(Debug, Default)]
pub(crate) struct Observe;

impl Observe {
    /// A request is over.
    pub(crate) fn ended(&self, record: &Record) {
        tracing::trace!(?record, "a request is over");
    }
}
