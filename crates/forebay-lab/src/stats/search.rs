//! Finds the highest rate at which criteria hold, from blocks that pass or miss.
//!
//! The rate doubles until it is seen to be too much, then the gap is halved (on a scale of ratios:
//! capacities are known to some percent, not to some requests). At each rate blocks are run until
//! it is decided whether they pass more often than not, by a test that may be looked at after every
//! block (Robbins, *Annals of Mathematical Statistics* 41(5), 1970: with a uniform prior, the
//! probability that the bounds of the mixture's martingale ever exclude the truth is at most α).
//! Every rate that is tried gets an equal part of the error, so that all decisions together, and
//! with them the interval, are wrong with probability `error` at most. Where a rate stays undecided
//! it is at the edge, and the search looks on either side of it.
//!
//! It holds what it finds against one assumption, which every search needs: a higher rate passes no
//! more often than a lower one.

use super::distribution::beta_cdf;

/// What is searched and how sure to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The rate to begin with.
    pub start: f64,
    /// The lowest rate that is of use: below it there is no answer.
    pub rate_min: f64,
    /// The highest rate that the generator may ask.
    pub rate_max: f64,
    /// How closely to know the answer, as a ratio: 1.05 is to 5 %.
    pub ratio: f64,
    /// The probability that the interval may miss.
    pub error: f64,
    /// Blocks at one rate at most.
    pub blocks_max: u32,
}

/// A search under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    bounds: Bounds,
    /// The rates that were tried, in the order of their first block.
    tried: Vec<Tried>,
    /// The rate that is tried now.
    rate: Option<f64>,
}

/// A rate with the blocks that were run at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Requests a second.
    pub rate: f64,
    /// Blocks that met the criteria.
    pub passed: u32,
    /// Blocks that missed one.
    pub missed: u32,
    /// What that decides.
    pub decided: Decided,
}

/// What blocks at a rate decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// Most blocks pass.
    Holds,
    /// Most blocks miss.
    Fails,
    /// It is at the edge, or there were too few.
    Open,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The highest rate that was shown to hold; `None` where even the lowest was not.
    pub rate: Option<f64>,
    /// From the highest rate that was shown to hold, or 0, …
    pub low: f64,
    /// … to the lowest that was shown to fail, or infinity: the capacity lies between, with the
    /// confidence that was asked for.
    pub high: f64,
    /// The search ended since the interval is narrow enough, and not since it ran out of blocks or
    /// rates.
    pub is_settled: bool,
    /// Every rate that was tried, rising.
    pub tried: Vec<Tried>,
}

impl Search {
    /// A search that has not begun.
    pub fn new(bounds: Bounds) -> Self {
        let start = bounds.start.clamp(bounds.rate_min, bounds.rate_max);
        Self { bounds, tried: Vec::new(), rate: Some(start) }
    }

    /// The rate to run the next block at; `None` at the end.
    pub fn next_rate(&self) -> Option<f64> {
        self.rate
    }

    /// Takes in whether a block at the rate of [`Search::next_rate`] met the criteria.
    pub fn tell(&mut self, passed: bool) {
        let Some(rate) = self.rate else { return };
        let alpha = self.error_each();
        let blocks_max = self.bounds.blocks_max;
        let tried = self.current(rate);
        if passed {
            tried.passed += 1;
        } else {
            tried.missed += 1;
        }
        tried.decided = decided(tried.passed, tried.missed, alpha);
        let is_over = tried.passed + tried.missed >= blocks_max;
        if tried.decided != Decided::Open || is_over {
            self.rate = self.after(rate);
        }
    }

    /// Takes in what was decided about the rate of [`Search::next_rate`] by other means, such as
    /// the verdict on a run at it: to keep the interval honest, with an error of
    /// [`Search::error_each`] at most.
    pub fn settle(&mut self, decided: Decided) {
        let Some(rate) = self.rate else { return };
        self.current(rate).decided = decided;
        self.rate = self.after(rate);
    }

    /// The error that the decision about one rate may make.
    pub fn error_each(&self) -> f64 {
        self.bounds.error / f64::from(self.rates_max())
    }

    fn current(&mut self, rate: f64) -> &mut Tried {
        let place = self.tried.iter().position(|tried| same(tried.rate, rate));
        let place = place.unwrap_or_else(|| {
            let decided = Decided::Open;
            self.tried.push(Tried { rate, passed: 0, missed: 0, decided });
            self.tried.len() - 1
        });
        &mut self.tried[place]
    }

