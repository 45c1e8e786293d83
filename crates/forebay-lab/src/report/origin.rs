//! Says what a report was made of: the program, the command, the files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// What a report says of how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The command that repeats it.
    pub command: String,
    /// What was installed: the package's version, and its commit where the build knew it.
    pub version: String,
    /// Files that were read, and the SHA-256 of each, in the order of the command.
    pub inputs: Vec<(String, String)>,
}

impl Origin {
    /// Of a command in words, with the files that it read. Paths are shortened to names: where a file lay on
    /// one machine says nothing on another, its hash says what it was.
    pub fn of(words: &[String], files: &[&Path]) -> io::Result<Self> {
        let inputs = files.iter().map(|path| {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            Ok((name.into_owned(), sha256_file(path)?))
        });
        Ok(Self {
            command: words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            version: version(),
            inputs: inputs.collect::<io::Result<_>>()?,
        })
    }
}

/// The package's version, and its commit where `FOREBAY_COMMIT` was set when it was built.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("FOREBAY_COMMIT") {
        Some(commit) => format!("forebay {version}, commit {commit}"),
        None => format!("forebay {version}"),
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The SHA-256 of a file in hexadecimal, read piece by piece: traces can be larger than memory.
fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            length => hash.update(&piece[..length]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::{Origin, quoted};

    #[test]
    fn a_shell_reads_words_back() {
        assert_eq!(quoted("kv:dynamo-1.2"), "kv:dynamo-1.2");
        assert_eq!(quoted("it's here"), r"'it'\''s here'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_file_is_named_without_its_folder_and_with_its_hash() {
        let path = std::env::temp_dir().join(format!("forebay-{}-origin", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        let origin = Origin::of(&["forebay".to_owned()], &[&path]).unwrap();
        let (name, hash) = &origin.inputs[0];
        assert_eq!(name.as_str(), path.file_name().unwrap());
        // The first vector of FIPS 180-4.
        assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(Origin::of(&[], &[std::path::Path::new("/no/such/file")]).is_err());
    }
}
