//! Says on standard error what goes on while a server runs: warnings, and what an operator did.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Begins to say it, from `info` on unless `RUST_LOG` says otherwise.
pub(crate) fn begin() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    let begun = tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    // Somebody else has begun already, and what matters is that somebody has.
    drop(begun);
}