    /// What is known now.
    pub fn answer(&self) -> Answer {
        let (low, high) = self.interval();
        let mut tried = self.tried.clone();
        tried.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        Answer {
            rate: (low > 0.0).then_some(low),
            low,
            high,
            is_settled: high / low <= self.bounds.ratio * (1.0 + 1e-9),
            tried,
        }
    }

    /// Blocks that one rate needs at least before it can be decided.
    pub fn blocks_min(&self) -> u32 {
        let alpha = self.error_each();
        (1..1000).find(|blocks| decided(*blocks, 0, alpha) == Decided::Holds).unwrap_or(1000)
    }

    /// The highest that holds and the lowest that fails.
    fn interval(&self) -> (f64, f64) {
        let of = |wanted: Decided| {
            let found = self.tried.iter().filter(move |tried| tried.decided == wanted);
            found.map(|tried| tried.rate)
        };
        let high = of(Decided::Fails).fold(f64::INFINITY, f64::min);
        (of(Decided::Holds).filter(|rate| *rate < high).fold(0.0, f64::max), high)
    }

    /// The next rate that is worth a try.
    fn after(&self, rate: f64) -> Option<f64> {
        let Bounds { rate_min, rate_max, ratio, .. } = self.bounds;
        if self.tried.len() as u32 >= self.rates_max() {
            return None;
        }
        let (low, high) = self.interval();
        let unseen = |rate: &f64| !self.tried.iter().any(|tried| same(tried.rate, *rate));
        if high.is_infinite() && low > 0.0 {
            return Some((rate * 2.0).min(rate_max)).filter(unseen);
        }
        if low <= 0.0 {
            return Some((rate / 2.0).max(rate_min)).filter(unseen);
        }
        if high / low <= ratio {
            return None;
        }
        // A rate at the edge divides the gap in two: the lower half is tried before the upper.
        let edges = self.tried.iter().filter(|tried| tried.decided == Decided::Open);
        let edge = edges.map(|tried| tried.rate).find(|rate| *rate > low && *rate < high);
        let middles = match edge {
            None => vec![(low * high).sqrt()],
            Some(edge) => vec![(low * edge).sqrt(), (edge * high).sqrt()],
        };
        middles.into_iter().find(|middle| {
            let near = |tried: &Tried| {
                let apart = (tried.rate / middle).max(middle / tried.rate);
                apart < 1.0 + (ratio - 1.0) / 4.0
            };
            !self.tried.iter().any(near)
        })
    }

    /// Rates that are tried at most: those of doubling through the range, and of halving a factor
    /// of two until it is narrow, with as many again for rates at the edge.
    fn rates_max(&self) -> u32 {
        let Bounds { start, rate_min, rate_max, ratio, .. } = self.bounds;
        let doublings = (rate_max / start).max(start / rate_min).max(1.0).log2().ceil();
        let halvings = (2.0_f64.ln() / ratio.ln()).log2().ceil().max(1.0);
        (doublings + 1.0 + 2.0 * halvings) as u32
    }
}

/// Whether a rate passes more often than not, from all its blocks so far. The martingale of Robbins
/// with a uniform prior on either side of one half: the odds that the share is above it, times the
/// likelihood ratio of the mixture against a half.
fn decided(passed: u32, missed: u32, alpha: f64) -> Decided {
    // Each direction is tested at half of it.
    let bound = 2.0 / alpha;
    let (hits, losses) = (f64::from(passed), f64::from(missed));
    // ∫ p^k (1−p)^m dp over p > ½, twice for the prior, against (½)^(k+m).
    let evidence = |hits: f64, losses: f64| {
        let above = 1.0 - beta_cdf(0.5, hits + 1.0, losses + 1.0);
        let log_beta = ln_beta(hits + 1.0, losses + 1.0);
        2.0 * above * (log_beta + (hits + losses) * 2.0_f64.ln()).exp()
    };
    if evidence(hits, losses) >= bound {
        Decided::Holds
    } else if evidence(losses, hits) >= bound {
        Decided::Fails
    } else {
        Decided::Open
    }
}

