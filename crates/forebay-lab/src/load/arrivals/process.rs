//! Draws the gaps between arrivals of unit rate: equal, exponential, or gamma.

use std::fmt;
use std::str::FromStr;

use forebay_core::Rng;

use super::NotationError;
use crate::trace::synth::exponential;

/// The coefficients of variation that gamma gaps may have. Below, they are constant for all that
/// can be measured; above, one gap in a thousand is as long as all others.
const CV: std::ops::RangeInclusive<f64> = 0.01..=10.0;
const FORMS: &str = "write constant, poisson, or gamma:CV with the coefficient of variation of the \
                     gaps from 0.01 to 10 (1 is poisson, 2.5 is bursty)";

/// How evenly requests come at their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Process {
    /// Equal gaps, with no variance at all. The first comes at the start.
    Constant,
    /// Exponential gaps: many clients that know nothing of one another.
    #[default]
    Poisson,
    /// Gamma gaps with this coefficient of variation: below 1 more even than Poisson, above 1 in
    /// bursts.
    Gamma(f64),
}

impl Process {
    /// Gaps with the mean 1; none at all for equal ones, which need no drawing.
    pub(super) fn gaps(self, mut rng: Rng) -> impl Iterator<Item = f64> {
        std::iter::from_fn(move || match self {
            Self::Constant => None,
            Self::Poisson => Some(-logarithm(positive(&mut rng))),
            Self::Gamma(cv) => {
                let shape = 1.0 / (cv * cv);
                Some(gamma(shape, &mut rng) / shape)
            }
        })
    }
}

impl FromStr for Process {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let cv = |text: &str| text.parse().ok().filter(|cv| CV.contains(cv));
        match text.split_once(':') {
            None if text == "constant" => Some(Self::Constant),
            None if text == "poisson" => Some(Self::Poisson),
            Some(("gamma", text)) => cv(text).map(Self::Gamma),
            _ => None,
        }
        .ok_or_else(|| NotationError::new(format!("{text:?} is no process of arrivals"), FORMS))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Poisson => f.write_str("poisson"),
            Self::Gamma(cv) => write!(f, "gamma:{cv}"),
        }
    }
}

/// A draw from `(0, 1]`.
pub(super) fn positive(rng: &mut Rng) -> f64 {
    1.0 - rng.unit()
}

/// A gamma value of this shape and scale 1 (Marsaglia and Tsang, ACM TOMS 26(3), 2000). Below shape
/// 1, one of a shape higher by 1 times a power of a uniform draw, as they say.
fn gamma(shape: f64, rng: &mut Rng) -> f64 {
    if shape < 1.0 {
        let power = exponential(logarithm(positive(rng)) / shape);
        return gamma(shape + 1.0, rng) * power;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = standard_normal(rng);
        let v = 1.0 + c * normal;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        let bound = normal * normal / 2.0 + d - d * v + d * logarithm(v);
        if logarithm(positive(rng)) < bound {
            return d * v;
        }
    }
}

/// A standard normal value by the polar method (Marsaglia and Bray, SIAM Review 6(3), 1964). The
/// sum of twelve draws that lengths use has tails too short for the rejection above.
fn standard_normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.unit() - 1.0, 2.0 * rng.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * logarithm(square) / square).sqrt();
        }
    }
}

/// The natural logarithm of a number above 0, by arithmetic that is the same on every machine: the
/// last bit of a library's differs. `x` is `2^e · m` with `m` near 1, and
/// `ln m = 2 artanh((m − 1)/(m + 1))` as a series, whose 12 terms are exact to the last bits.
pub(super) fn logarithm(x: f64) -> f64 {
    if x < f64::MIN_POSITIVE {
        return logarithm(f64::MIN_POSITIVE);
    }
    let bits = x.to_bits();
    let mut power = (bits >> 52).cast_signed() - 1023;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        power += 1;
    }
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    let series = (0..12).rev().fold(0.0, |sum, nth| sum * square + 1.0 / f64::from(2 * nth + 1));
    power as f64 * std::f64::consts::LN_2 + 2.0 * z * series
}

#[cfg(test)]
mod tests {
    use forebay_core::Rng;

    use super::{Process, logarithm};

    #[test]
    fn the_logarithm_agrees_with_the_machines() {
        for x in [1e-300, 0.001, 0.5, 0.999_999, 1.0, 1.414_3, 2.0, 10.0, 1e300_f64] {
            let (ours, theirs) = (logarithm(x), x.ln());
            assert!((ours - theirs).abs() <= 1e-15 * theirs.abs().max(1.0), "{x}");
        }
        assert!(logarithm(0.0).is_finite());
    }

    #[test]
    fn gaps_have_mean_one_and_the_variation_that_was_asked_for() {
        for (process, cv) in [
            (Process::Poisson, 1.0),
            (Process::Gamma(0.3), 0.3),
            (Process::Gamma(1.0), 1.0),
            (Process::Gamma(2.5), 2.5),
        ] {
            let gaps: Vec<f64> = process.gaps(Rng::new(5)).take(200_000).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let squares = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>();
            let deviation = (squares / gaps.len() as f64).sqrt();
            assert!((mean - 1.0).abs() < 0.02 * cv, "{process}: mean {mean}");
            assert!((deviation / mean / cv - 1.0).abs() < 0.03, "{process}: {}", deviation / mean);
            assert!(gaps.iter().all(|gap| *gap >= 0.0 && gap.is_finite()));
        }
        assert_eq!(Process::Constant.gaps(Rng::new(5)).next(), None);
    }
}
