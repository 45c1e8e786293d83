//! Writes the line that repeats a run, without any key.

use http::HeaderName;

/// Parts of the names of headers whose values are nobody else's business.
const SECRET: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];
/// What stands where a secret was.
const HIDDEN: &str = "...";
/// The option that a header is given with.
const OPTION: &str = "--header";

/// Whether the value of a header with this name is to be kept out of everything that is written.
pub fn is_secret(name: &HeaderName) -> bool {
    SECRET.iter().any(|part| name.as_str().contains(part))
}

/// These words of a command line as one line that a shell takes, with the values of headers that
/// are secret left out.
pub fn repeat(words: impl Iterator<Item = String>) -> String {
    let mut line = String::new();
    let mut is_header = false;
    for word in words {
        let shown = match word.strip_prefix(OPTION).and_then(|rest| rest.strip_prefix('=')) {
            Some(header) => format!("{OPTION}={}", hidden(header)),
            None if is_header => hidden(&word),
            None => word.clone(),
        };
        is_header = word == OPTION;
        if !line.is_empty() {
            line.push(' ');
        }
        line += &quoted(&shown);
    }
    line
}

/// A header with its value left out where that is secret, or where nobody can tell.
fn hidden(header: &str) -> String {
    let Some((name, _)) = header.split_once(':') else { return HIDDEN.to_owned() };
    match name.trim().parse() {
        Ok(known) if !is_secret(&known) => header.to_owned(),
        _ => format!("{name}: {HIDDEN}"),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::repeat;

    fn repeated(words: &[&str]) -> String {
        repeat(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn a_line_can_be_given_to_a_shell_again() {
        let words = ["forebay", "load", "--label", "it's", "--extra-body", "{\"a\": 1}", ""];
        let line = "forebay load --label 'it'\\''s' --extra-body '{\"a\": 1}' ''";
        assert_eq!(repeated(&words), line);
    }

    #[test]
    fn keys_are_left_out_however_they_are_given() {
        for words in [
            &["--header", "Authorization: Bearer abc"][..],
            &["--header=x-api-key:abc"],
            &["--header", "abc"],
            &["--header", "api-Key:  abc"],
        ] {
            let line = repeated(words);
            assert!(!line.contains("abc") && line.contains("..."), "{line}");
        }
        assert_eq!(repeated(&["--header", "x-team: abc"]), "--header 'x-team: abc'");
    }
}
