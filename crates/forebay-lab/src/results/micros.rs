//! Writes spans as whole microseconds: finer than any clock that a network is measured with.

use forebay_core::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nanoseconds in a microsecond.
const NANOS: u64 = 1_000;

/// A span as a file has it.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Micros(u64);

impl From<Span> for Micros {
    fn from(span: Span) -> Self {
        Self(span.0 / NANOS)
    }
}

impl From<Micros> for Span {
    fn from(micros: Micros) -> Self {
        Self(micros.0.saturating_mul(NANOS))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
pub(super) fn serialize<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    Micros::from(*span).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    Micros::deserialize(from).map(Span::from)
}

/// The same for a moment that may not have come.
pub(super) mod option {
    use super::{Deserialize, Deserializer, Micros, Serialize, Serializer, Span};

    #[expect(clippy::ref_option, reason = "serde hands over references")]
    pub(in super::super) fn serialize<S: Serializer>(
        span: &Option<Span>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(Micros::from).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Span>, D::Error> {
        Ok(Option::<Micros>::deserialize(from)?.map(Span::from))
    }
}

/// The same for many.
pub(super) mod list {
    use super::{Deserialize, Deserializer, Micros, Serializer, Span};

    pub(in super::super) fn serialize<S: Serializer>(
        spans: &[Span],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(spans.iter().map(|span| Micros::from(*span)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Span>, D::Error> {
        Ok(Vec::<Micros>::deserialize(from)?.into_iter().map(Span::from).collect())
    }
}
