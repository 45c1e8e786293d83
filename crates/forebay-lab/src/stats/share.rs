//! Puts an interval around a share whose events come in bursts.
//!
//! Refusals come together: when one request finds no room, the next finds none either. In the test
//! that started this project 429 of 3,000 were refused with a design effect of 11: they tell as
//! much as 265 independent ones, and an interval that ignores it is three times too narrow. So the
//! block is the unit: the variance is that between blocks (Cochran, *Sampling Techniques*, 3rd ed.
//! 1977, 9.A), the design effect is how many times more that is than independent requests would
//! have, and the interval is Wilson's (JASA 22, 1927) on the effective number of requests, with a
//! quantile of t for as many blocks as there are (Kott and Carr, *Survey Methodology* 1997; Franco,
//! Little, Louis and Slud, *J. Survey Statistics and Methodology* 7(3), 2019).

use super::distribution::{normal_quantile, t_quantile};

/// The design effect that is assumed where blocks cannot tell theirs, since fewer than
/// [`BLOCKS_HIT_MIN`] had an event: that of the refusals in `docs/concepts/evidence.md`. With no
/// event at all the bound is then the rule of three (Hanley and Lippman-Hand, JAMA 249(13), 1983)
/// on an eleventh of the requests. Taking 1 would call 300 requests without a refusal a proof of
/// 1 %, when they are one quiet half-minute.
pub const ASSUMED_EFFECT: f64 = 11.0;
/// Blocks with an event from which on their spread is believed. A guess: with fewer, one more
/// burst changes the estimate by more than a third.
pub const BLOCKS_HIT_MIN: usize = 5;

/// Events among the requests of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tally {
    /// Requests.
    pub of: f64,
    /// Those with the event.
    pub hit: f64,
}

/// A share over blocks with what is known of its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Events over requests.
    pub value: f64,
    /// Requests.
    pub of: f64,
    /// How many times more it varies than with independent requests.
    pub design_effect: f64,
    /// Degrees of freedom of that: blocks less one, or infinite where it is assumed.
    pub df: f64,
}

impl Share {
    /// Sums up blocks; `None` without requests. `autocorrelation` is that of neighbouring blocks:
    /// blocks that lean the same way tell less than as many independent ones.
    pub fn of(blocks: &[Tally], autocorrelation: f64) -> Option<Self> {
        let blocks: Vec<Tally> = blocks.iter().copied().filter(|block| block.of > 0.0).collect();
        let of: f64 = blocks.iter().map(|block| block.of).sum();
        let hit: f64 = blocks.iter().map(|block| block.hit).sum();
        if blocks.is_empty() {
            return None;
        }
        let value = hit / of;
        let count = blocks.len() as f64;
        let assumed = ASSUMED_EFFECT.min(of / count).max(1.0);
        let spread: f64 = blocks.iter().map(|block| (block.hit - value * block.of).powi(2)).sum();
        let variance = spread * count / (count - 1.0) / (of * of) * inflation(autocorrelation);
        let independent = value * (1.0 - value) / of;
        let seen = if independent > 0.0 { variance / independent } else { f64::NAN };
        let hits = |event: fn(&Tally) -> bool| blocks.iter().filter(|block| event(block)).count();
        // A share near 1 is a rare miss, and as hard to judge as a rare hit.
        let told = hits(|block| block.hit > 0.0).min(hits(|block| block.hit < block.of));
        let (design_effect, df) = match seen {
            // Fewer than independent requests would give is luck more often than design.
            seen if told >= BLOCKS_HIT_MIN && seen.is_finite() => (seen.max(1.0), count - 1.0),
            seen if seen > assumed => (seen, count - 1.0),
            _ => (assumed, f64::INFINITY),
        };
        Some(Self { value, of, design_effect, df })
    }

    /// Independent requests that would tell as much.
    pub fn effective(&self) -> f64 {
        self.of / self.design_effect
    }

    /// The bounds that hold with these probabilities of error below and above: 0.025 each for an
    /// interval at 95 %. What was seen is always within, whatever rounding leaves at 0 and 1.
    pub fn interval(&self, error_below: f64, error_above: f64) -> (f64, f64) {
        let low = self.bound(-self.quantile(error_below)).min(self.value);
        let high = self.bound(self.quantile(error_above)).max(self.value);
        (low, high)
    }

    /// As many times these blocks as would bring the bound on the side of `limit` to it, if the
    /// share stays as it is; `None` where none would, since the share is at the limit.
    pub fn times_to_decide(&self, limit: f64, error: f64) -> Option<f64> {
        let gap = (self.value - limit).abs();
        if gap <= f64::EPSILON {
            return None;
        }
        let decides = |times: f64| {
            let more = Self { of: self.of * times, df: (self.df + 1.0) * times - 1.0, ..*self };
            let (low, high) = more.interval(error, error);
            if self.value < limit { high <= limit } else { low > limit }
        };
        let mut times = 1.0;
        while !decides(times) {
            times *= 1.05;
            if times > 1e6 {
                return None;
            }
        }
        Some(times)
    }

    fn quantile(&self, error: f64) -> f64 {
        if self.df.is_infinite() {
            normal_quantile(1.0 - error)
        } else {
            t_quantile(1.0 - error, self.df.max(f64::MIN_POSITIVE))
        }
    }

    /// Wilson's bound `z` standard errors away.
    fn bound(&self, z: f64) -> f64 {
        let (n, p) = (self.effective(), self.value);
        if z.is_infinite() {
            return if z > 0.0 { 1.0 } else { 0.0 };
        }
        let centre = p + z * z / (2.0 * n);
        let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).max(0.0).sqrt();
        ((centre + half) / (1.0 + z * z / n)).clamp(0.0, 1.0)
    }
}

