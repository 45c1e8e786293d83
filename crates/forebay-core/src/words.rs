//! Turns inputs, outputs and settings into plain words and back, so that a run can be recorded.
//!
//! A word is a `u64`. The words of a value say nothing of bytes: whoever stores them chooses the
//! form. Two values have equal words exactly when they are equal bit by bit (floats by their bits,
//! so that two decisions that differ in the last digit of a score differ here, too).
//!
//! The layout is that of the types, field by field, in the order of the macros below. Lists and
//! options begin with their length; variants begin with a code that is never given to another
//! variant. A field or a variant that is added, removed or moved raises [`WORDS_VERSION`].
//!
//! The alternative, serde on every type, would make each private rearrangement of the core a change
//! of the format without anybody noticing, and bring a dependency that nothing else here needs.

mod event;
mod settings;
#[cfg(test)]
mod tests;

use crate::{Input, Output, Settings};

/// The version of the layout. Words of another version can't be read.
pub const WORDS_VERSION: u32 = 3;

/// What is wrong with words that should have been an input, an output or settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    /// They end inside a value.
    #[error("the words end at {at}, in the middle of {of}")]
    Short {
        /// Place of the word that is missing, from 0.
        at: usize,
        /// What it would have been part of.
        of: &'static str,
    },
    /// A word is out of range where it stands.
    #[error("word {at} can't be {of}: {word}")]
    Range {
        /// Place of the word, from 0.
        at: usize,
        /// What it should have been.
        of: &'static str,
        /// The word.
        word: u64,
    },
    /// There are more of them than the value needs.
    #[error("{extra} words are left over")]
    Long {
        /// How many.
        extra: usize,
    },
}

impl Input {
    /// Appends the words of this input.
    pub fn to_words(&self, out: &mut Vec<u64>) {
        self.put(out);
    }
    /// The input that has exactly these words.
    pub fn from_words(words: &[u64]) -> Result<Self, BadWords> {
        Cursor::whole(words)
    }
}

impl Output {
    /// Appends the words of this output.
    pub fn to_words(&self, out: &mut Vec<u64>) {
        self.put(out);
    }
    /// The output that has exactly these words.
    pub fn from_words(words: &[u64]) -> Result<Self, BadWords> {
        Cursor::whole(words)
    }
}

impl Settings {
    /// Appends the words of these settings.
    pub fn to_words(&self, out: &mut Vec<u64>) {
        self.put(out);
    }
    /// The settings that have exactly these words.
    pub fn from_words(words: &[u64]) -> Result<Self, BadWords> {
        Cursor::whole(words)
    }
}

/// What can be written as words.
trait Words: Sized {
    /// Appends the words of this value: at least one, so that a list is never longer than its
    /// words.
    fn put(&self, out: &mut Vec<u64>);
    /// Takes the words of one value, and no more.
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords>;
}

/// Words that are being read.
struct Cursor<'a> {
    words: &'a [u64],
    at: usize,
}

impl Cursor<'_> {
    /// Reads one value that uses up all words.
    fn whole<T: Words>(words: &[u64]) -> Result<T, BadWords> {
        let mut cursor = Cursor { words, at: 0 };
        let value = T::read(&mut cursor)?;
        match words.len() - cursor.at {
            0 => Ok(value),
            extra => Err(BadWords::Long { extra }),
        }
    }

    /// The next word, as part of something.
    fn word(&mut self, of: &'static str) -> Result<u64, BadWords> {
        let word = self.words.get(self.at).ok_or(BadWords::Short { at: self.at, of })?;
        self.at += 1;
        Ok(*word)
    }

    /// The next word, mapped to what it stands for.
    fn decoded<T>(
        &mut self,
        of: &'static str,
        decode: impl FnOnce(u64) -> Option<T>,
    ) -> Result<T, BadWords> {
        let at = self.at;
        let word = self.word(of)?;
        decode(word).ok_or(BadWords::Range { at, of, word })
    }

    /// The length of a list whose items take at least one word each.
    fn len(&mut self) -> Result<usize, BadWords> {
        let at = self.at;
        let word = self.word("a length")?;
        // A length above what is left would only end in `Short` after a huge reservation.
        if word > (self.words.len() - self.at) as u64 {
            return Err(BadWords::Range { at, of: "a length", word });
        }
        Ok(word as usize)
    }
}

