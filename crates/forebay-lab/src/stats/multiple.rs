//! Keeps many tests from finding something by chance.

/// Holm's p-values (*Scandinavian Journal of Statistics* 6(2), 1979): one below `alpha` may be
/// claimed, and the chance of one wrong claim among all of them stays below `alpha`, however they
/// depend on one another. In the order they came in.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&one, &other| p_values[one].total_cmp(&p_values[other]).then(one.cmp(&other)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (nth, place) in order.into_iter().enumerate() {
        let left = (p_values.len() - nth) as f64;
        // Never below the one before: who is further back cannot be claimed sooner.
        least = least.max(left * p_values[place]).min(1.0);
        adjusted[place] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::holm;

    #[test]
    fn the_smallest_is_held_against_all_and_the_largest_against_itself() {
        // An example worked by hand: 4 × 0.005, 3 × 0.01, then 2 × 0.03 and 0.04 in its shadow.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (one, other) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((one - other).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.9, 0.8]), vec![1.0, 1.0]);
    }
}
