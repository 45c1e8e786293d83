//! Holds a drill on live endpoints: arms that are started and stopped, the same requests for each,
//! block by block, until the criteria are settled.
//!
//! | module | does |
//! |---|---|
//! | [`design`], `read`, `keys` | say what the drill is: its file, with all of its faults |
//! | [`fill`] | puts ports, workers and paths into commands |
//! | [`process`] | starts programs, and ends them with all that they have started |
//! | [`requests`] | cuts the requests of one block out of the trace |
//! | [`sending`] | says how requests are sent, and with which keys |
//! | `start` | starts engines and arms, and brings them to a known state |
//! | [`block`] | runs one block of one arm |
//! | `sign` | lets somebody sign it |
//! | [`hold`] | goes through cells and rounds until the criteria are settled |
//! | [`simulated`] | simulates the same requests |
//! | [`table`] | prints what a person reads |
//! | [`pages`] | reads metrics before and after a block |

pub mod block;
pub mod design;
mod error;
pub mod fill;
pub mod hold;
mod keys;
pub mod pages;
pub mod process;
mod read;
pub mod requests;
pub mod sending;
mod sign;
pub mod simulated;
mod start;
pub mod table;

pub use design::Design;
pub use error::LiveError;
pub use hold::{Drill, Event, hold};
pub use read::ReadError;
