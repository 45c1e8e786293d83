//! Says things: data to standard output, everything else to standard error.
//!
//! A reader of ours that has had enough, as `head` has, is no failure. Nor is a standard error that
//! takes nothing: what matters is the work, not the talk about it.
//!
//! Names come from traces and files that others wrote, so whatever would command a terminal is
//! spelt out.

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::anyhow;

/// Says a line of talk.
pub(crate) fn say(line: &str) {
    // Nobody is left who could be told that nobody can be told anything.
    let _ = writeln!(io::stderr(), "{}", spelt_out(line));
}

/// Prints data, and answers whether there is still a reader for more.
pub(crate) fn print(data: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(spelt_out(data).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow!(
            "standard output can't be written: {error}\nhint: see that there is room for it"
        )),
    }
}

/// The text with every control character but the ends of lines as an escape.
fn spelt_out(text: &str) -> Cow<'_, str> {
    let commands = |letter: char| letter.is_control() && letter != '\n';
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if commands(letter) {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::spelt_out;

    #[test]
    fn what_commands_a_terminal_is_spelt_out() {
        assert_eq!(spelt_out("Größe ≤ 3\n"), "Größe ≤ 3\n");
        assert_eq!(spelt_out("a\u{1b}[2J\r\u{9b}b\n"), "a\\u{1b}[2J\\r\\u{9b}b\n");
    }
}
