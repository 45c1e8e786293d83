//! Says by how much one arm lies beside another, whatever a few wild blocks do.
//!
//! The estimate of Hodges and Lehmann (*Annals of Mathematical Statistics* 34(2), 1963): the median
//! of the means of all pairs of differences, or of all differences between two samples. Its
//! interval is the exact one of the rank test that belongs to it (Hollander and Wolfe,
//! *Nonparametric Statistical Methods*, 2nd ed. 1999, 3.3 and 4.3).

/// An estimate with the ends of its interval, which are infinite where there are too few blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The estimate.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Of paired differences, with an error of `error` on either side; `None` of none.
pub fn paired(differences: &[f64], error: f64) -> Option<Shift> {
    let values: Vec<f64> = differences.iter().copied().filter(|value| !value.is_nan()).collect();
    let mut walsh = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (nth, one) in values.iter().enumerate() {
        walsh.extend(values[nth..].iter().map(|other| middle(*one, *other)));
    }
    // W of the signed ranks is a sum over a subset of 1 … n, all subsets equally probable.
    let ranks: Vec<usize> = (1..=values.len()).collect();
    let counts = subset_sums(&ranks);
    of(walsh, &counts, error)
}

/// Between two independent samples: by how much `other` lies above `one`.
pub fn unpaired(one: &[f64], other: &[f64], error: f64) -> Option<Shift> {
    let kept = |values: &[f64]| -> Vec<f64> {
        values.iter().copied().filter(|value| !value.is_nan()).collect()
    };
    let (one, other) = (kept(one), kept(other));
    let apart =
        other.iter().flat_map(|high| one.iter().map(|low| super::bootstrap::less(*high, *low)));
    let counts = mann_whitney(one.len(), other.len());
    of(apart.collect(), &counts, error)
}

/// The median of `values`, and those at the ranks which the distribution of the test's statistic,
/// as probabilities of 0, 1, …, leaves `error` outside of.
fn of(mut values: Vec<f64>, probabilities: &[f64], error: f64) -> Option<Shift> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let value = middle(*values.get(count.checked_sub(1)? / 2)?, values[count / 2]);
    let mut below = 0.0;
    let outside = probabilities
        .iter()
        .take_while(|probability| {
            below += **probability;
            below <= error
        })
        .count();
    Some(match outside {
        0 => Shift { value, low: f64::NEG_INFINITY, high: f64::INFINITY },
        outside => Shift { value, low: values[outside - 1], high: values[count - outside] },
    })
}

/// How probable each sum of a random subset is.
fn subset_sums(parts: &[usize]) -> Vec<f64> {
    let mut sums = vec![1.0];
    for part in parts {
        let mut next = vec![0.0; sums.len() + part];
        for (sum, probability) in sums.iter().enumerate() {
            next[sum] += probability / 2.0;
            next[sum + part] += probability / 2.0;
        }
        sums = next;
    }
    sums
}

/// How probable each value of Mann and Whitney's U is for samples of these sizes (their recurrence,
/// *Annals of Mathematical Statistics* 18(1), 1947, in probabilities).
fn mann_whitney(ones: usize, others: usize) -> Vec<f64> {
    // Row by row: `rows[m]` is the distribution for m of one and the current number of the other.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; ones + 1];
    for n in 1..=others {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for m in 1..=ones {
            let mut row = vec![0.0; m * n + 1];
            let (first, last) = (m as f64 / (m + n) as f64, n as f64 / (m + n) as f64);
            // The largest of all is one of the m, and above all n, or one of the n.
            next[m - 1].iter().enumerate().for_each(|(u, p)| row[u + n] += first * p);
            rows[m].iter().enumerate().for_each(|(u, p)| row[u] += last * p);
            next.push(row);
        }
        rows = next;
    }
    rows.pop().unwrap_or_default()
}

/// The mean of two, where opposite infinities cancel.
fn middle(one: f64, other: f64) -> f64 {
    let middle = f64::midpoint(one, other);
    if middle.is_nan() { 0.0 } else { middle }
}

#[cfg(test)]
mod tests {
    use super::{Shift, mann_whitney, paired, subset_sums, unpaired};

    #[test]
    fn distributions_are_those_counted_by_hand() {
        // Subsets of {1, 2, 3}: sums 0 1 2 3 3 4 5 6.
        let expected = [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0].map(|count: f64| count / 8.0);
        assert_eq!(subset_sums(&[1, 2, 3]), expected);
        // The six orders of two and two: U is 0 1 2 2 3 4.
        let expected = [1.0, 1.0, 2.0, 1.0, 1.0].map(|count: f64| count / 6.0);
        for (one, other) in mann_whitney(2, 2).iter().zip(expected) {
            assert!((one - other).abs() < 1e-12);
        }
    }

    #[test]
    fn one_wild_block_moves_it_little() {
        let calm = paired(&[1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0], 0.025).unwrap();
        let wild = paired(&[1.0, 1.1, 0.9, 1.0, 1.2, 0.8, f64::INFINITY], 0.025).unwrap();
        assert!((calm.value - 1.0).abs() < 1e-9 && (wild.value - 1.05).abs() < 0.06, "{wild:?}");
    }

    #[test]
    fn six_pairs_are_the_fewest_that_tell_anything_at_95_percent() {
        // With six, all of one sign has a probability of 1/64 on either side.
        let five = paired(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.025).unwrap();
        assert_eq!(five, Shift { value: 3.0, low: f64::NEG_INFINITY, high: f64::INFINITY });
        let six = paired(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.025).unwrap();
        assert_eq!(six, Shift { value: 3.5, low: 1.0, high: 6.0 });
        assert_eq!(paired(&[], 0.025), None);
    }

    #[test]
    fn samples_far_apart_are_as_far_apart_as_they_are() {
        let one = [1.0, 2.0, 3.0, 4.0];
        let other = one.map(|value| value + 10.0);
        let shift = unpaired(&one, &other, 0.025).unwrap();
        assert!((shift.value - 10.0).abs() < 1e-12 && shift.low > 0.0, "{shift:?}");
        let both = unpaired(&[f64::INFINITY], &[f64::INFINITY], 0.025).unwrap();
        assert!(both.value.abs() < 1e-12);
        assert_eq!(unpaired(&one, &[], 0.025), None);
    }
}
