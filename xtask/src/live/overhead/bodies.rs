//! Makes bodies of the same kinds as the shared script's.

use forebay_core::Rng;
use serde_json::json;

/// The kinds, by the script's names: the size, and whether the answer is a stream.
pub(super) const KINDS: [&str; 6] = ["1k_0", "1k_1", "32k_0", "32k_1", "220k_0", "220k_1"];
/// The same in words.
pub(super) const TITLES: [&str; 6] =
    ["1 KB", "1 KB stream", "32 KB", "32 KB stream", "220 KB", "220 KB stream"];
/// Bytes of text of each kind.
const BYTES: [usize; 6] = [700, 700, 32_000, 32_000, 220_000, 220_000];
/// Different bodies of a kind. A router that keys on the whole body gains nothing from so many.
const BODIES: usize = 64;
/// Letters of a word, the space included.
const WORD: usize = 6;

/// Bodies of one kind, half of them with the same first three quarters.
pub(super) fn of_kind(kind: usize) -> Vec<String> {
    let words = BYTES[kind] / WORD;
    let mut rng = Rng::new(kind as u64 / 2);
    let shared = text(&mut rng, words * 3 / 4);
    let body = |nth| {
        let own = text(&mut rng, if nth % 2 == 1 { words - words * 3 / 4 } else { words });
        let content = if nth % 2 == 1 { format!("{shared}{own}") } else { own };
        let message = json!([{"role": "user", "content": content}]);
        let stream = if kind % 2 == 1 { ",\"stream\":true" } else { "" };
        // The servers look for `stream` at the end of a body, where a map's order won't put it.
        format!("{{\"model\":\"m\",\"messages\":{message},\"max_tokens\":16{stream}}}")
    };
    (0..BODIES).map(body).collect()
}

fn text(rng: &mut Rng, words: usize) -> String {
    let mut text = String::with_capacity(words * WORD);
    for _ in 0..words {
        text.extend((1..WORD).map(|_| char::from(b'a' + rng.below(26) as u8)));
        text.push(' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{BYTES, KINDS, of_kind};

    #[test]
    fn bodies_have_their_size_and_half_of_them_share_a_prefix() {
        for (kind, bytes) in BYTES.into_iter().enumerate() {
            let bodies = of_kind(kind);
            let fits = |body: &String| body.len() > bytes - 6 && body.len() < bytes + 120;
            assert!(bodies.iter().all(fits), "{}", KINDS[kind]);
            assert_eq!(bodies[1][..bytes * 2 / 3], bodies[3][..bytes * 2 / 3]);
            assert_ne!(bodies[0][..bytes / 2], bodies[2][..bytes / 2]);
            assert_eq!(bodies[0].ends_with("\"stream\":true}"), kind % 2 == 1);
            assert!(serde_json::from_str::<serde_json::Value>(&bodies[1]).is_ok());
        }
    }
}
