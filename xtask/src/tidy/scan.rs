//! Parts Rust text into code and comments, line by line.
//!
//! No parser: only enough of the language to know where comments, strings and characters begin and
//! end, so that a rule about code is not broken by a sentence about it, nor the other way round.

/// One line of a Rust file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Its code, with every string emptied to `""` and every character to `''`.
    pub(super) code: String,
    /// The text of its comments, without the slashes.
    pub(super) comment: String,
    /// Whether it begins inside of a raw string, so that nobody can break it.
    pub(super) raw: bool,
}

/// Where the scanner is.
enum Place {
    Code,
    LineComment,
    /// Inside this many nested block comments.
    BlockComment(u32),
    String,
    /// Inside a raw string that ends with a quote and this many hashes.
    RawString(usize),
}

/// Parts a file into its lines.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut place = Place::Code;
    let mut at = 0;
    while let Some(&char) = chars.get(at) {
        let rest = &chars[at..];
        let line = lines.last_mut().expect("a line was pushed before the loop");
        at += match place {
            _ if char == '\n' => {
                if matches!(place, Place::LineComment) {
                    place = Place::Code;
                }
                let raw = matches!(place, Place::RawString(_));
                lines.push(Line { raw, ..Line::default() });
                1
            }
            Place::Code => {
                let (next, len) = step(rest, chars[..at].last().copied(), line);
                place = next;
                len
            }
            Place::LineComment => {
                line.comment.push(char);
                1
            }
            Place::BlockComment(depth) => match (rest, depth) {
                (['/', '*', ..], _) => advance(&mut place, Place::BlockComment(depth + 1), 2),
                (['*', '/', ..], 1) => advance(&mut place, Place::Code, 2),
                (['*', '/', ..], _) => advance(&mut place, Place::BlockComment(depth - 1), 2),
                _ => {
                    line.comment.push(char);
                    1
                }
            },
            Place::String => match rest {
                // An escaped line end is left to the next round, which counts the line.
                ['\\', escaped, ..] if *escaped != '\n' => 2,
                ['"', ..] => advance(&mut place, Place::Code, 1),
                _ => 1,
            },
            Place::RawString(hashes) => {
                let closed = char == '"' && hashes_of(&rest[1..]) >= hashes;
                if closed { advance(&mut place, Place::Code, 1 + hashes) } else { 1 }
            }
        };
    }
    lines
}

fn advance(place: &mut Place, next: Place, len: usize) -> usize {
    *place = next;
    len
}

/// Takes the next piece of code, `before` being the character before it; says where that leads and
/// how many characters it took.
fn step(rest: &[char], before: Option<char>, line: &mut Line) -> (Place, usize) {
    let fresh = before.is_none_or(|char| !is_word(char));
    let raw = match rest {
        ['b' | 'c', 'r', ..] if fresh => Some(2),
        ['r', ..] if fresh => Some(1),
        _ => None,
    };
    if let Some(prefix) = raw {
        let hashes = hashes_of(&rest[prefix..]);
        if rest.get(prefix + hashes) == Some(&'"') {
            line.code.push_str("\"\"");
            return (Place::RawString(hashes), prefix + hashes + 1);
        }
    }
    match rest {
        ['/', '/', ..] => {
            let slashes = rest.iter().take_while(|char| **char == '/').count();
            let bang = usize::from(rest.get(slashes) == Some(&'!'));
            (Place::LineComment, slashes + bang)
        }
        ['/', '*', ..] => (Place::BlockComment(1), 2),
        ['"', ..] => {
            line.code.push_str("\"\"");
            (Place::String, 1)
        }
        // A character, not a lifetime: an escape, or a quote right after one character.
        ['\'', '\\', _, tail @ ..] => {
            line.code.push_str("''");
            let len = tail.iter().take_while(|char| **char != '\'' && **char != '\n').count();
            (Place::Code, 3 + len + 1)
        }
        ['\'', _, '\'', ..] => {
            line.code.push_str("''");
            (Place::Code, 3)
        }
        [char, ..] => {
            line.code.push(*char);
            (Place::Code, 1)
        }
        [] => (Place::Code, 1),
    }
}

fn hashes_of(rest: &[char]) -> usize {
    rest.iter().take_while(|char| **char == '#').count()
}

/// Whether a character can be part of a name.
pub(super) fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The names and keywords of a line of code, in order.
pub(super) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|char| !is_word(char)).filter(|word| !word.is_empty())
}

/// How many lines come before the trailing `#[cfg(test)] mod tests`; all, where there is none.
pub(super) fn before_tests(lines: &[Line]) -> usize {
    let is_tests = |pair: &[Line]| {
        pair[0].code.trim() == "#[cfg(test)]" && pair[1].code.trim_start().starts_with("mod tests")
    };
    // The empty piece after the last line end is no line.
    let all = lines.len() - usize::from(lines.last().is_some_and(|line| *line == Line::default()));
    lines.windows(2).position(is_tests).unwrap_or(all)
}

#[cfg(test)]
mod tests {
    use super::{before_tests, lines};

    #[track_caller]
    fn check(text: &str, parted: &[(&str, &str)]) {
        let lines = lines(text);
        let lines: Vec<_> =
            lines.iter().map(|line| (line.code.as_str(), line.comment.as_str())).collect();
        assert_eq!(lines, parted);
    }

    #[test]
    fn comments_are_no_code_and_code_is_no_comment() {
        check("//! Doc\nlet a = 1; // why", &[("", " Doc"), ("let a = 1; ", " why")]);
        check("/// x\n//// y", &[("", " x"), ("", " y")]);
        check("a /* b /* c */ d */ e", &[("a  e", " b  c  d ")]);
        check("/* a\nb */ c", &[("", " a"), (" c", "b ")]);
    }

    #[test]
    fn strings_and_characters_are_emptied() {
        check("f(\"// no\", '\"', '\\'', x)", &[("f(\"\", '', '', x)", "")]);
        check("r#\"a \" // \"# + br\"x\" + c\"y\"", &[("\"\" + \"\" + c\"\"", "")]);
        check("\"a\\\n  b\\\\\" + c", &[("\"\"", ""), (" + c", "")]);
        check("'\\u{1f600}' // x", &[("'' ", " x")]);
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        check("fn f<'a>(x: &'a str) // y", &[("fn f<'a>(x: &'a str) ", " y")]);
        check("r#type + for\"x\"", &[("r#type + for\"\"", "")]);
    }

    #[test]
    fn a_line_that_begins_inside_a_raw_string_is_known() {
        let raw: Vec<bool> = lines("r\"a\nb\nc\" + \"d\ne\"").iter().map(|line| line.raw).collect();
        assert_eq!(raw, [false, true, true, false]);
    }

    #[test]
    fn lines_are_counted_up_to_the_tests() {
        assert_eq!(before_tests(&lines("a\n\n#[cfg(test)]\nmod tests {\n}\n")), 2);
        assert_eq!(before_tests(&lines("a\n#[cfg(test)]\nfn only() {}\nb\n")), 4);
        assert_eq!(before_tests(&lines("a\nb")), 2);
    }
}
