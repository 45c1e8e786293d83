//! Reads a recording record by record, whatever its bytes are.

use std::io::{self, BufReader, Read};

use super::bytes::{Checksum, Number, Step, take_number};
use super::{
    END_BYTE, Ending, FORMAT_VERSION, HEADER_BYTES_MAX, Header, Kind, MAGIC, RECORD_BYTES_MAX,
    Record, RecordingError, kind_byte,
};

/// Reads a recording: first its header, then one record after the other until `None`, or one error.
#[derive(Debug)]
pub struct Reader<R> {
    input: BufReader<R>,
    header: Header,
    checksum: Checksum,
    at: u64,
    /// Records that were read.
    records: u64,
    ending: Option<Ending>,
    failed: bool,
}

/// A framed piece of the file, or why there is none.
enum Frame {
    Whole(Vec<u8>, [u8; 4]),
    Torn,
    Bad(&'static str),
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(input: R) -> Result<Self, RecordingError> {
        let mut input = BufReader::new(input);
        let mut magic = Vec::new();
        input.by_ref().take(8).read_to_end(&mut magic)?;
        match magic.split_last() {
            Some((&FORMAT_VERSION, name)) if name == MAGIC => {}
            Some((&found, name)) if name == MAGIC => return Err(RecordingError::Version { found }),
            _ => return Err(RecordingError::Foreign),
        }
        let bad = |what: &str| Err(RecordingError::Header(what.to_owned()));
        let (json, sum) = match frame(&mut input, HEADER_BYTES_MAX)? {
            Frame::Whole(json, sum) => (json, sum),
            Frame::Torn => return bad("the file ends inside it"),
            Frame::Bad(what) => return bad(what),
        };
        let checksum = Checksum::START.with(&json);
        if checksum.bytes() != sum {
            return bad("its checksum is wrong");
        }
        let header =
            serde_json::from_slice(&json).map_err(|e| RecordingError::Header(e.to_string()))?;
        Ok(Self { input, header, checksum, at: 0, records: 0, ending: None, failed: false })
    }

    /// What the recording says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many records were read.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How the recording ends; `None` before its end was read, and after an error.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    fn read(&mut self) -> Result<Option<Record>, RecordingError> {
        let record = self.records + 1;
        let damaged = |what| Err(RecordingError::Damaged { record, what });
        let (body, sum) = match frame(&mut self.input, RECORD_BYTES_MAX)? {
            Frame::Whole(body, sum) => (body, sum),
            Frame::Torn => {
                self.ending = Some(Ending::Torn);
                return Ok(None);
            }
            Frame::Bad(what) => return damaged(what),
        };
        self.checksum = self.checksum.with(&body);
        if self.checksum.bytes() != sum {
            return damaged("its checksum is wrong");
        }
        let Some((&kind, mut rest)) = body.split_first() else {
            return damaged("it is empty");
        };
        let Some(at) = take_number(&mut rest).and_then(|delta| self.at.checked_add(delta)) else {
            return damaged("it has no moment");
        };
        let mut words = Vec::new();
        while !rest.is_empty() {
            let Some(word) = take_number(&mut rest) else {
                return damaged("it ends inside a word");
            };
            words.push(word);
        }
        let kind = match kind {
            END_BYTE => {
                self.ending = match words[..] {
                    [0] => Some(Ending::Complete),
                    [1] => Some(Ending::Cut),
                    _ => return damaged("it is an end of an unknown kind"),
                };
                if filled(&mut self.input, &mut [0])? {
                    return Err(RecordingError::Trailing);
                }
                return Ok(None);
            }
            kind if kind == kind_byte(Kind::Input) => Kind::Input,
            kind if kind == kind_byte(Kind::Output) => Kind::Output,
            _ => return damaged("it is of an unknown kind"),
        };
        self.at = at;
        self.records = record;
        Ok(Some(Record { kind, at, words }))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.ending.is_some() {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        read.transpose()
    }
}

/// Reads a length, so many bytes, and a checksum.
fn frame(input: &mut impl Read, bytes_max: u64) -> io::Result<Frame> {
    let mut number = Number::default();
    let length = loop {
        let mut byte = [0];
        if !filled(input, &mut byte)? {
            return Ok(Frame::Torn);
        }
        match number.push(byte[0]) {
            Step::More => {}
            Step::Done(length) => break length,
            Step::Overflow => return Ok(Frame::Bad("its length has more than 64 bits")),
        }
    };
    if length > bytes_max {
        return Ok(Frame::Bad("its length is above the bound"));
    }
    // Grows with what is there, not with what the length claims.
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body)?;
    let mut sum = [0; 4];
    if (body.len() as u64) < length || !filled(input, &mut sum)? {
        return Ok(Frame::Torn);
    }
    Ok(Frame::Whole(body, sum))
}

/// Fills the buffer; false when the input ends before.
fn filled(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}