/// By how much neighbours that lean the same way raise the variance of a mean: (1 + r) / (1 − r)
/// for a first-order autoregression (Bayley and Hammersley, JRSS Supplement 8, 1946). Correlations
/// above a half are cut there: a handful of blocks cannot tell more, and the run needs to be
/// longer.
pub fn inflation(autocorrelation: f64) -> f64 {
    let r = autocorrelation.clamp(0.0, 0.5);
    (1.0 + r) / (1.0 - r)
}

#[cfg(test)]
mod tests {
    use super::{Share, Tally, inflation};

    fn blocks(of: f64, hits: &[f64]) -> Vec<Tally> {
        hits.iter().map(|&hit| Tally { of, hit }).collect()
    }

    #[test]
    fn the_refusals_of_the_evidence_have_a_design_effect_of_eleven() {
        // The three measured runs of the kv router at two workers.
        let share = Share::of(&blocks(1000.0, &[103.0, 149.0, 177.0]), 0.0).unwrap();
        assert!((share.value - 0.143).abs() < 1e-12);
        assert!((11.0..12.0).contains(&share.design_effect), "{share:?}");
        let (low, high) = share.interval(0.025, 0.025);
        // t with two degrees of freedom: three runs tell little, but enough for a limit of 1 %.
        assert!((0.06..0.09).contains(&low) && (0.22..0.30).contains(&high), "{low} {high}");
    }

    #[test]
    fn an_interval_holds_what_was_seen() {
        for hits in [0.0, 1.0, 40.0, 99.0, 100.0] {
            for blocks_many in [1, 3, 10, 37] {
                let share = Share::of(&blocks(100.0, &vec![hits; blocks_many]), 0.0).unwrap();
                let (low, high) = share.interval(0.025, 0.05);
                assert!(low <= share.value && share.value <= high, "{share:?}: {low} {high}");
            }
        }
        let none = Share::of(&blocks(37.0, &[0.0; 10]), 0.0).unwrap();
        assert!(none.interval(0.025, 0.025).0 <= 0.0, "nothing is the least");
    }

    #[test]
    fn nothing_seen_is_bounded_by_three_over_the_effective_number() {
        let share = Share::of(&blocks(1000.0, &[0.0; 10]), 0.0).unwrap();
        assert!((share.effective() - 10_000.0 / 11.0).abs() < 1e-6);
        let (low, high) = share.interval(0.05, 0.05);
        assert!(low.abs() < 1e-12);
        // Wilson's bound for none is z² / (n + z²): 2.71 where the rule of three says 3.
        assert!((high - 2.706 / (909.1 + 2.706)).abs() < 1e-5, "{high}");
        // Small blocks cannot be assumed to hold less than one independent request each.
        let tiny = Share::of(&blocks(3.0, &[0.0; 10]), 0.0).unwrap();
        assert!((tiny.effective() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn one_event_never_makes_the_bound_better_than_none() {
        let none = Share::of(&blocks(300.0, &[0.0; 10]), 0.0).unwrap().interval(0.05, 0.05).1;
        let mut hits = [0.0; 10];
        hits[3] = 1.0;
        let one = Share::of(&blocks(300.0, &hits), 0.0).unwrap().interval(0.05, 0.05).1;
        assert!(one > none, "{one} {none}");
    }

    #[test]
    fn all_is_as_hard_to_prove_as_none() {
        let none = Share::of(&blocks(300.0, &[0.0; 10]), 0.0).unwrap().interval(0.05, 0.05);
        let all = Share::of(&blocks(300.0, &[300.0; 10]), 0.0).unwrap().interval(0.05, 0.05);
        assert!((none.1 - (1.0 - all.0)).abs() < 1e-12 && (all.1 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_burst_widens_the_interval_and_one_block_says_nothing_of_bursts() {
        let even = Share::of(&blocks(100.0, &[10.0; 12]), 0.0).unwrap();
        let mut hits = [0.0; 12];
        hits[..6].copy_from_slice(&[20.0, 5.0, 60.0, 1.0, 30.0, 4.0]);
        let burst = Share::of(&blocks(100.0, &hits), 0.0).unwrap();
        assert!((even.value - burst.value).abs() < 1e-12);
        let width = |share: Share| {
            let (low, high) = share.interval(0.025, 0.025);
            high - low
        };
        assert!(width(burst) > 3.0 * width(even));
        let single = Share::of(&blocks(1000.0, &[100.0]), 0.0).unwrap();
        assert!(single.df.is_infinite() && (single.design_effect - 11.0).abs() < 1e-9);
        assert_eq!(Share::of(&[], 0.0), None);
    }

    #[test]
    fn neighbours_that_lean_the_same_way_tell_less() {
        assert!((inflation(0.5) - 3.0).abs() < 1e-12 && (inflation(-0.4) - 1.0).abs() < 1e-12);
        let hits = [5.0, 9.0, 12.0, 15.0, 12.0, 9.0, 5.0, 2.0];
        let free = Share::of(&blocks(50.0, &hits), 0.0).unwrap();
        let bound = Share::of(&blocks(50.0, &hits), 0.5).unwrap();
        assert!((bound.design_effect / free.design_effect - 3.0).abs() < 1e-9);
    }

    #[test]
    fn more_blocks_decide_sooner_where_the_limit_is_further_away() {
        let share = Share::of(&blocks(300.0, &[0.0; 10]), 0.0).unwrap();
        let times = |limit| share.times_to_decide(limit, 0.05).unwrap();
        assert!(times(0.1) < 1.01 && times(0.001) > 5.0 && times(0.001) < 20.0);
        let at = Share::of(&blocks(100.0, &[10.0; 10]), 0.0).unwrap();
        assert_eq!(at.times_to_decide(0.1, 0.05), None);
    }
}
