//! Units as types: moments, spans, tokens.
//!
//! The core never sees `std::time`: a [`Moment`] is nanoseconds since the driver's epoch, so that
//! live and virtual clocks look the same to it.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A point in time: nanoseconds since the driver's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run: about 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of whole seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }
    /// A span of whole milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }
    /// A span of seconds given as a float; negative and NaN become zero, infinity becomes
    /// [`Span::MAX`].
    pub fn secs_f64(secs: f64) -> Self {
        // `as` saturates, and maps NaN to 0, which is what a span wants.
        Self((secs * 1e9).round() as u64)
    }
    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// This span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// This span times a factor; a negative factor gives zero.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

impl Moment {
    /// The driver's epoch.
    pub const START: Self = Self(0);
    /// After everything.
    pub const MAX: Self = Self(u64::MAX);

    /// The time since `earlier`, or zero when `earlier` lies after this moment.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Moment {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Moment {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Span {
    /// Seconds with three digits below one minute, whole seconds above.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.as_secs_f64();
        if secs < 60.0 { write!(f, "{secs:.3} s") } else { write!(f, "{secs:.0} s") }
    }
}

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(pub u64);

impl Tokens {
    /// No tokens.
    pub const ZERO: Self = Self(0);

    /// The difference, or zero when `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// The count as a float, for scores.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Add for Tokens {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Tokens {
    type Output = Self;
    /// Panics in debug builds when the result would be negative: an account that goes below zero is
    /// a bug.
    fn sub(self, other: Self) -> Self {
        debug_assert!(other.0 <= self.0, "{} tokens minus {} tokens is negative", self.0, other.0);
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Tokens {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} token{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// The chained hash of one full block of a prompt: equal hashes mean equal prefixes up to and
/// including it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);
