//! Says how fast a run would use up the budget of errors that an objective leaves.
//!
//! The burn rate is (1 − good) / (1 − objective), as in "The Site Reliability Workbook" (Beyer and
//! others, 2018), chapter 5: at 1 the budget lasts as long as its window.

use crate::drill::notation::{three_digits, trimmed};

/// How fast a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burn {
    /// How many times as fast as the budget bears: 0 uses nothing of it.
    pub rate: f64,
    /// The window of the budget, in days.
    pub window_days: f64,
}

impl Burn {
    /// Of a share of good requests under an objective, both 0 to 1.
    pub fn of(good_share: f64, objective: f64, window_days: f64) -> Self {
        let (bad, budget) = ((1.0 - good_share).max(0.0), (1.0 - objective).max(0.0));
        let rate = if bad == 0.0 { 0.0 } else { bad / budget };
        Self { rate, window_days }
    }

    /// After how many days of the same the whole budget would be gone; `None` where it never is.
    pub fn gone_after_days(self) -> Option<f64> {
        (self.rate > 0.0).then(|| self.window_days / self.rate)
    }

    /// The same as a sentence: `burns a budget of 30 days 14 times as fast as it bears: …`.
    pub fn said(self) -> String {
        let window = trimmed(self.window_days);
        match self.gone_after_days() {
            None => format!("nothing of a budget of {window} days is used up"),
            Some(days) => format!(
                "a budget of {window} days is used up at {} times the rate it bears: at this rate \
                 it is gone in {}",
                three_digits(self.rate),
                in_time(days)
            ),
        }
    }
}

/// A length of time in the unit that a person would pick.
fn in_time(days: f64) -> String {
    let (figure, unit) = match days {
        _ if days >= 2.0 => (days, "days"),
        _ if days >= 2.0 / 24.0 => (days * 24.0, "hours"),
        _ => (days * 1440.0, "minutes"),
    };
    format!("{} {unit}", trimmed(figure))
}

#[cfg(test)]
mod tests {
    use super::Burn;

    #[test]
    fn a_share_of_bad_requests_as_large_as_the_budget_lasts_the_window() {
        let burn = Burn::of(0.999, 0.999, 30.0);
        assert!((burn.rate - 1.0).abs() < 1e-9);
        assert!((burn.gone_after_days().unwrap() - 30.0).abs() < 1e-6);
    }

    #[test]
    fn fourteen_percent_refused_uses_a_budget_of_a_permille_up_within_hours() {
        let said = Burn::of(0.86, 0.999, 30.0).said();
        assert!(said.contains("140 times the rate"), "{said}");
        assert!(said.ends_with("gone in 5.14 hours"), "{said}");
    }

    #[test]
    fn nothing_bad_burns_nothing_and_anything_bad_under_a_whole_objective_burns_at_once() {
        assert_eq!(Burn::of(1.0, 0.99, 30.0).gone_after_days(), None);
        assert_eq!(Burn::of(1.0, 1.0, 30.0).gone_after_days(), None);
        assert_eq!(Burn::of(0.9, 1.0, 30.0).gone_after_days(), Some(0.0));
    }
}
