//! Checks the watch over workers.

mod living;
mod state;
mod stub;
