//! Speaks to whoever runs a chore.

use std::io::{Write, stderr};

/// Prints one line of talk to stderr. A reader that went away is no reason to stop a chore.
pub(crate) fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}
