//! Reads a file of text that a person has written.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The longest text that is read. A device without an end must not fill the memory.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;

/// A file that can't be read as text: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}\nhint: {remedy}", file.display())]
pub struct UnreadableFile {
    /// The file.
    pub file: PathBuf,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// The text of a file.
pub fn read(file: &Path) -> Result<String, UnreadableFile> {
    let unreadable = |what: &str, remedy: &str| UnreadableFile {
        file: file.to_owned(),
        what: what.to_owned(),
        remedy: remedy.to_owned(),
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => unreadable("there is no such file", "name one that exists"),
        io::ErrorKind::IsADirectory => unreadable("it is a folder", "name a file in it"),
        _ => unreadable(&error.to_string(), "see that the file may be read"),
    };
    let mut bytes = Vec::new();
    let mut bounded = File::open(file).map_err(failed)?.take(TEXT_BYTES_MAX + 1);
    bounded.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let what = format!("it is longer than {} MiB", TEXT_BYTES_MAX >> 20);
        return Err(unreadable(&what, "name a file that a person wrote"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        // A whole number of lines, and the beginning of the one at fault.
        let line = good.split(|&byte| byte == b'\n').count();
        unreadable(&format!("line {line} is not UTF-8 text"), "save the file as UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::read;

    #[test]
    fn what_is_no_text_is_told_from_what_is_not_there() {
        let folder = std::env::temp_dir().join(format!("forebay-text-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file.toml");
        let told = || read(&file).unwrap_err().to_string();
        assert!(told().ends_with("there is no such file\nhint: name one that exists"));
        fs::write(&file, b"fine = 1\nodd = \"\xff\"\n").unwrap();
        assert!(told().ends_with("line 2 is not UTF-8 text\nhint: save the file as UTF-8"));
        fs::write(&file, "fine = 1\n").unwrap();
        assert_eq!(read(&file), Ok("fine = 1\n".to_owned()));
        assert!(read(&folder).unwrap_err().to_string().contains("it is a folder"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
