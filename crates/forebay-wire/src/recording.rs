//! Stores what went into a core and what came out of it, so that a run can be decided again.
//!
//! A recording is a stream, written and read without ever being held as a whole:
//!
//! ```text
//! magic      8 bytes
//! header     length, JSON, checksum
//! record*    length, body, checksum        body = kind, moment, words
//! end        the record whose kind is 2: one word, 0 for complete and 1 for cut
//! ```
//!
//! Lengths, moments and words are LEB128 numbers of at most 64 bits; a moment counts nanoseconds
//! from the record before. A checksum is the CRC-32 (IEEE 802.3) of everything between the magic
//! and itself but lengths and earlier checksums, in four bytes, least significant first: so a
//! record that was changed, lost or moved shows. What the words mean is not known here; the header
//! has the version of their layout.
//!
//! A recording without its end (the writer died) can be read up to its last whole record, and says
//! so.

mod bytes;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::io;

use serde::{Deserialize, Serialize};

pub use reader::Reader;
pub use writer::Writer;

/// The version of the bytes: the last byte of the magic.
pub const FORMAT_VERSION: u8 = 1;
/// The first bytes of a recording but the version. The line ends show a file that was mangled as
/// text.
pub const MAGIC: [u8; 7] = *b"FBYRE\r\n";
/// Most bytes of a header: thousands of tenants fit, and a reader reserves no more for a broken
/// length.
pub const HEADER_BYTES_MAX: u64 = 4 << 20;
/// Most bytes of one record: 400,000 block hashes fit, a hundred times what a step of an engine
/// reports.
pub const RECORD_BYTES_MAX: u64 = 4 << 20;

/// What must be known before the first record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the layout of words.
    pub words_version: u32,
    /// The program that wrote the recording, with its version.
    pub program: String,
    /// The seed of the core.
    pub seed: u64,
    /// The settings the core began with, as words.
    pub settings: Vec<u64>,
    /// The names of the classes of service, in the order of their numbers.
    #[serde(default)]
    pub classes: Vec<String>,
    /// The names of the tenants, in the order of their numbers.
    #[serde(default)]
    pub tenants: Vec<String>,
}

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that was told to the core.
    Input,
    /// Something that the core asked for.
    Output,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it holds.
    pub kind: Kind,
    /// Nanoseconds since the driver's epoch.
    pub at: u64,
    /// Its words.
    pub words: Vec<u64>,
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The run was recorded to its end.
    Complete,
    /// The recording reached its bound on bytes, and what came after is not in it.
    Cut,
    /// It ends early: whoever wrote it did not come to the end, or the file lost its tail.
    Torn,
}

/// Why a recording can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The reader or writer beneath failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It begins otherwise than a recording does.
    #[error("this is not a recording")]
    Foreign,
    /// It is a recording of another version.
    #[error("the recording has format {found}, and this program reads format {FORMAT_VERSION}")]
    Version {
        /// Its version.
        found: u8,
    },
    /// The header can't be read.
    #[error("the header of the recording can't be read: {0}")]
    Header(String),
    /// A record's bytes are not those that were written.
    #[error("record {record} is damaged: {what}")]
    Damaged {
        /// Which record, from 1.
        record: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It goes on after its end.
    #[error("there are more bytes after the end of the recording")]
    Trailing,
    /// The bytes to be written exceed a bound.
    #[error("{what} takes {bytes} bytes, and at most {bytes_max} are written")]
    TooLong {
        /// What takes them.
        what: &'static str,
        /// How many it takes.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// A record lies before the one that was written last.
    #[error("a record at {at} ns can't follow one at {last} ns")]
    Backwards {
        /// The moment of the record.
        at: u64,
        /// The moment of the last one.
        last: u64,
    },
}

/// The byte that tells a record of this kind.
const fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Input => 0,
        Kind::Output => 1,
    }
}

/// The byte that tells the last record.
const END_BYTE: u8 = 2;
