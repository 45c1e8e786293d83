//! Writes messages of protocol buffers: field by field, each with its number, whether its value is
//! the default or not.
//!
//! The numbers of fields stand where they are written, and are those of OpenTelemetry's published
//! `.proto` files, in which a number that has been given is never given another meaning.

/// Kinds of values on the wire ("Encoding" in the documentation of protocol buffers).
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

/// A message so far.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Its bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A number that is mostly small: a count, a flag, one of an enumeration.
    pub(super) fn number(&mut self, field: u64, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// A number of eight bytes.
    pub(super) fn fixed_64(&mut self, field: u64, value: u64) {
        self.key(field, FIXED_64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A number of four bytes.
    pub(super) fn fixed_32(&mut self, field: u64, value: u32) {
        self.key(field, FIXED_32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A floating-point number.
    pub(super) fn float(&mut self, field: u64, value: f64) {
        self.fixed_64(field, value.to_bits());
    }

    /// Bytes, or a text.
    pub(super) fn bytes(&mut self, field: u64, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.key(field, LENGTH);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A message in this one.
    pub(super) fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    /// Seven bits a byte, the lowest first; the eighth says that more come.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    /// The examples of the documentation of protocol buffers ("Encoding").
    #[test]
    fn numbers_texts_and_messages_are_written_as_the_documentation_shows() {
        let mut message = Message::default();
        message.number(1, 150);
        assert_eq!(message.into_bytes(), [0x08, 0x96, 0x01]);
        let mut message = Message::default();
        message.bytes(2, "testing");
        assert_eq!(message.into_bytes(), *b"\x12\x07testing");
        let mut message = Message::default();
        message.message(3, |inner| inner.number(1, 150));
        assert_eq!(message.into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn defaults_are_written_and_the_largest_numbers_fit() {
        let mut message = Message::default();
        message.number(16, 0);
        message.number(1, u64::MAX);
        message.fixed_64(7, 1);
        message.fixed_32(16, 0x301);
        let expected = [
            &[0x80, 0x01, 0x00, 0x08][..],
            &[0xff; 9],
            &[0x01, 0x39, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x85, 0x01, 0x01, 0x03, 0, 0],
        ];
        assert_eq!(message.into_bytes(), expected.concat());
    }
}
