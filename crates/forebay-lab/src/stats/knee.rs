//! Finds where a curve bends, and how long a capacity lasts.

/// A curve as two straight lines that meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Where they meet: the offered rate at which the target begins to give way.
    pub at: f64,
    /// The slope below it.
    pub slope_below: f64,
    /// The slope above it.
    pub slope_above: f64,
    /// The share of the variation about one straight line that the second one explains, 0 to 1.
    pub explained: f64,
}

impl Knee {
    /// Whether the second line explains much, and is clearly less steep than the first: of a
    /// throughput, that it stopped growing. Half of either is a guess; noise about one line
    /// explains a tenth or two.
    pub fn is_bend(&self) -> bool {
        self.explained > 0.5 && self.slope_above < 0.5 * self.slope_below
    }
}

/// The two lines through these points, of an offered rate and what it led to, with the least sum of
/// squares (Hudson, JASA 61, 1966: the join is searched between the points on a grid). `None` with
/// fewer than five points: four can be met by any two lines. An infinite figure has no place on a
/// line and is left out: give completed throughput where latency becomes infinite.
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    /// Places that are tried between the first point and the last: finer than rates are known.
    const PLACES: u32 = 400;
    let mut points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (first, last) = (points.first()?.0, points.last()?.0);
    if points.len() < 5 || last <= first {
        return None;
    }
    let straight = fit(&points, last)?.1;
    let mut best: Option<([f64; 3], f64, f64)> = None;
    // A line needs two points on either side.
    let (from, to) = (points[1].0, points[points.len() - 2].0);
    for nth in 0..=PLACES {
        let at = from + (to - from) * f64::from(nth) / f64::from(PLACES);
        if let Some((lines, squares)) = fit(&points, at)
            && best.is_none_or(|(_, least, _)| squares < least)
        {
            best = Some((lines, squares, at));
        }
    }
    let ([_, slope, bend], squares, at) = best?;
    let explained = if straight > 0.0 { 1.0 - squares / straight } else { 0.0 };
    Some(Knee { at, slope_below: slope, slope_above: slope + bend, explained })
}

/// The least squares of y = a + b x + c max(0, x − at), and what they leave.
fn fit(points: &[(f64, f64)], at: f64) -> Option<([f64; 3], f64)> {
    let columns = |x: f64| [1.0, x, (x - at).max(0.0)];
    let bends = points.iter().filter(|(x, _)| *x > at).count() > 0;
    let size = if bends { 3 } else { 2 };
    let mut normal = [[0.0; 4]; 3];
    for (x, y) in points {
        let row = columns(*x);
        for one in 0..size {
            (0..size).for_each(|other| normal[one][other] += row[one] * row[other]);
            normal[one][3] += row[one] * y;
        }
    }
    for pivot in 0..size {
        let largest = (pivot..size).max_by(|one, other| {
            normal[*one][pivot].abs().total_cmp(&normal[*other][pivot].abs())
        })?;
        normal.swap(pivot, largest);
        if normal[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        for row in 0..size {
            if row != pivot {
                let factor = normal[row][pivot] / normal[pivot][pivot];
                (0..4).for_each(|column| normal[row][column] -= factor * normal[pivot][column]);
            }
        }
    }
    let mut found = [0.0; 3];
    (0..size).for_each(|nth| found[nth] = normal[nth][3] / normal[nth][nth]);
    let left = |(x, y): &(f64, f64)| {
        let row = columns(*x);
        (y - row.iter().zip(found).map(|(one, other)| one * other).sum::<f64>()).powi(2)
    };
    Some((found, points.iter().map(left).sum()))
}

/// Months until a rate that grows by `growth` each month (0.05 is 5 %) reaches `capacity`: 0 where
/// it already has, `None` where it never does.
pub fn months_left(capacity: f64, rate: f64, growth: f64) -> Option<f64> {
    if rate >= capacity {
        return Some(0.0);
    }
    let months = (capacity / rate).ln() / growth.ln_1p();
    (growth > 0.0 && rate > 0.0).then_some(months)
}

#[cfg(test)]
mod tests {
    use forebay_core::Rng;

    use super::{knee, months_left};

    #[test]
    fn a_throughput_that_stops_growing_bends_at_its_capacity() {
        let mut rng = Rng::new(3);
        let points: Vec<(f64, f64)> = (1..=12)
            .map(|nth| {
                let rate = f64::from(nth);
                (rate, rate.min(7.3) + 0.05 * (rng.unit() - 0.5))
            })
            .collect();
        let knee = knee(&points).unwrap();
        assert!((knee.at - 7.3).abs() < 0.15, "{knee:?}");
        assert!((knee.slope_below - 1.0).abs() < 0.02 && knee.slope_above.abs() < 0.02);
        assert!(knee.explained > 0.99 && knee.is_bend());
    }

    #[test]
    fn a_straight_line_has_no_knee_to_speak_of_and_few_points_none_at_all() {
        let line: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 2.0 * f64::from(x))).collect();
        let told = knee(&line).unwrap();
        assert!((told.slope_above - told.slope_below).abs() < 1e-6 && !told.is_bend());
        assert_eq!(knee(&line[..4]), None);
        assert_eq!(knee(&[(1.0, 2.0); 8]), None);
        let mut unserved = line[..4].to_vec();
        unserved.extend([(9.0, f64::INFINITY); 4]);
        assert_eq!(knee(&unserved), None);
    }

    #[test]
    fn growth_uses_up_what_is_left() {
        // Doubling in a month reaches four times the rate in two.
        assert!((months_left(4.0, 1.0, 1.0).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(months_left(1.0, 2.0, 0.1), Some(0.0));
        assert_eq!(months_left(4.0, 1.0, 0.0), None);
    }
}
