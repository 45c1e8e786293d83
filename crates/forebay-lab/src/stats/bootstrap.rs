//! Draws blocks anew to see how much a difference between two arms varies.
//!
//! The block is the unit (Künsch, *Annals of Statistics* 17(3), 1989; here without overlap,
//! Carlstein, *Annals of Statistics* 14(3), 1986): requests in one share their queue and its
//! bursts. Plain percentile intervals are too narrow with few blocks, so their tails are expanded
//! as Hesterberg has it (*The American Statistician* 69(4), 2015): a tail of α becomes
//! Φ(−t √(n/(n−1))), with the quantile t of n − 1 degrees of freedom. Where that tail holds too few
//! draws to be read off, the interval is t standard errors of the draws, √(n/(n−1)) wider.

use forebay_core::Rng;

use super::distribution::{normal_cdf, normal_quantile, t_cdf, t_quantile};
use super::share::inflation;

/// Draws that a tail must hold to be read off.
const TAIL_MIN: f64 = 5.0;

/// What two arms come to when their blocks are taken with these weights: the baseline's figure,
/// then the arm's.
pub type Figures<'a> = dyn FnMut(&[u32], &[u32]) -> (f64, f64) + 'a;

/// Which blocks belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Block n of one arm met the same requests as block n of the other.
    Paired(usize),
    /// Each arm's blocks are drawn for themselves.
    Unpaired(usize, usize),
}

impl Plan {
    /// Degrees of freedom: those of the arm with fewer blocks, which is on the safe side (Welch's
    /// lie between them and the sum).
    pub fn df(self) -> f64 {
        let blocks = match self {
            Self::Paired(blocks) => blocks,
            Self::Unpaired(one, other) => one.min(other),
        };
        blocks.saturating_sub(1) as f64
    }
}

/// A difference with what it comes to when blocks are drawn anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The arm's figure less the baseline's; infinite where one of them is, 0 where both are.
    pub value: f64,
    /// The same of each draw, rising.
    draws: Vec<f64>,
    /// Mean and variance of the draws of the figures mapped to 0 … 1, so that an infinite one
    /// counts.
    squeezed: (f64, f64),
    df: f64,
    inflation: f64,
}

impl Difference {
    /// Draws blocks `resamples` times. `None` where an arm has fewer than two blocks.
    pub fn of(
        plan: Plan,
        autocorrelation: f64,
        resamples: u32,
        rng: &mut Rng,
        figures: &mut Figures<'_>,
    ) -> Option<Self> {
        let (ones, others) = match plan {
            Plan::Paired(blocks) => (blocks, blocks),
            Plan::Unpaired(ones, others) => (ones, others),
        };
        if plan.df() < 1.0 {
            return None;
        }
        let whole = figures(&vec![1; ones], &vec![1; others]);
        let scale = scale(whole);
        let (mut draws, mut squeezed) = (Vec::new(), Vec::new());
        for _ in 0..resamples {
            let one = drawn(ones, rng);
            let other = match plan {
                Plan::Paired(_) => one.clone(),
                Plan::Unpaired(..) => drawn(others, rng),
            };
            let pair = figures(&one, &other);
            if !pair.0.is_nan() && !pair.1.is_nan() {
                draws.push(less(pair.1, pair.0));
                squeezed.push(squeeze(pair.1, scale) - squeeze(pair.0, scale));
            }
        }
        draws.sort_by(f64::total_cmp);
        let count = squeezed.len() as f64;
        let mean = squeezed.iter().sum::<f64>() / count;
        let variance = squeezed.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / count;
        let squeezed = (squeeze(whole.1, scale) - squeeze(whole.0, scale), variance);
        let value = less(whole.1, whole.0);
        let inflation = inflation(autocorrelation);
        (!value.is_nan() && !draws.is_empty()).then_some(Self {
            value,
            draws,
            squeezed,
            df: plan.df(),
            inflation,
        })
    }

