//! Walks JSON text from value to value, and builds nothing of it.
//!
//! A gateway needs a few members of an object and passes the rest on unread, so a parser that
//! makes a tree would cost more than all other work on a request. This walk skips what it isn't
//! asked for at the speed of `memchr`, takes no memory, and does not recurse. It is lenient:
//! braces and brackets match and strings end, but what stands between them is for the worker to
//! judge. Duplicate keys are told in their order; whoever reads takes the last, as Python does.

use std::borrow::Cow;

/// Most levels of arrays and objects. Above what the parsers behind us take (`serde_json` stops at
/// 128, pydantic at 200), so that the refusal is theirs except for the absurd.
pub const DEPTH_MAX: usize = 256;

/// Most raw bytes of a key that is decoded. The longest name that is looked for has 21 letters,
/// and each may be written as an escape of six.
const KEY_BYTES_MAX: usize = 6 * 32;

/// Why a text is no JSON object, and where. The text itself is never quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at byte {at})")]
pub struct BadJson {
    /// What is wrong.
    pub what: &'static str,
    /// The offset of the byte where it shows.
    pub at: usize,
}

/// A value as it stands in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    /// Its bytes, never empty.
    pub(crate) raw: &'a [u8],
    /// The offset of its first byte.
    pub(crate) at: usize,
}

impl<'a> Value<'a> {
    /// The bytes between the quotes, if it is a string.
    pub(crate) fn inner(self) -> Option<&'a [u8]> {
        match self.raw {
            [b'"', inner @ .., b'"'] => Some(inner),
            _ => None,
        }
    }

    /// The decoded text, if it is a string that can be decoded.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.inner()?;
        if memchr::memchr(b'\\', inner).is_none() {
            return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
        }
        serde_json::from_slice::<String>(self.raw).ok().map(Cow::Owned)
    }

    /// The number, if it is an integer from 0 to 2⁶⁴ − 1 in plain digits.
    pub(crate) fn integer(self) -> Option<u64> {
        self.raw.iter().try_fold(0_u64, |sum, &byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            sum.checked_mul(10)?.checked_add(digit)
        })
    }

    pub(crate) fn is_null(self) -> bool {
        self.raw == b"null"
    }

    /// Whether it holds anything: no for null, `""`, `[]`, `{}` and false.
    pub(crate) fn is_something(self) -> bool {
        match self.raw {
            b"null" | b"false" => false,
            [b'"', inner @ .., b'"'] => !inner.is_empty(),
            [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => {
                inner.iter().any(|&byte| !is_space(byte))
            }
            _ => true,
        }
    }

    /// The members, if it is an object.
    pub(crate) fn members(self) -> Option<Members<'a>> {
        Members::new(self.raw).ok()
    }

    /// The value of a member, if it is an object that has it.
    pub(crate) fn member(self, name: &[u8]) -> Option<Value<'a>> {
        let mut found = None;
        let mut members = self.members()?;
        while let Ok(Some((key, value))) = members.next() {
            if key.as_ref() == name {
                found = Some(value);
            }
        }
        found
    }
}

/// A key, decoded, and its value.
pub(crate) type Member<'a> = (Cow<'a, [u8]>, Value<'a>);

/// The members of one object, one after the other.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    cursor: Cursor<'a>,
    first: bool,
}

impl<'a> Members<'a> {
    /// Begins with the object that the text begins with, spaces apart.
    pub(crate) fn new(text: &'a [u8]) -> Result<Self, BadJson> {
        let mut cursor = Cursor { text, at: 0 };
        cursor.skip_space();
        if cursor.peek() != Some(b'{') {
            return Err(cursor.bad("an object is expected"));
        }
        cursor.at += 1;
        Ok(Self { cursor, first: true })
    }

    /// The next key, decoded, and its value. `None` after the closing brace.
    pub(crate) fn next(&mut self) -> Result<Option<Member<'a>>, BadJson> {
        let cursor = &mut self.cursor;
        cursor.skip_space();
        match cursor.peek() {
            Some(b'}') => {
                cursor.at += 1;
                return Ok(None);
            }
            Some(b',') if !self.first => {
                cursor.at += 1;
                cursor.skip_space();
            }
            _ if self.first => {}
            _ => return Err(cursor.bad("a comma or the end of the object is expected")),
        }
        self.first = false;
        if cursor.peek() != Some(b'"') {
            return Err(cursor.bad("a key is expected"));
        }
        let from = cursor.at;
        cursor.skip_string()?;
        let key = name(&cursor.text[from..cursor.at]);
        cursor.skip_space();
        if cursor.peek() != Some(b':') {
            return Err(cursor.bad("a colon is expected"));
        }
        cursor.at += 1;
        Ok(Some((key, cursor.value()?)))
    }

    /// How far the text was read: past the object, or to where it is malformed.
    pub(crate) fn at(&self) -> usize {
        self.cursor.at
    }

    /// Checks that nothing but spaces follows the object, after its last member was told.
    pub(crate) fn end(mut self) -> Result<(), BadJson> {
        self.cursor.skip_space();
        match self.cursor.peek() {
            None => Ok(()),
            Some(_) => Err(self.cursor.bad("nothing may follow the object")),
        }
    }
}

/// A key without its quotes. An escaped one is decoded, since the worker will do so too.
fn name(quoted: &[u8]) -> Cow<'_, [u8]> {
    let raw = &quoted[1..quoted.len() - 1];
    if raw.len() > KEY_BYTES_MAX || memchr::memchr(b'\\', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    match serde_json::from_slice::<String>(quoted) {
        Ok(decoded) => Cow::Owned(decoded.into_bytes()),
        Err(_) => Cow::Borrowed(raw),
    }
}

