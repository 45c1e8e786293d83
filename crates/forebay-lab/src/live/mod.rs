//! Holds a drill on live endpoints: arms that are started and stopped, the same requests for each,
//! block by block, until the criteria are settled.
//!
//! | module | does |
//! |---|---|
//! | [`design`], `read`, `keys` | say what the drill is: its file, with all of its faults |
//! | [`fill`] | puts ports, workers and paths into commands |
//! | [`process`] | starts programs, and ends them with all that they have started |
//! | [`requests`] | cuts the requests of one block out of the trace |
//! | [`pages`] | reads metrics before and after a block |

pub mod design;
pub mod fill;
mod keys;
pub mod pages;
pub mod process;
mod read;
pub mod requests;

pub use design::Design;
pub use read::ReadError;