    /// The interval that misses with probability `error` on either side.
    pub fn interval(&self, error: f64) -> (f64, f64) {
        let t = t_quantile(1.0 - error, self.df);
        let tail = normal_cdf(-t * self.expansion());
        let count = self.draws.len() as f64;
        if tail * count >= TAIL_MIN {
            let place = (tail * count) as usize;
            return (self.draws[place - 1], self.draws[self.draws.len() - place]);
        }
        match self.error() {
            Some(error) => (self.value - t * error, self.value + t * error),
            None if self.value.is_infinite() => self.infinite(error),
            None => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// The p-value of no difference, two-sided.
    pub fn p_value(&self) -> f64 {
        let above = self.p_above();
        (2.0 * above.min(1.0 - above)).min(1.0)
    }

    /// How probable it is that the difference is above 0, going by the draws; a tie is half.
    pub fn p_above(&self) -> f64 {
        let below = self.draws.partition_point(|draw| *draw < 0.0);
        let tied = self.draws[below..].partition_point(|draw| *draw <= 0.0);
        let above = self.draws.len() - below - tied;
        let half = tied as f64 / 2.0;
        let least = (below as f64 + half).min(above as f64 + half);
        if least < TAIL_MIN && self.value.abs() > 0.0 {
            return match self.error() {
                Some(error) => t_cdf(self.value / error, self.df),
                None => self.squeezed_p(),
            };
        }
        let share = (above as f64 + half) / self.draws.len() as f64;
        t_cdf(normal_quantile(share) / self.expansion(), self.df)
    }

    /// By how much draws vary less than blocks do.
    fn expansion(&self) -> f64 {
        ((self.df + 1.0) / self.df * self.inflation).sqrt()
    }

    /// The standard error, where all draws are finite.
    fn error(&self) -> Option<f64> {
        let count = self.draws.len() as f64;
        let mean = self.draws.iter().sum::<f64>() / count;
        let squares: f64 = self.draws.iter().map(|draw| (draw - mean).powi(2)).sum();
        let error = (squares / count).sqrt() * self.expansion();
        error.is_finite().then_some(error)
    }

    /// The same test on figures mapped to 0 … 1, which keeps their order and gives the infinite a
    /// distance.
    fn squeezed_p(&self) -> f64 {
        let (mean, variance) = self.squeezed;
        t_cdf(mean / (variance.sqrt() * self.expansion()), self.df)
    }

    /// An infinite difference is on one side for certain, or may be anything.
    fn infinite(&self, error: f64) -> (f64, f64) {
        let above = self.squeezed_p();
        match self.value > 0.0 {
            true if 1.0 - above <= error => (0.0, f64::INFINITY),
            false if above <= error => (f64::NEG_INFINITY, 0.0),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }
}

/// One less the other, where two infinite ones are alike.
pub fn less(one: f64, other: f64) -> f64 {
    if one.is_infinite() && other.is_infinite() && one.signum() * other.signum() > 0.0 {
        0.0
    } else {
        one - other
    }
}

/// A size that both figures are of, to tell near from far.
fn scale((one, other): (f64, f64)) -> f64 {
    let finite = [one, other].into_iter().filter(|figure| figure.is_finite());
    let largest = finite.map(f64::abs).fold(0.0, f64::max);
    if largest > 0.0 { largest } else { 1.0 }
}

/// Maps 0 … ∞ to 0 … 1, rising.
fn squeeze(figure: f64, scale: f64) -> f64 {
    if figure.is_infinite() { figure.signum() } else { figure / (figure.abs() + scale) }
}

/// How often each of so many blocks comes, when as many are drawn with replacement.
fn drawn(blocks: usize, rng: &mut Rng) -> Vec<u32> {
    let mut weights = vec![0; blocks];
    (0..blocks).for_each(|_| weights[rng.below(blocks as u64) as usize] += 1);
    weights
}

#[cfg(test)]
mod tests {
    use forebay_core::Rng;

    use super::{Difference, Plan};

    fn means(one: &[f64], other: &[f64], plan: Plan, seed: u64) -> Difference {
        let mean = |values: &[f64], weights: &[u32]| {
            let sum: f64 = values.iter().zip(weights).map(|(v, w)| v * f64::from(*w)).sum();
            sum / f64::from(weights.iter().sum::<u32>())
        };
        let mut figures = |left: &[u32], right: &[u32]| (mean(one, left), mean(other, right));
        Difference::of(plan, 0.0, 2000, &mut Rng::new(seed), &mut figures).unwrap()
    }

    /// Standard normal by the sum of twelve uniform draws: its tails do not matter here.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn intervals_of_no_difference_hold_zero_as_often_as_they_say() {
        for blocks in [3, 6, 10, 24] {
            let mut rng = Rng::new(blocks as u64);
            let mut missed = [0, 0, 0, 0];
            for seed in 0..400 {
                let mut draw = || (0..blocks).map(|_| normal(&mut rng)).collect::<Vec<f64>>();
                let (one, other) = (draw(), draw());
                let plans = [Plan::Paired(blocks), Plan::Unpaired(blocks, blocks)];
                for (missed, plan) in missed.chunks_mut(2).zip(plans) {
                    let difference = means(&one, &other, plan, seed);
                    let (low, high) = difference.interval(0.025);
                    missed[0] += i32::from(low > 0.0 || high < 0.0);
                    missed[1] += i32::from(difference.p_value() < 0.05);
                }
            }
            // 20 are expected; 33 would be three standard errors more.
            assert!(missed.iter().all(|missed| *missed <= 33), "{blocks} blocks: {missed:?}");
        }
    }

    #[test]
    fn pairs_see_what_a_common_burden_hides() {
        let mut rng = Rng::new(5);
        let burden: Vec<f64> = (0..12).map(|_| 10.0 * normal(&mut rng)).collect();
        let one: Vec<f64> = burden.iter().map(|b| b + 0.1 * normal(&mut rng)).collect();
        let other: Vec<f64> = burden.iter().map(|b| b + 1.0 + 0.1 * normal(&mut rng)).collect();
        assert!(means(&one, &other, Plan::Paired(12), 1).p_value() < 1e-6);
        assert!(means(&one, &other, Plan::Unpaired(12, 12), 1).p_value() > 0.5);
    }

    #[test]
    fn who_is_never_served_differs_from_who_is() {
        let mut figures =
            |_: &[u32], right: &[u32]| (5.0 + f64::from(right[0]) / 10.0, f64::INFINITY);
        let of = |blocks: usize, figures: &mut super::Figures<'_>| {
            Difference::of(Plan::Paired(blocks), 0.0, 500, &mut Rng::new(1), figures).unwrap()
        };
        let difference = of(10, &mut figures);
        assert!(difference.value.is_infinite() && difference.p_above() > 0.999);
        assert!(difference.interval(0.025).0 >= 0.0);
        let mut both = |_: &[u32], _: &[u32]| (f64::INFINITY, f64::INFINITY);
        let tie = of(10, &mut both);
        assert!(tie.value.abs() < 1e-12 && (tie.p_value() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_block_says_nothing_of_a_difference() {
        let mut figures = |_: &[u32], _: &[u32]| (1.0, 2.0);
        let plan = Plan::Unpaired(1, 9);
        assert_eq!(Difference::of(plan, 0.0, 100, &mut Rng::new(1), &mut figures), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_draws() {
        let (one, other) = ([1.0, 4.0, 2.0, 8.0], [2.0, 3.0, 5.0, 9.0]);
        let twice = [1, 1].map(|seed| means(&one, &other, Plan::Paired(4), seed));
        assert_eq!(twice[0], twice[1]);
    }
}
