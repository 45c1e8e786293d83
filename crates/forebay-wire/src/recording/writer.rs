//! Writes a recording as it happens, up to a bound.

use std::io::Write;

use super::bytes::{Checksum, put_number};
use super::{
    END_BYTE, Ending, FORMAT_VERSION, HEADER_BYTES_MAX, Header, Kind, MAGIC, RECORD_BYTES_MAX,
    RecordingError, kind_byte,
};

/// Bytes that are kept for the end: its length, its kind, a moment of no time, one word and a
/// checksum.
const END_BYTES: u64 = 1 + 3 + 4;

/// Writes a recording. Give it a buffered writer.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    checksum: Checksum,
    last: u64,
    bytes_left: u64,
    cut: bool,
    body: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording of at most `bytes_max` bytes.
    pub fn new(mut out: W, header: &Header, bytes_max: u64) -> Result<Self, RecordingError> {
        let json = serde_json::to_vec(header).map_err(|e| RecordingError::Header(e.to_string()))?;
        let what = "the header";
        within(what, json.len() as u64, HEADER_BYTES_MAX)?;
        let mut head = MAGIC.to_vec();
        head.push(FORMAT_VERSION);
        put_number(json.len() as u64, &mut head);
        let checksum = Checksum::START.with(&json);
        head.extend(&json);
        head.extend(checksum.bytes());
        let bytes = head.len() as u64;
        within(what, bytes + END_BYTES, bytes_max)?;
        out.write_all(&head)?;
        let bytes_left = bytes_max - bytes - END_BYTES;
        Ok(Self { out, checksum, last: 0, bytes_left, cut: false, body: Vec::new() })
    }

    /// Appends one record. Once the bound is reached it writes nothing more: see
    /// [`Writer::is_cut`].
    pub fn write(&mut self, kind: Kind, at: u64, words: &[u64]) -> Result<(), RecordingError> {
        if self.cut {
            return Ok(());
        }
        let Some(delta) = at.checked_sub(self.last) else {
            return Err(RecordingError::Backwards { at, last: self.last });
        };
        self.begin(kind_byte(kind), delta);
        for word in words {
            put_number(*word, &mut self.body);
        }
        within("a record", self.body.len() as u64, RECORD_BYTES_MAX)?;
        let mut length = Vec::with_capacity(4);
        put_number(self.body.len() as u64, &mut length);
        let bytes = (length.len() + self.body.len() + 4) as u64;
        if bytes > self.bytes_left {
            self.cut = true;
            return Ok(());
        }
        self.bytes_left -= bytes;
        self.last = at;
        self.flush_body(&length)
    }

    /// Ends the recording after what was written so far, as its bound does: whoever gives the
    /// records has lost some.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Hands everything so far to what is beneath, down to its own buffers.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        Ok(self.out.flush()?)
    }

    /// Whether the bound was reached, so that records are missing.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Writes the end, flushes, and gives the writer back.
    pub fn finish(mut self) -> Result<(W, Ending), RecordingError> {
        let ending = if self.cut { Ending::Cut } else { Ending::Complete };
        self.begin(END_BYTE, 0);
        put_number(u64::from(self.cut), &mut self.body);
        let length = [self.body.len() as u8];
        self.flush_body(&length)?;
        self.out.flush()?;
        Ok((self.out, ending))
    }

    fn begin(&mut self, kind: u8, delta: u64) {
        self.body.clear();
        self.body.push(kind);
        put_number(delta, &mut self.body);
    }

    fn flush_body(&mut self, length: &[u8]) -> Result<(), RecordingError> {
        self.checksum = self.checksum.with(&self.body);
        self.out.write_all(length)?;
        self.out.write_all(&self.body)?;
        self.out.write_all(&self.checksum.bytes())?;
        Ok(())
    }
}

fn within(what: &'static str, bytes: u64, bytes_max: u64) -> Result<(), RecordingError> {
    if bytes > bytes_max {
        return Err(RecordingError::TooLong { what, bytes, bytes_max });
    }
    Ok(())
}
