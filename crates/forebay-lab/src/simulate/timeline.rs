//! Samples the fleet at a few hundred evenly spaced moments, whatever a run's length turns out to
//! be.

use forebay_core::{Moment, Span};

use super::TimelinePoint;

/// Points kept at most. When there are as many, every other one goes and the stride doubles.
const POINTS_MAX: usize = 400;
/// The stride at the start: a step or two of an engine.
const STRIDE_START: Span = Span::millis(100);

/// The points so far.
#[derive(Debug)]
pub(super) struct Timeline {
    points: Vec<TimelinePoint>,
    stride: Span,
    next: Moment,
}

impl Timeline {
    /// No points yet.
    pub(super) fn new() -> Self {
        Self { points: Vec::new(), stride: STRIDE_START, next: Moment::START }
    }

    /// The moment of the next point, if it is not after this one.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        (self.next <= now).then_some(self.next)
    }

    /// Takes the point that is due.
    pub(super) fn take(&mut self, point: TimelinePoint) {
        self.points.push(point);
        if self.points.len() == POINTS_MAX {
            let mut place = 0;
            self.points.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride = self.stride + self.stride;
        }
        self.next = Moment::START + Span(self.points.len() as u64 * self.stride.0);
    }

    /// The points.
    pub(super) fn into_points(self) -> Vec<TimelinePoint> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Moment, Span};

    use super::{POINTS_MAX, Timeline};
    use crate::simulate::TimelinePoint;

    fn sampled(end: Span) -> Vec<u64> {
        let mut timeline = Timeline::new();
        while let Some(at) = timeline.due(Moment::START + end) {
            timeline.take(TimelinePoint { at, queued: 0, running: 0, waiting: 0, kv_used: 0.0 });
        }
        timeline.into_points().iter().map(|point| point.at.0).collect()
    }

    #[test]
    fn points_stay_few_and_evenly_spaced_however_long_the_run() {
        for secs in [1, 227, 3600, 1_000_000] {
            let points = sampled(Span::secs(secs));
            assert!(points.len() < POINTS_MAX, "{} points in {secs} s", points.len());
            let stride = points[1] - points[0];
            assert!(points.windows(2).all(|pair| pair[1] - pair[0] == stride));
            assert!(Span::secs(secs).0 - points[points.len() - 1] < stride);
        }
    }
}
