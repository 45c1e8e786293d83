//! Finds the highest rate at which criteria hold, one run at a time.
//!
//! What runs *look* like steers, what they *show* is the answer. A rate is offered once and looks
//! as if it held or failed; from there the rate doubles until one looks as if it failed, and the
//! gap is halved (on a scale of ratios: capacities are known to some percent, not to some
//! requests). Only then are runs spent on showing it with confidence: at the highest rate that
//! looks well, and at the lowest that does not, each until it is shown or has had its runs. A rate
//! that can't be decided is left for one further from the edge, where less is needed.
//!
//! Waiting for a decision at every rate on the way instead spends nearly all runs on rates that
//! nobody asks about; and where a criterion needs more requests than a run has, it never leaves the
//! first rate.
//!
//! It holds what it finds against one assumption, which every search needs: a higher rate passes no
//! more often than a lower one.

/// Steps away from the edge that are taken where a rate can't be decided: with more of them the
/// interval is too wide to be of use.
const STEPS_MAX: i32 = 2;

/// What is searched and how closely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The rate to begin with.
    pub start: f64,
    /// The lowest rate that is of use: below it there is no answer.
    pub rate_min: f64,
    /// The highest rate that may be asked.
    pub rate_max: f64,
    /// How closely to know the answer, as a ratio: 1.05 is to 5 %.
    pub ratio: f64,
    /// Runs at one rate at most.
    pub runs_max: u32,
}

/// A search under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    bounds: Bounds,
    /// The rates that were tried, rising.
    tried: Vec<Tried>,
    runs: u32,
}

/// A rate with what its runs came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Requests a second.
    pub rate: f64,
    /// Runs at it.
    pub runs: u32,
    /// What they look like.
    pub looks: Looks,
    /// What is shown with confidence.
    pub shown: Option<Shown>,
}

/// What runs at a rate look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// As if the criteria held.
    Well,
    /// As if they failed.
    Ill,
    /// The rate can't be offered from here: the generator is the limit.
    BeyondReach,
}

/// What is shown with confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The criteria hold.
    Holds,
    /// They fail.
    Fails,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The highest rate that was shown to hold; `None` where none was.
    pub rate: Option<f64>,
    /// From the highest rate that was shown to hold, or 0, …
    pub low: f64,
    /// … to the lowest that was shown to fail, or infinity: the capacity lies between.
    pub high: f64,
    /// The highest rate that looks well below the first that does not, or 0.
    pub looks_low: f64,
    /// The lowest rate that looks ill, or infinity.
    pub looks_high: f64,
    /// The lowest rate that could not be offered, where none below it fails.
    pub beyond_reach: Option<f64>,
    /// Both ends were shown, as closely as runs of this length tell them apart.
    pub is_settled: bool,
    /// Every rate that was tried, rising.
    pub tried: Vec<Tried>,
}

