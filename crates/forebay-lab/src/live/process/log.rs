//! Writes down what a program prints, up to a bound.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::path::Path;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The most that is kept of what a program prints each time that it is started.
pub(super) const BYTES_MAX: u64 = 8 << 20;
/// How long the last words of a program that has ended are waited for.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

/// The log of a program, written by a thread that ends with what it prints.
#[derive(Debug)]
pub(super) struct Log(JoinHandle<()>);

impl Log {
    /// A log at the end of this file, and the place to print to.
    pub(super) fn open(file: &Path) -> io::Result<(Self, PipeWriter)> {
        let log = File::options().create(true).append(true).open(file)?;
        let (reader, writer) = io::pipe()?;
        Ok((Self(thread::spawn(move || copy(reader, log))), writer))
    }

    /// Waits for the last words of a program that has ended.
    pub(super) fn settle(&self) {
        let begun = Instant::now();
        while !self.0.is_finished() && begun.elapsed() < LAST_WORDS_MAX {
            sleep(Duration::from_millis(5));
        }
    }
}

/// Copies up to the bound, and then reads on: a program whose pipe is full stands still.
fn copy(mut from: PipeReader, mut to: File) {
    let (mut piece, mut left, mut is_cut) = (vec![0; 64 << 10], BYTES_MAX, false);
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let kept = left.min(read as u64);
        // A log that can't be written is no reason to stop the program.
        let _ = to.write_all(&piece[..kept as usize]);
        if kept < read as u64 && !is_cut {
            is_cut = true;
            let _ = writeln!(to, "\n[no more is kept: {} MiB]", BYTES_MAX >> 20);
        }
        left -= kept;
    }
}