/// ln B(a, b) for whole a and b.
fn ln_beta(a: f64, b: f64) -> f64 {
    let ln_factorial = |n: f64| (1..=n as u32).map(|k| f64::from(k).ln()).sum::<f64>();
    ln_factorial(a - 1.0) + ln_factorial(b - 1.0) - ln_factorial(a + b - 1.0)
}

fn same(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-9
}

#[cfg(test)]
mod tests {
    use forebay_core::Rng;

    use super::{Bounds, Decided, Search, decided};

    const BOUNDS: Bounds = Bounds {
        start: 2.0,
        rate_min: 0.25,
        rate_max: 64.0,
        ratio: 1.1,
        error: 0.05,
        blocks_max: 40,
    };

    /// A target that passes a block with a probability that falls from 1 to 0 around its capacity.
    fn searched(capacity: f64, softness: f64, seed: u64) -> (Search, u32) {
        let (mut search, mut rng, mut blocks) = (Search::new(BOUNDS), Rng::new(seed), 0);
        while let Some(rate) = search.next_rate() {
            let passes = 1.0 / (1.0 + ((rate / capacity).ln() / softness).exp());
            search.tell(rng.unit() < passes);
            blocks += 1;
            assert!(blocks < 2000, "it comes to an end");
        }
        (search, blocks)
    }

    #[test]
    fn the_interval_holds_the_capacity_of_noisy_targets_as_often_as_it_says() {
        for (capacity, softness, widest) in [(9.3, 0.02, 0.2), (3.1, 0.08, 0.5), (25.0, 0.2, 1.0)] {
            let (mut held, mut width) = (0, 0.0);
            for seed in 0..200 {
                let (search, _) = searched(capacity, softness, seed);
                let answer = search.answer();
                held += u32::from(answer.low <= capacity && capacity <= answer.high);
                width += (answer.high / answer.low).min(100.0).ln();
            }
            assert!(held >= 190, "{capacity}: {held} of 200");
            assert!(width / 200.0 < widest, "{capacity}: {}", width / 200.0);
        }
    }

    #[test]
    fn a_sharp_target_is_found_to_the_ratio_in_few_blocks() {
        let (search, blocks) = searched(9.3, 1e-6, 1);
        let answer = search.answer();
        assert!(answer.is_settled && answer.low <= 9.3 && 9.3 < answer.high, "{answer:?}");
        assert!(answer.high / answer.low <= 1.1 && blocks < 120, "{blocks}");
        assert_eq!(answer.rate, Some(answer.low));
    }

    #[test]
    fn a_target_beyond_the_range_is_said_to_be_beyond_it() {
        let answer = searched(1000.0, 0.01, 1).0.answer();
        assert!(answer.low >= 64.0 && answer.high.is_infinite() && !answer.is_settled);
        let answer = searched(0.001, 0.01, 1).0.answer();
        assert!(answer.rate.is_none() && answer.high <= 0.25 && !answer.is_settled, "{answer:?}");
    }

    #[test]
    fn looking_after_every_block_errs_no_more_often_than_it_may() {
        // A rate that passes every second time is neither: any decision is wrong.
        let wrong = (0..400).filter(|seed| {
            let mut rng = Rng::new(*seed);
            let (mut passed, mut missed) = (0, 0);
            (0..200).any(|_| {
                if rng.unit() < 0.5 {
                    passed += 1;
                } else {
                    missed += 1;
                }
                decided(passed, missed, 0.05) != Decided::Open
            })
        });
        let wrong = wrong.count();
        assert!(wrong <= 20, "{wrong} of 400");
    }

    #[test]
    fn verdicts_on_runs_steer_it_as_blocks_do() {
        let mut search = Search::new(BOUNDS);
        while let Some(rate) = search.next_rate() {
            search.settle(if rate <= 9.3 { Decided::Holds } else { Decided::Fails });
        }
        let answer = search.answer();
        assert!(answer.is_settled && answer.low <= 9.3 && answer.high > 9.3, "{answer:?}");
        assert!(answer.tried.len() <= 8 && search.error_each() < 0.01, "{answer:?}");
    }

    #[test]
    fn what_is_told_after_the_end_changes_nothing() {
        let (mut search, _) = searched(9.3, 0.02, 1);
        let before = search.clone();
        search.tell(true);
        assert_eq!(search, before);
        assert!((5..20).contains(&search.blocks_min()), "{}", search.blocks_min());
    }
}
