//! Draws lengths from the distributions of a description.

use forebay_core::Rng;
use serde::Deserialize;

/// A distribution as it is written: exactly one of the forms, and bounds that cut what falls
/// outside.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    constant: Option<f64>,
    uniform: Option<[f64; 2]>,
    normal: Option<Normal>,
    lognormal: Option<Lognormal>,
    quantiles: Option<Vec<(f64, f64)>>,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Normal {
    mean: f64,
    deviation: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lognormal {
    median: f64,
    sigma: f64,
}

/// A distribution of lengths or times.
///
/// As text, for tokens: `1024`, `256..2048`, `lognormal:1024,0.8` (median and sigma) or
/// `normal:1024,200` (mean and deviation).
#[derive(Clone, Debug)]
pub struct Length {
    form: Form,
    min: f64,
    max: f64,
}

#[derive(Clone, Debug)]
enum Form {
    Uniform(f64, f64),
    Normal(f64, f64),
    Lognormal(f64, f64),
    /// Points (share, value), both rising; straight lines between.
    Quantiles(Vec<(f64, f64)>),
}

impl Written {
    /// The distribution, or what is wrong with it. Values lie in `least..=most`.
    pub(super) fn resolve(&self, least: f64, most: f64) -> Result<Length, String> {
        let forms = [
            self.constant.map(|value| Form::Uniform(value, value)),
            self.uniform.map(|[from, to]| Form::Uniform(from, to)),
            self.normal.as_ref().map(|normal| Form::Normal(normal.mean, normal.deviation)),
            self.lognormal.as_ref().map(|log| Form::Lognormal(log.median, log.sigma)),
            self.quantiles.clone().map(Form::Quantiles),
        ];
        let mut given = forms.into_iter().flatten();
        let (Some(form), None) = (given.next(), given.next()) else {
            let forms = "constant, uniform, normal, lognormal or quantiles";
            return Err(format!("needs exactly one of {forms}"));
        };
        let length = Length { form, min: self.min.unwrap_or(least), max: self.max.unwrap_or(most) };
        length.sound(least, most)
    }
}

impl Length {
    /// Evenly from one value to another; the same value twice is a constant.
    pub(crate) const fn uniform(from: f64, to: f64) -> Self {
        Self::unbounded(Form::Uniform(from, to))
    }

    /// Normal, by its mean and deviation.
    pub(crate) const fn normal(mean: f64, deviation: f64) -> Self {
        Self::unbounded(Form::Normal(mean, deviation))
    }

    /// Lognormal, by its median and the deviation of the logarithm.
    pub(crate) const fn lognormal(median: f64, sigma: f64) -> Self {
        Self::unbounded(Form::Lognormal(median, sigma))
    }

    const fn unbounded(form: Form) -> Self {
        Self { form, min: f64::NEG_INFINITY, max: f64::INFINITY }
    }

    /// The distribution with values in `least..=most` only, or what is wrong with it.
    pub(crate) fn within(self, least: f64, most: f64) -> Result<Self, String> {
        Self { form: self.form, min: least, max: most }.sound(least, most)
    }

    /// The distribution, or what is wrong with it. Values lie in `least..=most`.
    fn sound(self, least: f64, most: f64) -> Result<Self, String> {
        let sound = match &self.form {
            Form::Uniform(from, to) => from <= to && *from >= least && *to <= most,
            Form::Normal(mean, spread) => {
                *mean >= least && *mean <= most && (0.0..=most).contains(spread)
            }
            Form::Lognormal(median, sigma) => {
                *median >= least && *median <= most && *median > 0.0 && (0.0..=5.0).contains(sigma)
            }
            Form::Quantiles(points) => {
                let ends = points.first().zip(points.last());
                let whole = ends.is_some_and(|(first, last)| first.0 <= 0.0 && last.0 >= 1.0)
                    && points.iter().all(|(share, _)| (0.0..=1.0).contains(share));
                let within = points.iter().all(|(_, value)| *value >= least && *value <= most);
                let rising =
                    points.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1);
                whole && within && rising
            }
        };
        if !(sound && least <= self.min && self.min <= self.max && self.max <= most) {
            return Err(format!(
                "must lie in {least}..={most}, with from ≤ to, min ≤ max, sigma ≤ 5, and \
                 quantiles that rise from share 0 to share 1"
            ));
        }
        Ok(self)
    }

    /// One value. Uses only additions, multiplications and divisions, so that every machine draws
    /// the same.
    pub(crate) fn draw(&self, deck: &mut Deck) -> f64 {
        let value = match &self.form {
            Form::Uniform(from, to) => from + (to - from) * deck.unit(),
            Form::Normal(mean, deviation) => mean + deviation * standard_normal(&mut deck.rng),
            Form::Lognormal(median, sigma) => {
                median * exponential(sigma * standard_normal(&mut deck.rng))
            }
            Form::Quantiles(points) => interpolated(points, deck.unit()),
        };
        value.clamp(self.min, self.max)
    }

    /// One value as a whole number.
    pub(crate) fn draw_whole(&self, deck: &mut Deck) -> u64 {
        self.draw(deck).round() as u64
    }
}

