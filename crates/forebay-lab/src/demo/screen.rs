//! Draws the live line over and over on a terminal, and prints one now and then in a pipe.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::termios::tcgetwinsize;

use super::line::Line;

/// How often a line is printed where none can be drawn over.
const PRINTED_EVERY: Duration = Duration::from_secs(5);
/// Columns of a line in a pipe: whole words fit.
const COLUMNS_PRINTED: usize = 120;
/// Columns of a terminal that does not say.
const COLUMNS_USUAL: u16 = 80;

/// Where the live line goes: standard error.
pub struct Screen<'a> {
    /// The line of a terminal.
    bar: Option<ProgressBar>,
    /// Prints a line in a pipe.
    say: &'a dyn Fn(&str),
    printed: Option<Instant>,
}

impl<'a> Screen<'a> {
    /// A screen without a line yet; where none can be drawn, lines are said.
    pub fn new(say: &'a dyn Fn(&str)) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}").expect("the template is a known key");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Self { bar, say, printed: None }
    }

    /// Shows the line, in place of the one before where that is possible.
    pub(super) fn show(&mut self, line: &Line) {
        let Some(bar) = &self.bar else {
            // The first line has nothing to say yet.
            let last = *self.printed.get_or_insert_with(Instant::now);
            if last.elapsed() >= PRINTED_EVERY {
                (self.say)(&line.within(COLUMNS_PRINTED));
                self.printed = Some(Instant::now());
            }
            return;
        };
        let columns = tcgetwinsize(io::stderr()).map_or(COLUMNS_USUAL, |size| size.ws_col);
        let columns = if columns == 0 { COLUMNS_USUAL } else { columns };
        // A line as wide as the terminal would move its cursor to the next.
        bar.set_message(line.within(usize::from(columns) - 1));
        bar.tick();
    }

    /// Takes the line away, so that whatever is printed next starts on a clean one.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
