//! Draws how long a user thinks between an answer and his next request.

use std::fmt;
use std::str::FromStr;

use forebay_core::{Rng, Span};

use super::NotationError;
use super::process::{logarithm, positive};

/// The longest time to think, in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;
const FORMS: &str = "write seconds, as in 2, or exponential:2 for a mean of 2 seconds";

/// How long a user of a closed loop waits between the end of an answer and his next request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Think {
    /// Always as long.
    Fixed(Span),
    /// Exponential, with this mean.
    Exponential(Span),
}

impl Default for Think {
    fn default() -> Self {
        Self::Fixed(Span::ZERO)
    }
}

impl Think {
    /// One time to think.
    pub fn draw(self, rng: &mut Rng) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => mean.scaled(-logarithm(positive(rng))),
        }
    }

    /// How long it is on average.
    pub const fn mean(self) -> Span {
        match self {
            Self::Fixed(mean) | Self::Exponential(mean) => mean,
        }
    }
}

impl FromStr for Think {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let span = |text: &str| {
            let seconds = text.parse().ok().filter(|s| (0.0..=SECONDS_MAX).contains(s));
            seconds.map(Span::secs_f64)
        };
        match text.split_once(':') {
            None => span(text).map(Self::Fixed),
            Some(("exponential", mean)) => span(mean).map(Self::Exponential),
            Some(_) => None,
        }
        .ok_or_else(|| NotationError::new(format!("{text:?} is no time to think"), FORMS))
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) => write!(f, "{}", span.as_secs_f64()),
            Self::Exponential(mean) => write!(f, "exponential:{}", mean.as_secs_f64()),
        }
    }
}