/// The elements of one array, one after the other.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    cursor: Cursor<'a>,
    first: bool,
}

impl<'a> Elements<'a> {
    /// Begins with an array; `None` for anything else.
    pub(crate) fn new(array: Value<'a>) -> Option<Self> {
        let cursor = Cursor { text: array.raw, at: 1 };
        (array.raw[0] == b'[').then_some(Self { cursor, first: true })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    /// The next element. Ends early where the array is malformed.
    fn next(&mut self) -> Option<Value<'a>> {
        let cursor = &mut self.cursor;
        cursor.skip_space();
        match cursor.peek() {
            Some(b',') if !self.first => cursor.at += 1,
            _ if self.first => {}
            _ => return None,
        }
        self.first = false;
        cursor.value().ok()
    }
}

/// A place in a text.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    fn bad(&self, what: &'static str) -> BadJson {
        BadJson { what, at: self.at.min(self.text.len()) }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// Takes one value, spaces before it apart.
    pub(crate) fn value(&mut self) -> Result<Value<'a>, BadJson> {
        self.skip_space();
        let at = self.at;
        match self.peek() {
            Some(b'"') => self.skip_string()?,
            Some(b'{' | b'[') => self.skip_nested()?,
            _ => {
                while self.peek().is_some_and(is_scalar) {
                    self.at += 1;
                }
                if self.at == at {
                    return Err(self.bad("a value is expected"));
                }
            }
        }
        Ok(Value { raw: &self.text[at..self.at], at })
    }

    /// Goes from an opening quote past the closing one.
    ///
    /// Looks for quotes only and counts the backslashes before each, so that a text with many line
    /// ends (`\n`) costs no more than one without. Each run of backslashes is counted at most once.
    fn skip_string(&mut self) -> Result<(), BadJson> {
        let from = self.at + 1;
        let mut at = from;
        while let Some(found) = memchr::memchr(b'"', &self.text[at..]) {
            let before = self.text[from..at + found].iter().rev();
            let backslashes = before.take_while(|&&byte| byte == b'\\').count();
            at += found + 1;
            if backslashes % 2 == 0 {
                self.at = at;
                return Ok(());
            }
            // The quote and its backslash stand before, so there are two bytes to look back at.
            at += escaped_quotes(&self.text[at - 2..]);
        }
        Err(self.bad("this string has no end"))
    }

    /// Goes from an opening brace or bracket past the one that closes it.
    fn skip_nested(&mut self) -> Result<(), BadJson> {
        // One bit a level: set for an object.
        let mut objects = [0_u64; DEPTH_MAX / 64];
        let mut depth = 0;
        let from = self.at;
        while let Some(found) = structural(&self.text[self.at..]) {
            self.at += found;
            let byte = self.text[self.at];
            // A brace differs from its bracket in this bit.
            let object = u64::from(byte >> 5 & 1);
            match byte {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' if depth == DEPTH_MAX => return Err(self.bad("it is nested too deep")),
                b'{' | b'[' => {
                    let bit = depth % 64;
                    objects[depth / 64] &= !(1 << bit);
                    objects[depth / 64] |= object << bit;
                    depth += 1;
                }
                _ => {
                    depth -= 1;
                    if objects[depth / 64] >> (depth % 64) & 1 != object {
                        return Err(self.bad("this does not close what is open"));
                    }
                }
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        self.at = from;
        Err(self.bad("this array or object has no end"))
    }
}

/// How many bytes behind the first two surely don't end a string, in whole blocks. Code and JSON
/// inside of a text have an escaped quote every few bytes; to search for each costs more than to
/// look at blocks for a while.
#[expect(clippy::needless_bitwise_bool, reason = "branches would keep it from being vectorised")]
fn escaped_quotes(text: &[u8]) -> usize {
    for block in 0..8 {
        let Some(window) = text.get(block * BLOCK..).and_then(<[u8]>::first_chunk) else {
            return block * BLOCK;
        };
        let window: &[u8; BLOCK + 2] = window;
        let before = window[1..].iter().zip(window);
        let ends = window[2..].iter().zip(before).fold(false, |ends, (&byte, (&left, &lefter))| {
            // A quote is escaped by one backslash, but two may stand for one.
            let escaped = (left == b'\\') & (lefter != b'\\');
            ends | ((byte == b'"') & !escaped)
        });
        if ends {
            return block * BLOCK;
        }
    }
    8 * BLOCK
}

pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether a byte may stand in a number, `true`, `false`, `null` or Python's `NaN`.
const fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

const fn is_structural(byte: u8) -> bool {
    // A brace differs from its bracket in one bit.
    byte == b'"' || byte | 0x20 == b'{' || byte | 0x20 == b'}'
}

/// How many bytes are looked at together: two registers of the smallest x86-64.
const BLOCK: usize = 32;

/// The first quote, brace or bracket. Long lists of numbers have none for hundreds of bytes, and
/// are passed in blocks that compile to vector instructions.
pub(crate) fn structural(text: &[u8]) -> Option<usize> {
    // Between a key and its value there are one or two bytes.
    let near = text.len().min(4);
    if let Some(found) = text[..near].iter().position(|&byte| is_structural(byte)) {
        return Some(found);
    }
    let mut at = near;
    while let Some(block) = text[at..].first_chunk::<BLOCK>() {
        if block.iter().fold(false, |any, &byte| any | is_structural(byte)) {
            break;
        }
        at += BLOCK;
    }
    text[at..].iter().position(|&byte| is_structural(byte)).map(|found| at + found)
}