/// Cards of a [`Deck`]: small against the number of draws in a short trace of a thousand requests.
const CARDS: u16 = 32;

/// Draws from `[0, 1)` that are spread evenly: of every 32 in a row, each falls into another 32nd.
///
/// Independent draws would make short traces of different seeds differ by as much as the things
/// that are measured on them: the mean of 1,000 prompts by a tenth, and with it the load. The order
/// within the 32 stays random.
#[derive(Debug)]
pub(crate) struct Deck {
    rng: Rng,
    left: Vec<u16>,
}

impl Deck {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, left: Vec::with_capacity(usize::from(CARDS)) }
    }

    /// The next draw.
    pub(crate) fn unit(&mut self) -> f64 {
        if self.left.is_empty() {
            self.left.extend(0..CARDS);
        }
        let card = self.rng.below(self.left.len() as u64) as usize;
        let card = self.left.swap_remove(card);
        (f64::from(card) + self.rng.unit()) / f64::from(CARDS)
    }
}

fn interpolated(points: &[(f64, f64)], share: f64) -> f64 {
    let after = points.partition_point(|(at, _)| *at <= share).clamp(1, points.len() - 1);
    let ((from, low), (to, high)) = (points[after - 1], points[after]);
    if to > from { low + (high - low) * (share - from) / (to - from) } else { high }
}

/// A standard normal value as the sum of twelve uniform ones (Irwin and Hall): cut at ±6, and
/// without a logarithm, whose last bit differs between machines.
fn standard_normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

/// e to the power of `x`, by arithmetic that is the same on every machine: Taylor's series on a
/// sixty-fourth of `x`, squared six times, and for |x| above 32 that of its half, squared.
pub(crate) fn exponential(x: f64) -> f64 {
    // Beyond, the result is 0 or infinite.
    let x = x.clamp(-1e3, 1e3);
    if x.abs() > 32.0 {
        let root = exponential(x / 2.0);
        return root * root;
    }
    let small = x / 64.0;
    let mut term = 1.0;
    let mut sum = 1.0;
    for nth in 1..16 {
        term *= small / f64::from(nth);
        sum += term;
    }
    (0..6).fold(sum, |value, _| value * value)
}

#[cfg(test)]
mod tests {
    use forebay_core::Rng;

    use super::{Deck, Length, Written, exponential};

    fn length(text: &str) -> Result<Length, String> {
        toml::from_str::<Written>(text).unwrap().resolve(0.0, 1e6)
    }

    fn mean(text: &str) -> f64 {
        let (length, mut rng) = (length(text).unwrap(), Deck::new(Rng::new(3)));
        (0..20_000).map(|_| length.draw(&mut rng)).sum::<f64>() / 20_000.0
    }

    #[test]
    fn each_form_has_the_mean_of_its_distribution() {
        assert!((mean("constant = 7") - 7.0).abs() < 1e-9);
        assert!((mean("uniform = [10, 20]") - 15.0).abs() < 0.1);
        assert!((mean("normal = { mean = 100, deviation = 10 }") - 100.0).abs() < 0.5);
        // A lognormal's mean is median × e^(sigma²/2).
        assert!((mean("lognormal = { median = 100, sigma = 0.5 }") / 113.3 - 1.0).abs() < 0.02);
        assert!((mean("quantiles = [[0, 3], [0.5, 3], [0.5, 21], [1, 41]]") - 17.0).abs() < 0.3);
    }

    #[test]
    fn bounds_cut_what_falls_outside() {
        let length = length("normal = { mean = 5, deviation = 50 }\nmin = 1\nmax = 9").unwrap();
        let mut rng = Deck::new(Rng::new(1));
        assert!((0..1000).all(|_| (1.0..=9.0).contains(&length.draw(&mut rng))));
    }

    #[test]
    fn an_unsound_distribution_is_refused() {
        for text in [
            "",
            "constant = 1\nuniform = [1, 2]",
            "constant = -1",
            "constant = nan",
            "uniform = [2, 1]",
            "uniform = [1, inf]",
            "normal = { mean = 1, deviation = -1 }",
            "lognormal = { median = 0, sigma = 1 }",
            "quantiles = []",
            "quantiles = [[0, 1], [0.9, 2]]",
            "quantiles = [[0, 1], [0.5, 5], [1, 2]]",
            "constant = 5\nmin = 9\nmax = 1",
        ] {
            assert!(length(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_exponential_agrees_with_the_machines() {
        for x in [-100.0, -30.0, -1.0, 0.0, 0.1, 1.0, 5.5, 30.0_f64] {
            assert!((exponential(x) / x.exp() - 1.0).abs() < 1e-12, "{x}");
        }
    }
}
