//! Says in one number how evenly something was shared out.

/// Jain's index (Jain, Chiu and Hawe, DEC-TR-301, 1984): 1 where all have the same, 1/n where one
/// of n has everything. `None` of fewer than two, and where nobody has anything.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (shares.len() >= 2 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn one_is_alike_and_one_in_n_is_one_for_himself() {
        assert!((jain(&[0.7, 0.7, 0.7]).unwrap() - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]).unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(jain(&[1.0]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
