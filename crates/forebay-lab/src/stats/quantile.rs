//! Finds quantiles of values that blocks contribute, some of them infinite.

/// Values in rising order, each with the block that it is from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pooled {
    values: Vec<(f64, u32)>,
    /// How many each block has.
    counts: Vec<u64>,
}

impl Pooled {
    /// Brings the values of blocks together. An infinite value is one that is beyond all others; a
    /// value that is no number has no place and is left out.
    pub fn of(blocks: &[Vec<f64>]) -> Self {
        let mut values: Vec<(f64, u32)> = blocks
            .iter()
            .zip(0_u32..)
            .flat_map(|(block, nth)| block.iter().map(move |&value| (value, nth)))
            .filter(|(value, _)| !value.is_nan())
            .collect();
        values.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut counts = vec![0; blocks.len()];
        values.iter().for_each(|(_, block)| counts[*block as usize] += 1);
        Self { values, counts }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The nearest-rank quantile: the least value that a share of at least `q` lies at or below.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = (rank(self.len() as f64, q) as usize).min(self.len());
        Some(self.values.get(rank.checked_sub(1)?)?.0)
    }

    /// How many values are above `limit`.
    pub fn above(&self, limit: f64) -> usize {
        self.len() - self.values.partition_point(|(value, _)| *value <= limit)
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.values.iter().map(|(value, _)| value).sum();
        (!self.is_empty()).then(|| sum / self.len() as f64)
    }

    /// The same quantiles, rising, with each block taken as many times as its weight says; empty
    /// where that leaves nothing.
    pub fn weighted(&self, weights: &[u32], qs: &[f64]) -> Vec<f64> {
        let weight = |block: u32| u64::from(weights.get(block as usize).copied().unwrap_or(0));
        let whole: u64 = self.counts.iter().zip(0..).map(|(count, nth)| count * weight(nth)).sum();
        let mut found = Vec::with_capacity(qs.len());
        let mut below = 0;
        for (value, block) in &self.values {
            if found.len() == qs.len() {
                break;
            }
            below += weight(*block);
            while found.len() < qs.len()
                && below > 0
                && below >= rank(whole as f64, qs[found.len()])
            {
                found.push(*value);
            }
        }
        found
    }
}

/// The least rank, from 1, that at least a share of `q` lies at or below. A product that misses a
/// whole number by rounding alone is that number.
fn rank(count: f64, q: f64) -> u64 {
    let exact = count * q;
    let near = exact.round();
    let rank = if (exact - near).abs() < 1e-9 * count.max(1.0) { near } else { exact.ceil() };
    (rank as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::Pooled;

    #[test]
    fn quantiles_are_values_that_occurred_and_the_unserved_are_beyond_them() {
        let pooled = Pooled::of(&[vec![3.0, 1.0, f64::INFINITY], vec![2.0, f64::NAN]]);
        assert_eq!(pooled.len(), 4);
        let told = [0.25, 0.5, 0.75, 0.76, 1.0].map(|q| pooled.quantile(q).unwrap());
        let expected = [1.0, 2.0, 3.0, f64::INFINITY, f64::INFINITY];
        assert!(told.iter().zip(expected).all(|(one, other)| one.total_cmp(&other).is_eq()));
        assert_eq!((pooled.above(2.0), pooled.above(1e300)), (2, 1));
        assert_eq!(Pooled::of(&[]).quantile(0.5), None);
        // 0.99 of 1000 is the 990th, though the product is a little more in binary.
        let thousand = Pooled::of(&[(1..=1000).map(f64::from).collect()]);
        assert_eq!(thousand.quantile(0.99), Some(990.0));
    }

    #[test]
    fn weights_are_blocks_taken_more_than_once() {
        let pooled = Pooled::of(&[vec![1.0, 2.0], vec![10.0, 20.0]]);
        assert_eq!(pooled.weighted(&[1, 1], &[0.5, 0.99]), [2.0, 20.0]);
        assert_eq!(pooled.weighted(&[2, 0], &[0.5, 0.99]), [1.0, 2.0]);
        assert_eq!(pooled.weighted(&[0, 3], &[0.5, 0.99]), [10.0, 20.0]);
        assert!(pooled.weighted(&[0, 0], &[0.5]).is_empty());
    }
}
