//! Says what a report was made of: the program, the command, the files.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::drill::digest;

/// What a report says of how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The words of the command that repeats it, as a shell reads them.
    pub words: Vec<String>,
    /// What was installed: the package's version, and its commit where the build knew it.
    pub version: String,
    /// Files that were read, and the SHA-256 of each, in the order of the command.
    pub inputs: Vec<(String, String)>,
}

impl Origin {
    /// Of a command in words, with the files that it read. Paths are shortened to names: where a
    /// file lay on one machine says nothing on another, its hash says what it was.
    pub fn of(words: &[String], files: &[&Path]) -> io::Result<Self> {
        let name_of = |path: &Path| path.file_name().map(OsStr::to_os_string);
        let inputs = files.iter().map(|path| {
            // Files of one name, as those of several runs, are told apart by their folders.
            let alike = files.iter().filter(|other| name_of(other) == name_of(path)).count();
            let folder = path.parent().and_then(name_of).filter(|_| alike > 1);
            let name = path.file_name().unwrap_or(path.as_os_str());
            let name = match folder {
                Some(folder) => Path::new(&folder).join(name).to_string_lossy().into_owned(),
                None => name.to_string_lossy().into_owned(),
            };
            let hash = digest::of_file(path).map_err(|error| {
                let what =
                    format!("{}: {error}\nhint: name a file that may be read", path.display());
                io::Error::new(error.kind(), what)
            })?;
            Ok((name, hash))
        });
        Ok(Self {
            words: words.iter().map(|word| quoted(word)).collect(),
            version: version(),
            inputs: inputs.collect::<io::Result<_>>()?,
        })
    }
}

impl Origin {
    /// The command on one line.
    pub fn command(&self) -> String {
        self.words.join(" ")
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
        let twice = Origin::of(&[], &[&path, &path]).unwrap();
        assert!(twice.inputs[0].0.ends_with(&format!("/{name}")), "{twice:?}");
        assert!(Origin::of(&[], &[std::path::Path::new("/no/such/file")]).is_err());
    }
}
