//! Takes the usage out of a stream whose client did not ask for it.
//!
//! Where the worker was asked to tell it on the stream's behalf, one event more comes than the
//! client expects: one whose `choices` are empty and that has a `usage`. It is taken out with the
//! empty line that ends it, and every other byte passes. For that, a line is held back until its
//! end has come, which costs nothing where engines write whole events; what comments, names and
//! blank lines hold passes with the same rule.
//!
//! Lines end in LF or CRLF. A stream with bare CRs, or with a line above a bound, is none that an
//! engine writes, and passes as it is from there on.

use memchr::memmem;

use crate::json::Members;

/// Most bytes that are held back: far above what an event with usage takes.
const HELD_BYTES_MAX: usize = 16 << 10;

/// Where in an event the next line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It begins one.
    First,
    /// It goes on with one that passes.
    Inside,
    /// It should be the empty one that ends an event which was taken out.
    AfterTaken,
}

/// Takes the usage out of a stream, piece by piece. Where the pieces are cut makes no difference to
/// what has passed at the end.
#[derive(Debug)]
pub struct UnaskedUsage {
    held: Vec<u8>,
    place: Place,
    /// The rest passes as it is.
    off: bool,
}

impl Default for UnaskedUsage {
    fn default() -> Self {
        Self { held: Vec::new(), place: Place::First, off: false }
    }
}

impl UnaskedUsage {
    /// Takes the next bytes of the body; what of it, and of what was held back, passes now.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(self.held.len() + bytes.len());
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest).filter(|_| !self.off) {
            let (line, after) = rest.split_at(at + 1);
            rest = after;
            if self.held.is_empty() {
                self.line(line, &mut passed);
            } else {
                self.held.extend_from_slice(line);
                let line = std::mem::take(&mut self.held);
                self.line(&line, &mut passed);
            }
        }
        self.held.extend_from_slice(rest);
        if self.off || self.held.len() > HELD_BYTES_MAX || has_bare_cr(&self.held) {
            self.off = true;
            passed.append(&mut self.held);
        }
        passed
    }

    /// What is still held back at the end of the body: a line without its end.
    pub fn finish(&mut self) -> Vec<u8> {
        self.off = true;
        std::mem::take(&mut self.held)
    }

    fn line(&mut self, line: &[u8], passed: &mut Vec<u8>) {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.is_empty() {
            let was = std::mem::replace(&mut self.place, Place::First);
            if was == Place::AfterTaken {
                return;
            }
        } else if self.place == Place::First && is_usage(text) {
            self.place = Place::AfterTaken;
            return;
        } else {
            self.place = Place::Inside;
        }
        passed.extend_from_slice(line);
    }
}

/// Whether a CR is followed by something other than an LF, which would be a line's end.
fn has_bare_cr(text: &[u8]) -> bool {
    memchr::memchr(b'\r', text).is_some_and(|at| at + 1 < text.len())
}

/// Whether a line holds the usage of a stream and nothing else of it.
fn is_usage(line: &[u8]) -> bool {
    let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return false };
    if memmem::find(data, b"\"usage\"").is_none() {
        return false;
    }
    let Ok(mut members) = Members::new(data) else { return false };
    let (mut usage, mut choices) = (false, false);
    loop {
        match members.next() {
            Ok(Some((key, value))) => match key.as_ref() {
                b"usage" => usage = value.raw.starts_with(b"{"),
                b"choices" => choices = value.raw.starts_with(b"[") && !value.is_something(),
                _ => {}
            },
            Ok(None) => return usage && choices && members.end().is_ok(),
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::UnaskedUsage;

    const TOKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n";
    const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3}}\n\n";

    /// What passes, in pieces of this length.
    fn passed(stream: &str, piece: usize) -> String {
        let mut filter = UnaskedUsage::default();
        let mut passed = Vec::new();
        stream.as_bytes().chunks(piece).for_each(|piece| passed.extend(filter.feed(piece)));
        passed.extend(filter.finish());
        String::from_utf8(passed).unwrap()
    }

    fn check(stream: &str, expected: &str) {
        for piece in 1..=stream.len() {
            assert_eq!(passed(stream, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn the_event_with_usage_alone_is_taken_out_and_every_other_byte_passes() {
        let rest = ": ping\n\nevent: x\ndata: {\"choices\":[ ]}\n\ndata: [DONE]\n\n";
        check(&format!("{TOKEN}{USAGE}{rest}"), &format!("{TOKEN}{rest}"));
        let crlf = |text: &str| text.replace('\n', "\r\n");
        check(&crlf(&format!("{TOKEN}{USAGE}{rest}")), &crlf(&format!("{TOKEN}{rest}")));
        check(&format!("{USAGE}{USAGE}{TOKEN}"), TOKEN);
    }

    #[test]
    fn usage_that_comes_with_tokens_or_with_more_of_its_event_passes() {
        let with_tokens = USAGE.replace("[]", "[{\"delta\":{\"content\":\"b\"}}]");
        check(&with_tokens, &with_tokens);
        let named = format!("id: 7\n{USAGE}{TOKEN}");
        check(&named, &named);
        let text = TOKEN.replace("\"a\"", "\"\\\"usage\\\":{}, \\\"choices\\\":[]\"");
        check(&text, &text);
    }

    #[test]
    fn what_has_no_end_or_is_no_stream_passes_too() {
        for text in ["data: {\"choices\":[],\"usage\":{}", "", "data: x\rdata: y\r\r", "\n\n\n"] {
            check(text, text);
        }
        let bare = USAGE.replace('\n', "\r");
        check(&bare, &bare);
        let long = format!("data: {}\n\n{TOKEN}", "x".repeat(40_000));
        for piece in [1, 1_000, 50_000] {
            assert_eq!(passed(&long, piece), long);
        }
        let mut filter = UnaskedUsage::default();
        assert!(filter.feed(&long.as_bytes()[..30_000]).len() == 30_000, "it is not held for ever");
    }
}