impl Search {
    /// A search that has not begun.
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, tried: Vec::new(), runs: 0 }
    }

    /// Takes in one more run at a rate: what all runs at it look like now.
    pub fn tell(&mut self, rate: f64, looks: Looks) {
        self.runs += 1;
        let tried = self.at(rate);
        tried.runs += 1;
        tried.looks = looks;
    }

    /// Takes in what is shown about a rate by all runs so far. What was shown once stays.
    pub fn show(&mut self, rate: f64, shown: Shown) {
        let tried = self.at(rate);
        tried.shown = tried.shown.or(Some(shown));
    }

    /// What is known of a rate, if it was tried.
    pub fn tried(&self, rate: f64) -> Option<&Tried> {
        self.tried.iter().find(|tried| same(tried.rate, rate))
    }

    /// The rate to offer next; `None` at the end.
    pub fn next_rate(&self) -> Option<f64> {
        if self.runs >= self.runs_max() {
            return None;
        }
        let Bounds { start, rate_min, rate_max, ratio, .. } = self.bounds;
        if self.tried.is_empty() {
            return Some(start.clamp(rate_min, rate_max));
        }
        let (low, high) = self.looks();
        if high.is_infinite() && low < rate_max {
            return Some((low * 2.0).min(rate_max));
        }
        if low <= 0.0 && high > rate_min {
            return Some((high / 2.0).max(rate_min));
        }
        if low > 0.0 && high.is_finite() && high / low > ratio * (1.0 + 1e-9) {
            return Some((low * high).sqrt());
        }
        self.unshown(low, Shown::Holds).or_else(|| self.unshown(high, Shown::Fails))
    }

    /// What is known so far.
    pub fn answer(&self) -> Answer {
        let (low, high) = self.shown();
        let (looks_low, looks_high) = self.looks();
        let reach = self.tried.iter().filter(|tried| tried.looks == Looks::BeyondReach);
        let beyond_reach = reach.map(|tried| tried.rate).find(|rate| *rate <= looks_high);
        // As far apart as the two ends may be: the gap, and the steps on either side of it.
        let apart = self.bounds.ratio.powi(1 + 2 * STEPS_MAX) * (1.0 + 1e-9);
        Answer {
            rate: (low > 0.0).then_some(low),
            low,
            high,
            looks_low,
            looks_high: if beyond_reach == Some(looks_high) { f64::INFINITY } else { looks_high },
            beyond_reach,
            is_settled: low > 0.0 && high / low <= apart,
            tried: self.tried.clone(),
        }
    }

    fn at(&mut self, rate: f64) -> &mut Tried {
        let place = self.tried.iter().position(|tried| same(tried.rate, rate));
        let place = place.unwrap_or_else(|| {
            let place = self.tried.partition_point(|tried| tried.rate < rate);
            self.tried.insert(place, Tried { rate, runs: 0, looks: Looks::Well, shown: None });
            place
        });
        &mut self.tried[place]
    }

    /// The highest rate that was shown to hold, and the lowest above it that was shown to fail.
    fn shown(&self) -> (f64, f64) {
        let of = |wanted: Shown| {
            let found = self.tried.iter().filter(move |tried| tried.shown == Some(wanted));
            found.map(|tried| tried.rate)
        };
        let high = of(Shown::Fails).fold(f64::INFINITY, f64::min);
        (of(Shown::Holds).filter(|rate| *rate < high).fold(0.0, f64::max), high)
    }

    /// The highest rate that looks well below the lowest that does not. What was shown wins over
    /// looks: below a rate that was shown to hold, none looks ill, and above one that was shown to
    /// fail none looks well.
    fn looks(&self) -> (f64, f64) {
        let (held, failed) = self.shown();
        let ill = |tried: &&Tried| tried.looks != Looks::Well && tried.rate > held;
        let high = self.tried.iter().filter(ill).map(|tried| tried.rate).fold(failed, f64::min);
        let below = self.tried.iter().map(|tried| tried.rate).filter(|rate| *rate < high);
        (below.fold(held, f64::max), high)
    }

    /// A rate on this side of the edge that is worth another run, so that something is shown there.
    fn unshown(&self, edge: f64, wanted: Shown) -> Option<f64> {
        let Bounds { rate_min, rate_max, ratio, runs_max, .. } = self.bounds;
        if edge <= 0.0 || edge.is_infinite() {
            return None;
        }
        let beyond = self.tried.iter().find(|tried| tried.looks == Looks::BeyondReach);
        let reach = beyond.map_or(f64::INFINITY, |tried| tried.rate);
        for step in 0..=STEPS_MAX {
            let away = ratio.powi(step);
            let rate = if wanted == Shown::Holds { edge / away } else { edge * away };
            // A rate nearby that was tried already serves as well as a new one.
            let near = self.tried.iter().filter(|tried| {
                let apart = (tried.rate / rate).max(rate / tried.rate);
                apart < 1.0 + (ratio - 1.0) / 4.0
            });
            let near = near.min_by(|one, other| {
                (one.rate / rate).ln().abs().total_cmp(&(other.rate / rate).ln().abs())
            });
            let rate = near.map_or(rate, |tried| tried.rate);
            if rate < rate_min * (1.0 - 1e-9) || rate > rate_max * (1.0 + 1e-9) || rate >= reach {
                return None;
            }
            match near {
                Some(tried) if tried.shown == Some(wanted) => return None,
                Some(tried) if tried.runs >= runs_max => {}
                _ => return Some(rate),
            }
        }
        None
    }

    /// Runs at most: those of doubling through the range and of halving a factor of two until it is
    /// narrow, twice, since a rate at the edge may look one way first and the other way later, and
    /// those of both sides of the edge.
    fn runs_max(&self) -> u32 {
        let Bounds { start, rate_min, rate_max, ratio, runs_max } = self.bounds;
        let doublings = (rate_max / start).max(start / rate_min).max(1.0).log2().ceil();
        let halvings = (2.0_f64.ln() / ratio.ln()).log2().ceil().max(1.0);
        (doublings + 1.0 + 2.0 * halvings) as u32 + 2 * runs_max * (STEPS_MAX.unsigned_abs() + 1)
    }
}

