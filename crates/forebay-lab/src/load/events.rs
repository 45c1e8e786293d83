//! Cuts a stream of server-sent events into the data of each.
//!
//! As the HTML standard says (section 9.2, "Server-sent events"), with two readings: a lone
//! carriage return ends no line, since no engine sends one, and an event that lacks its blank line
//! at the end of the stream counts, since its data came whole.

/// Cuts events, whatever pieces the bytes come in.
pub(super) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    bytes_max: usize,
}

/// An event has more bytes than it may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

impl Events {
    /// Nothing read yet; an event may have so many bytes.
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { line: Vec::new(), data: Vec::new(), has_data: false, bytes_max }
    }

    /// Takes the next bytes, and hands over the data of each event that they end.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), EventTooLong> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.data.len() + piece.len() > self.bytes_max {
                return Err(EventTooLong);
            }
            if !piece.ends_with(b"\n") {
                self.line.extend_from_slice(piece);
            } else if self.line.is_empty() {
                self.end_line(piece, &mut each);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                self.end_line(&line, &mut each);
                line.clear();
                self.line = line;
            }
        }
        Ok(())
    }

    /// The stream has ended: hands over an event that lacks only its blank line.
    pub(super) fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        self.end_event(&mut each);
    }

    fn end_line(&mut self, line: &[u8], each: &mut impl FnMut(&[u8])) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            self.end_event(each);
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.has_data = true;
        }
    }

    fn end_event(&mut self, each: &mut impl FnMut(&[u8])) {
        if self.has_data {
            each(&self.data);
        }
        self.data.clear();
        self.has_data = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{EventTooLong, Events};

    const STREAM: &str = ": hello\r\n\r\ndata: a\r\n\r\nevent: x\ndata:b\ndata:  c\n\nid: 7\n\n\
                          data\n\ndata: é\n\ndata: [DONE]\n";

    fn cut(pieces: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        let mut each = |data: &[u8]| found.push(String::from_utf8(data.to_vec()).unwrap());
        let mut events = Events::new(64);
        for piece in pieces {
            events.feed(piece, &mut each).unwrap();
        }
        events.finish(&mut each);
        found
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let bytes = STREAM.as_bytes();
        let whole = cut(&[bytes]);
        assert_eq!(whole, ["a", "b\n c", "é", "[DONE]"]);
        for at in 0..=bytes.len() {
            assert_eq!(cut(&[&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
        }
        assert_eq!(cut(&bytes.chunks(1).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn a_line_that_is_not_ended_is_no_event() {
        assert_eq!(cut(&[b"data: a\n\ndata: b"]), ["a"]);
    }

    #[test]
    fn an_event_of_the_greatest_length_is_taken_and_a_longer_one_is_not() {
        let mut events = Events::new(10);
        let mut len = 0;
        assert_eq!(events.feed(b"data: abc\n\n", |data| len = data.len()), Ok(()));
        assert_eq!(len, 3);
        assert_eq!(events.feed(b"data: abcd", |_| ()), Ok(()));
        assert_eq!(events.feed(b"e", |_| ()), Err(EventTooLong));
        let mut lines = Events::new(10);
        assert_eq!(lines.feed(b"data: abc\ndata: d\n\n", |_| ()), Err(EventTooLong));
    }
}
