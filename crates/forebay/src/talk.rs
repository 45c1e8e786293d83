//! Says things: data to standard output, everything else to standard error.
//!
//! A reader of ours that has had enough, as `head` has, is no failure. Nor is a standard error that
//! takes nothing: what matters is the work, not the talk about it.

use std::io::{self, Write};

use anyhow::anyhow;

/// Says a line of talk.
pub(crate) fn say(line: &str) {
    // Nobody is left who could be told that nobody can be told anything.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints data, and answers whether there is still a reader for more.
pub(crate) fn print(data: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(data.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow!(
            "standard output can't be written: {error}\nhint: see that there is room for it"
        )),
    }
}
