//! A small seeded generator, so that draws never depend on a library's version.
//!
//! xoshiro256++ (Blackman and Vigna, ACM TOMS 47(4), 2021), seeded through splitmix64 as its
//! authors advise.

/// A seeded source of draws: the same seed gives the same draws on every machine and in every
/// version.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Self {
        let mut word = seed;
        let mut next = || {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed(word)
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// A generator of its own for the component of this name, which shifts nobody else's draws.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        let start = self.state[0] ^ self.state[2].rotate_left(17);
        Self::new(name.bytes().fold(start, |word, byte| mixed(word ^ u64::from(byte))))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let drawn = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        drawn
    }

    /// A draw from `0..n`, without the bias of a remainder (Lemire, ACM TOMACS 29(1), 2019, first
    /// step); 0 for `n` 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A draw from `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection with good
/// avalanche.
pub const fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn draws_stay_the_same_in_every_version() {
        // The value in the authors' reference for state {1, 2, 3, 4} is 41943041.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
    }

    #[test]
    fn a_fork_draws_differently_and_does_not_disturb_its_parent() {
        let mut parent = Rng::new(7);
        let mut child = parent.fork("engine");
        let mut other = parent.fork("arrivals");
        let first = parent.clone().next_u64();
        assert_ne!(child.next_u64(), other.next_u64());
        assert_eq!(parent.next_u64(), first);
    }

    #[test]
    fn draws_stay_below_their_bound() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.below(3) < 3 && rng.unit() < 1.0));
        assert_eq!(rng.below(0), 0);
    }
}
