//! Says on a terminal how far a drill is. In a pipe it says nothing.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on stderr, which draws itself on a terminal only.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for this many runs.
    pub fn of(runs: usize) -> Self {
        let bar = ProgressBar::new(runs as u64);
        let template = "{wide_bar} {pos}/{len} runs, {eta} left";
        let style = ProgressStyle::with_template(template).expect("the template names known keys");
        bar.set_style(style);
        Self(bar)
    }

    /// One more run is made.
    pub fn advance(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Whatever is printed next starts on a clean line.
        self.0.finish_and_clear();
    }
}
