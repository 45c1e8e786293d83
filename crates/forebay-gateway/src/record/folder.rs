//! Names recordings, and removes the oldest when there are too many bytes of them.

use std::fs;
use std::io;
use std::path::Path;

/// How names of recordings end, of whole ones and of those that are being written or were left by a
/// crash.
const ENDINGS: [&str; 2] = [".rec", ".rec.part"];
/// Digits of the moment at the beginning of a name, so that names are in the order of time.
const DIGITS: usize = 13;

/// The name of a pool's recording, of a run that began at this many milliseconds after 1970.
pub(super) fn file_name(began: u64, nth: usize, pool: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' };
    let pool: String = pool.chars().take(64).map(plain).collect();
    format!("{began:013}-{nth}-{pool}.rec")
}

/// Makes the folder, and removes the oldest recordings until the rest have at most so many bytes.
/// Other files stay.
pub(super) fn prune(folder: &Path, bytes_max: u64) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let meta = entry.metadata()?;
        if is_ours(&name) && meta.is_file() {
            files.push((name, meta.len()));
        }
    }
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, len)| len).sum();
    for (name, len) in files {
        if bytes <= bytes_max {
            break;
        }
        fs::remove_file(folder.join(&name))?;
        tracing::info!(name, "an old recording was removed to make room");
        bytes -= len;
    }
    Ok(())
}

/// Whether a file's name is one that [`file_name`] gives.
fn is_ours(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits == DIGITS
        && name.as_bytes().get(digits) == Some(&b'-')
        && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::{file_name, is_ours};

    #[test]
    fn names_sort_by_time_and_hold_nothing_that_a_path_could_mean() {
        let early = file_name(1_764_000_000_000, 0, "../a b/ü");
        assert_eq!(early, "1764000000000-0-___a_b__.rec");
        assert!(early < file_name(1_764_000_000_001, 0, "a"));
        assert!(is_ours(&early) && is_ours(&format!("{early}.part")));
        assert!(!is_ours("1764000000000-notes.txt") && !is_ours("run.rec"));
    }
}
