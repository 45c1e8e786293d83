//! Writes numbers as LEB128, and sums bytes up as CRC-32.

/// Appends a number in groups of seven bits, the least significant first.
pub(super) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number that is being read, byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number {
    value: u64,
    bits: u32,
}

/// What a byte did to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More bytes follow.
    More,
    /// The number is complete.
    Done(u64),
    /// The number has more than 64 bits.
    Overflow,
}

impl Number {
    /// Takes the next byte.
    pub(super) fn push(&mut self, byte: u8) -> Step {
        let group = u64::from(byte & 0x7f);
        if self.bits > 63 || (self.bits == 63 && group > 1) {
            return Step::Overflow;
        }
        self.value |= group << self.bits;
        self.bits += 7;
        if byte & 0x80 == 0 { Step::Done(self.value) } else { Step::More }
    }
}

/// Takes a number from the front of the bytes; `None` when they hold no whole number of 64 bits.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = Number::default();
    loop {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        match number.push(*first) {
            Step::More => {}
            Step::Done(value) => return Some(value),
            Step::Overflow => return None,
        }
    }
}

/// The remainders of all bytes, for the reversed polynomial of IEEE 802.3.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ 0xedb8_8320 } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// A running CRC-32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checksum(u32);

impl Checksum {
    /// The sum of no bytes.
    pub(super) const START: Self = Self(u32::MAX);

    /// The sum once these bytes are added.
    #[must_use]
    pub(super) fn with(self, bytes: &[u8]) -> Self {
        Self(
            bytes
                .iter()
                .fold(self.0, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8)),
        )
    }

    /// The sum as it is written.
    pub(super) fn bytes(self) -> [u8; 4] {
        (!self.0).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Checksum, put_number, take_number};

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(Checksum::START.with(b"123456789").bytes(), 0xcbf4_3926_u32.to_le_bytes());
    }

    proptest! {
        #[test]
        fn a_number_comes_back_and_leaves_the_rest(
            number in any::<u64>(), rest in any::<[u8; 3]>(),
        ) {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            bytes.extend(rest);
            let mut left = bytes.as_slice();
            prop_assert_eq!(take_number(&mut left), Some(number));
            prop_assert_eq!(left, rest);
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(take_number(&mut largest.as_slice()), Some(u64::MAX));
        let mut above = largest;
        above[9] = 0x02;
        assert_eq!(take_number(&mut above.as_slice()), None);
        assert_eq!(take_number(&mut [0x80; 32].as_slice()), None);
    }
}
