//! Computes the normal, Student's t and beta distributions.
//!
//! Own code: a statistics crate would be a large dependency for three functions. Formulas by their
//! number in the NIST Digital Library of Mathematical Functions, <https://dlmf.nist.gov>; tests
//! hold them against printed tables.

/// Halvings of an interval, enough to use up the precision of a double.
const HALVINGS: u32 = 200;
/// Terms of a series or a continued fraction at most. Convergence takes a few dozen.
const TERMS_MAX: u32 = 500;
/// A relative change that no longer matters.
const TINY: f64 = 1e-16;
/// Keeps Lentz's method from dividing by zero.
const FLOOR: f64 = 1e-300;

/// The probability that a standard normal variable is at most `x`.
pub fn normal_cdf(x: f64) -> f64 {
    if x.is_infinite() {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let tail = upper_tail(x.abs());
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The probability of a standard normal variable above `x`, for `x` ≥ 0.
fn upper_tail(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x < 3.0 {
        // DLMF 7.6.2 in terms of the normal: Φ(x) − ½ = φ(x) Σ x^(2n+1) / (1·3·5 … (2n+1)).
        let (mut term, mut sum) = (x, x);
        for n in 1..TERMS_MAX {
            term *= x * x / f64::from(2 * n + 1);
            sum += term;
            if term < TINY * sum {
                break;
            }
        }
        return 0.5 - density * sum;
    }
    // DLMF 7.9.1 in the same terms, from the end: φ(x) / (x + 1/(x + 2/(x + 3/(x + …)))).
    let fraction = (1..=100).rev().fold(x, |below, n| x + f64::from(n) / below);
    density / fraction
}

/// The value that a standard normal variable stays at or below with probability `p`.
pub fn normal_quantile(p: f64) -> f64 {
    inverse(p, normal_cdf)
}

/// The probability that Student's t with `df` degrees of freedom is at most `x`. It need not be a
/// whole number of degrees; infinitely many are the normal distribution.
pub fn t_cdf(x: f64, df: f64) -> f64 {
    if df.is_infinite() || x.is_infinite() {
        return normal_cdf(x);
    }
    // Abramowitz and Stegun 26.7.1 by the incomplete beta function.
    let tail = beta_cdf(df / (df + x * x), df / 2.0, 0.5) / 2.0;
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The value that Student's t stays at or below with probability `p`.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    inverse(p, |x| t_cdf(x, df))
}

/// The probability that a beta variable is at most `x`: the regularised incomplete beta function
/// I(x; a, b), DLMF 8.17.
pub fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    // The fraction converges fast below the mean, and the distribution is the same from its end.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

/// The value that a beta variable stays at or below with probability `p`.
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if beta_cdf(middle, a, b) < p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The continued fraction DLMF 8.17.22 by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let kept = |value: f64| if value.abs() < FLOOR { FLOOR } else { value };
    let (mut upper, mut lower) = (1.0, 1.0 / kept(1.0 - (a + b) * x / (a + 1.0)));
    let mut product = lower;
    for m in 1..TERMS_MAX {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for step in [even, odd] {
            lower = 1.0 / kept(1.0 + step * lower);
            upper = kept(1.0 + step / upper);
            change = lower * upper;
            product *= change;
        }
        if (change - 1.0).abs() < TINY {
            break;
        }
    }
    product
}

/// The logarithm of the gamma function for positive arguments: Stirling's series, DLMF 5.11.1,
/// after the argument was raised by its recurrence to where the series is exact to a double.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 15.0 {
        below += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0
        - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse * (1.0 / 1680.0))))
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below
}

/// Where a distribution over all numbers reaches `p`: infinite at 0 and 1.
fn inverse(p: f64, cdf: impl Fn(f64) -> f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let mut bound = 1.0;
    while (cdf(-bound) > p || cdf(bound) < p) && bound < 1e12 {
        bound *= 2.0;
    }
    let (mut low, mut high) = (-bound, bound);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if cdf(middle) < p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::{beta_cdf, beta_quantile, normal_cdf, normal_quantile, t_cdf, t_quantile};

    #[track_caller]
    fn close(one: f64, other: f64, error: f64) {
        assert!((one - other).abs() <= error, "{one} is not {other}");
    }

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        for (x, p) in [(0.0, 0.5), (1.0, 0.841_344_746), (1.96, 0.975_002_105)] {
            close(normal_cdf(x), p, 1e-9);
            close(normal_cdf(-x), 1.0 - p, 1e-9);
        }
        close(normal_cdf(3.0) / 0.998_650_102, 1.0, 1e-9);
        close(normal_cdf(-6.0) / 9.865_876e-10, 1.0, 1e-6);
        close(normal_quantile(0.975), 1.959_963_985, 1e-8);
        close(normal_quantile(0.05), -1.644_853_627, 1e-8);
        assert!(normal_quantile(1.0).is_infinite() && normal_quantile(0.0).is_infinite());
    }

    #[test]
    fn students_t_is_that_of_the_tables() {
        // Two-sided 95 %, as printed in any table of t.
        let table = [
            (1.0, 12.706_205),
            (2.0, 4.302_653),
            (3.0, 3.182_446),
            (5.0, 2.570_582),
            (9.0, 2.262_157),
            (29.0, 2.045_230),
            (100.0, 1.983_972),
        ];
        for (df, t) in table {
            close(t_quantile(0.975, df), t, 1e-5);
            close(t_quantile(0.025, df), -t, 1e-5);
            close(t_cdf(t, df), 0.975, 1e-7);
        }
        close(t_quantile(0.95, 10.0), 1.812_461, 1e-5);
        close(t_quantile(0.975, f64::INFINITY), 1.959_964, 1e-5);
    }

    #[test]
    fn the_beta_distribution_is_right_where_it_is_known_in_full() {
        for x in [0.01, 0.3, 0.77, 0.999] {
            close(beta_cdf(x, 1.0, 1.0), x, 1e-12);
            close(beta_cdf(x, 3.0, 1.0), x.powi(3), 1e-12);
            close(beta_cdf(x, 2.0, 2.0), x * x * (3.0 - 2.0 * x), 1e-12);
        }
        // Clopper and Pearson, Biometrika 26(4), 1934: the bound for none of ten is 1 − α^(1/10).
        close(beta_quantile(0.975, 1.0, 10.0), 1.0 - 0.025_f64.powf(0.1), 1e-12);
        close(beta_cdf(0.5, 400.0, 400.0), 0.5, 1e-9);
    }
}