fn same(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-9
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Looks, Search, Shown};

    const BOUNDS: Bounds =
        Bounds { start: 2.0, rate_min: 0.25, rate_max: 64.0, ratio: 1.1, runs_max: 3 };

    /// A search of a target whose runs look well up to `capacity`, and show it that far from it.
    fn searched(capacity: f64, reach: f64, clear: f64) -> (Search, u32) {
        let (mut search, mut runs) = (Search::new(BOUNDS), 0);
        while let Some(rate) = search.next_rate() {
            let looks = match () {
                () if rate >= reach => Looks::BeyondReach,
                () if rate <= capacity => Looks::Well,
                () => Looks::Ill,
            };
            search.tell(rate, looks);
            if looks == Looks::Well && rate * clear <= capacity {
                search.show(rate, Shown::Holds);
            }
            if looks == Looks::Ill && rate >= capacity * clear {
                search.show(rate, Shown::Fails);
            }
            runs += 1;
            assert!(runs < 100, "it comes to an end");
        }
        (search, runs)
    }

    #[test]
    fn a_sharp_target_is_found_to_the_ratio_in_few_runs() {
        let (search, runs) = searched(9.3, f64::INFINITY, 1.0);
        let answer = search.answer();
        assert!(answer.is_settled && answer.low <= 9.3 && 9.3 < answer.high, "{answer:?}");
        assert!(answer.high / answer.low <= 1.1 && runs <= 8, "{runs}");
        assert_eq!(answer.rate, Some(answer.low));
    }

    #[test]
    fn where_the_edge_shows_nothing_rates_further_from_it_do() {
        let (search, runs) = searched(9.3, f64::INFINITY, 1.05);
        let answer = search.answer();
        assert!(answer.is_settled && answer.low <= 9.3 && 9.3 < answer.high, "{answer:?}");
        assert!(answer.high / answer.low < 1.4 && runs < 25, "{runs} {answer:?}");
    }

    #[test]
    fn a_target_that_never_shows_anything_is_still_bracketed_and_not_settled() {
        let (search, runs) = searched(9.3, f64::INFINITY, 1e9);
        let answer = search.answer();
        assert!(!answer.is_settled && answer.rate.is_none() && answer.high.is_infinite());
        assert!(answer.looks_low <= 9.3 && 9.3 < answer.looks_high && runs <= 30, "{answer:?}");
        assert!(answer.looks_high / answer.looks_low <= 1.1 + 1e-9, "{answer:?}");
    }

    #[test]
    fn a_target_beyond_the_range_is_said_to_be_beyond_it() {
        let answer = searched(1000.0, f64::INFINITY, 1.0).0.answer();
        assert!(answer.low >= 64.0 && answer.high.is_infinite() && !answer.is_settled);
        let answer = searched(0.001, f64::INFINITY, 1.0).0.answer();
        assert!(answer.rate.is_none() && answer.high <= 0.25 && !answer.is_settled, "{answer:?}");
    }

    #[test]
    fn a_rate_that_cannot_be_offered_bounds_the_search_and_fails_nothing() {
        // The generator gives up above 20, the target holds up to 30, or to 13.
        let answer = searched(30.0, 20.0, 1.0).0.answer();
        assert!(answer.low > 18.0 && answer.high.is_infinite() && !answer.is_settled, "{answer:?}");
        assert!(answer.beyond_reach.is_some_and(|rate| rate < answer.low * 1.1), "{answer:?}");
        assert!(answer.looks_high.is_infinite());
        let answer = searched(13.0, 20.0, 1.0).0.answer();
        assert!(answer.is_settled && answer.low <= 13.0 && answer.high > 13.0, "{answer:?}");
        assert_eq!(answer.beyond_reach, None);
    }

    #[test]
    fn a_rate_that_only_looked_ill_is_forgotten_once_a_higher_one_holds() {
        let mut search = Search::new(BOUNDS);
        search.tell(2.0, Looks::Well);
        search.tell(4.0, Looks::Ill);
        search.tell(4.2, Looks::Well);
        search.show(4.2, Shown::Holds);
        assert_eq!(search.next_rate(), Some(8.4));
    }
}
