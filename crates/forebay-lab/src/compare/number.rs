//! Writes figures that may be infinite as JSON can hold them.

use serde::Serializer;

/// A figure: a number, `"infinite"`, `"-infinite"`, or `null` where there is none. JSON has no
/// infinity, and a `null` for it would read as "not measured".
#[expect(clippy::ref_option, reason = "serde hands over references")]
pub(super) fn serialize<S: Serializer>(figure: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match figure {
        Some(value) if value.is_finite() => to.serialize_f64(*value),
        Some(value) if *value == f64::INFINITY => to.serialize_str("infinite"),
        Some(value) if *value == f64::NEG_INFINITY => to.serialize_str("-infinite"),
        _ => to.serialize_none(),
    }
}
