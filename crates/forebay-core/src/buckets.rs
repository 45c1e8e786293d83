//! Limits a tenant's rate: the generic cell rate algorithm in virtual time.
//!
//! One moment per bucket says when it would be full again (ITU-T I.371, Annex A: the virtual
//! scheduling form). A request of n units moves it by n / rate; if that would put it further ahead
//! of now than the burst allows, the request is refused and nothing moves.

use crate::settings::Bucket;
use crate::units::{Moment, Span};

/// The state of one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BucketState {
    full_at: Moment,
}

impl BucketState {
    /// Takes `units` out, or says how long it takes until they are there. A request larger than the
    /// whole burst passes when the bucket is full, since it could never pass otherwise.
    pub(crate) fn take(&mut self, now: Moment, units: f64, bucket: &Bucket) -> Result<(), Span> {
        let cost = Span::secs_f64(units / bucket.per_second);
        let burst = Span::secs_f64(units.max(bucket.burst) / bucket.per_second);
        let full_at = self.full_at.max(now) + cost;
        let ahead = full_at.since(now);
        if ahead > burst {
            return Err(ahead - burst);
        }
        self.full_at = full_at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_is_told_when_to_come_back() {
        let bucket = Bucket { per_second: 2.0, burst: 3.0 };
        let mut state = BucketState::default();
        let now = Moment::START + Span::secs(10);
        assert!((0..3).all(|_| state.take(now, 1.0, &bucket).is_ok()));
        let wait = state.take(now, 1.0, &bucket).expect_err("the burst is spent");
        assert_eq!(wait, Span::millis(500));
        assert!(state.take(now + wait, 1.0, &bucket).is_ok());
        assert!(state.take(now + wait, 1.0, &bucket).is_err());
    }

    #[test]
    fn what_exceeds_the_burst_passes_a_full_bucket_and_is_paid_for_after() {
        let bucket = Bucket { per_second: 100.0, burst: 100.0 };
        let mut state = BucketState::default();
        assert!(state.take(Moment::START, 1000.0, &bucket).is_ok());
        assert_eq!(state.take(Moment::START, 1.0, &bucket), Err(Span::millis(9010)));
    }
}
