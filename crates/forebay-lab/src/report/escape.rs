//! Keeps text from being read as markup.

use std::fmt;

/// Text as it may stand in the body or in a quoted attribute of HTML and SVG. Characters that XML
/// 1.0 forbids are left out: a viewer would refuse the whole picture for one of them.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' | '\r' => f.write_char(letter)?,
                '\u{fffe}' | '\u{ffff}' => {}
                _ if letter.is_control() => {}
                _ => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// Text that Markdown leaves alone: names come from files that others wrote.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '*' | '_' | '`' | '[' | ']' | '\\' | '#' => out.extend(['\\', letter]),
            '\n' | '\r' => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Escaped;

    #[test]
    fn markup_becomes_text_and_what_xml_forbids_is_left_out() {
        let escaped = Escaped("<b a=\"x\" c='y'>&\u{0}\u{1b}[1m∞\u{ffff}").to_string();
        assert_eq!(escaped, "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;[1m∞");
    }
}
