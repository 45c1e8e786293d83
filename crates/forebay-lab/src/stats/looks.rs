//! Divides the error that a verdict may make among several looks at growing data.
//!
//! Whoever looks after every block and stops at the first significant figure is wrong far more
//! often than 1 in 20. Each look gets a part of the whole error, spent by a power of the share of
//! blocks that are in (Kim and `DeMets`, Biometrika 74(1), 1987, after Lan and `DeMets`, Biometrika
//! 70(3), 1983). Each look is tested at its own part, so that the sum bounds the error whatever the
//! dependence of looks (Boole); exact boundaries would need their joint distribution, and win
//! little.

/// The power of the spending function: little is spent while there are few blocks, which could not
/// decide anyway.
const POWER: i32 = 2;

/// The error that look `nth` of `planned` (from 1) may make, of a whole error of `alpha`. Equal
/// steps between looks. Looks beyond the planned have nothing left.
pub fn alpha_at(alpha: f64, nth: u32, planned: u32) -> f64 {
    if nth == 0 || nth > planned {
        return 0.0;
    }
    let spent = |nth: u32| (f64::from(nth) / f64::from(planned)).powi(POWER);
    alpha * (spent(nth) - spent(nth - 1))
}

/// The same where nobody knows how many looks there will be: a part of `alpha` that falls with the
/// square of the look, and whose sum over all looks is `alpha` (Basel's problem).
pub fn alpha_unplanned(alpha: f64, nth: u32) -> f64 {
    let nth = f64::from(nth.max(1));
    alpha * 6.0 / (std::f64::consts::PI * nth).powi(2)
}

#[cfg(test)]
mod tests {
    use super::{alpha_at, alpha_unplanned};

    #[test]
    fn all_looks_together_spend_the_whole_error_and_no_more() {
        for planned in [1, 2, 5, 12] {
            let spent: f64 = (1..=planned).map(|nth| alpha_at(0.05, nth, planned)).sum();
            assert!((spent - 0.05).abs() < 1e-12, "{planned}: {spent}");
            assert!(alpha_at(0.05, planned + 1, planned).abs() < f64::EPSILON);
        }
        let unplanned: f64 = (1..100_000).map(|nth| alpha_unplanned(0.05, nth)).sum();
        assert!(unplanned < 0.05 && unplanned > 0.0499, "{unplanned}");
    }

    #[test]
    fn later_looks_may_claim_more() {
        let looks: Vec<f64> = (1..=5).map(|nth| alpha_at(0.05, nth, 5)).collect();
        assert!(looks.windows(2).all(|pair| pair[0] < pair[1]), "{looks:?}");
    }
}