impl Words for u64 {
    fn put(&self, out: &mut Vec<u64>) {
        out.push(*self);
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        from.word("a number")
    }
}

impl Words for u32 {
    fn put(&self, out: &mut Vec<u64>) {
        out.push(u64::from(*self));
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        from.decoded("a number of 32 bits", |word| Self::try_from(word).ok())
    }
}

impl Words for u16 {
    fn put(&self, out: &mut Vec<u64>) {
        out.push(u64::from(*self));
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        from.decoded("a number of 16 bits", |word| Self::try_from(word).ok())
    }
}

impl Words for bool {
    fn put(&self, out: &mut Vec<u64>) {
        out.push(u64::from(*self));
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        from.decoded("a yes or no", |word| (word < 2).then_some(word == 1))
    }
}

impl Words for f64 {
    fn put(&self, out: &mut Vec<u64>) {
        out.push(self.to_bits());
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        from.word("a float").map(Self::from_bits)
    }
}

impl<T: Words> Words for Option<T> {
    fn put(&self, out: &mut Vec<u64>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        Ok(if bool::read(from)? { Some(T::read(from)?) } else { None })
    }
}

/// Appends the length of a list, then its items.
fn put_list<T: Words>(items: &[T], out: &mut Vec<u64>) {
    out.push(items.len() as u64);
    for item in items {
        item.put(out);
    }
}

impl<T: Words> Words for Vec<T> {
    fn put(&self, out: &mut Vec<u64>) {
        put_list(self, out);
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        (0..from.len()?).map(|_| T::read(from)).collect()
    }
}

impl<T: Words> Words for std::sync::Arc<[T]> {
    fn put(&self, out: &mut Vec<u64>) {
        put_list(self, out);
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        Vec::read(from).map(Self::from)
    }
}

impl<T: Words> Words for Box<T> {
    fn put(&self, out: &mut Vec<u64>) {
        self.as_ref().put(out);
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        T::read(from).map(Self::new)
    }
}

impl<A: Words, B: Words> Words for (A, B) {
    fn put(&self, out: &mut Vec<u64>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        Ok((A::read(from)?, B::read(from)?))
    }
}

/// Writes a struct as its fields in this order. Every field must be named, so a new one does not
/// compile until it is placed here.
macro_rules! fields {
    ($($name:ident { $($field:ident),+ $(,)? })+) => { $(
        impl $crate::words::Words for $name {
            fn put(&self, out: &mut Vec<u64>) {
                let Self { $($field),+ } = self;
                $($crate::words::Words::put($field, out);)+
            }
            fn read(
                from: &mut $crate::words::Cursor<'_>,
            ) -> Result<Self, $crate::words::BadWords> {
                $(let $field = $crate::words::Words::read(from)?;)+
                Ok(Self { $($field),+ })
            }
        }
    )+ };
}

/// Writes an enum as a code and then what the variant holds. A new variant does not compile until
/// it has a code.
macro_rules! variants {
    ($(
        $name:ident, $of:literal {
            $($code:literal = $variant:ident $(($($held:ident),+))?),+ $(,)?
        }
    )+) => { $(
        impl $crate::words::Words for $name {
            fn put(&self, out: &mut Vec<u64>) {
                match self {
                    $(Self::$variant $(($($held),+))? => {
                        out.push($code);
                        $($($crate::words::Words::put($held, out);)+)?
                    })+
                }
            }
            fn read(
                from: &mut $crate::words::Cursor<'_>,
            ) -> Result<Self, $crate::words::BadWords> {
                let at = from.at;
                match from.word($of)? {
                    $($code => {
                        $($(let $held = $crate::words::Words::read(from)?;)+)?
                        Ok(Self::$variant $(($($held),+))?)
                    })+
                    word => Err($crate::words::BadWords::Range { at, of: $of, word }),
                }
            }
        }
    )+ };
}

/// Writes a wrapped number as the number.
macro_rules! wrapped {
    ($($name:ident),+ $(,)?) => { $(
        impl $crate::words::Words for $name {
            fn put(&self, out: &mut Vec<u64>) {
                self.0.put(out);
            }
            fn read(
                from: &mut $crate::words::Cursor<'_>,
            ) -> Result<Self, $crate::words::BadWords> {
                $crate::words::Words::read(from).map(Self)
            }
        }
    )+ };
}

use {fields, variants, wrapped};
