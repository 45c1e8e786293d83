//! Keeps keys that were sent out of everything that is written.

use http::HeaderMap;

/// How many bytes of what a server says are kept.
const SAID_BYTES_MAX: usize = 300;
/// How much of what a server says is looked at.
const LOOKED_AT_MAX: usize = 64 << 10;
/// What stands where a secret was.
const HIDDEN: &str = "[hidden]";

/// Values that no text may hold: those of headers that are marked as sensitive.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// The secrets among these headers: each whole value, and without its scheme where it has one
    /// (`Bearer x`).
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        found.add(headers);
        found
    }

    /// These and those of more headers.
    pub(super) fn and(&self, headers: &HeaderMap) -> Self {
        let mut found = self.clone();
        found.add(headers);
        found
    }

    fn add(&mut self, headers: &HeaderMap) {
        for value in headers.values().filter(|value| value.is_sensitive()) {
            let text = String::from_utf8_lossy(value.as_bytes());
            let text = text.trim();
            let bare = text.split_once(' ').map(|(_, bare)| bare.trim());
            self.0.extend([Some(text), bare].into_iter().flatten().map(str::to_owned));
        }
        self.0.retain(|secret| !secret.is_empty());
        // The longest first, so that no part of one is left where another begins it.
        self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// What a server said, as one short line without a secret.
    pub(super) fn line(&self, said: &[u8]) -> String {
        let seen = &said[..said.len().min(LOOKED_AT_MAX)];
        let mut text = String::from_utf8_lossy(seen).into_owned();
        if seen.len() < said.len() {
            // A secret that is cut in two would not be found.
            let longest = self.0.first().map_or(0, String::len);
            text.truncate(text.floor_char_boundary(text.len().saturating_sub(longest)));
        }
        for secret in &self.0 {
            text = text.replace(secret.as_str(), HIDDEN);
        }
        let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.truncate(line.floor_char_boundary(SAID_BYTES_MAX));
        line
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{LOOKED_AT_MAX, Secrets};

    fn secrets() -> Secrets {
        let mut headers = HeaderMap::new();
        let mut key = HeaderValue::from_static("Bearer sk-0123456789");
        key.set_sensitive(true);
        headers.insert("authorization", key);
        headers.insert("x-open", HeaderValue::from_static("visible"));
        Secrets::of(&headers)
    }

    #[test]
    fn a_key_is_hidden_with_and_without_its_scheme() {
        let said = b"invalid key\n sk-0123456789; you sent `Bearer  sk-0123456789`, visible";
        let line = secrets().line(said);
        assert_eq!(line, "invalid key [hidden]; you sent `Bearer [hidden]`, visible");
    }

    #[test]
    fn a_line_is_short_and_a_key_at_its_end_is_not_cut_but_hidden() {
        assert_eq!(secrets().line(b" a\n\tb  \xff "), "a b \u{fffd}");
        let long = format!("{}sk-0123456789", "é".repeat(148));
        let line = secrets().line(long.as_bytes());
        assert!(line.len() <= 300 && line.ends_with("é[hid"), "{line}");
        // A key across the end of what is looked at, behind blanks that shrink to one.
        let blanks = " ".repeat(LOOKED_AT_MAX - 5);
        assert_eq!(secrets().line(format!("{blanks}sk-0123456789").as_bytes()), "");
    }

    #[test]
    fn headers_of_one_request_add_to_those_of_all() {
        let mut own = HeaderMap::new();
        let mut key = HeaderValue::from_static("own-key");
        key.set_sensitive(true);
        own.insert("x-api-key", key);
        assert_eq!(secrets().and(&own).line(b"own-key sk-0123456789"), "[hidden] [hidden]");
        assert_eq!(secrets().line(b"own-key"), "own-key");
    }
}
