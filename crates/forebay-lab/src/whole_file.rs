//! Writes a file that appears under its name only once it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that can't be written: where, what, and what to do.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: {source}\nhint: name a file in a folder that exists and may be written",
    file.display()
)]
pub struct UnwritableFile {
    /// The file.
    pub file: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A file under a temporary name in the folder of the final one. Dropped before
/// [`WholeFile::finish`] it is removed, so nobody ever reads half of it.
#[derive(Debug)]
pub struct WholeFile {
    file: PathBuf,
    draft: PathBuf,
    /// `None` once it was finished.
    out: Option<BufWriter<File>>,
}

impl WholeFile {
    /// Begins the file. What was there under its name stays until it is finished.
    pub fn create(file: &Path) -> Result<Self, UnwritableFile> {
        let unwritable = |source| UnwritableFile { file: file.to_owned(), source };
        let Some(name) = file.file_name().filter(|_| !file.is_dir()) else {
            return Err(unwritable(io::Error::other("it is a folder")));
        };
        let mut draft = name.to_owned();
        draft.push(format!(".{}.part", std::process::id()));
        let draft = file.with_file_name(draft);
        let out = File::create(&draft).map_err(unwritable)?;
        Ok(Self { file: file.to_owned(), draft, out: Some(BufWriter::new(out)) })
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), UnwritableFile> {
        let written = match self.out.as_mut() {
            Some(out) => out.flush().and_then(|()| fs::rename(&self.draft, &self.file)),
            None => Ok(()),
        };
        written.map_err(|source| UnwritableFile { file: self.file.clone(), source })?;
        self.out = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.as_mut().map_or(Ok(0), |out| out.write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            // A draft that can't be removed is left behind under a name that says what it is.
            let _ = fs::remove_file(&self.draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::WholeFile;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("forebay-whole-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("rows.jsonl");
        let mut draft = WholeFile::create(&file).unwrap();
        draft.write_all(b"half").unwrap();
        drop(draft);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let mut draft = WholeFile::create(&file).unwrap();
        draft.write_all(b"whole").unwrap();
        assert!(!file.exists());
        draft.finish().unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"whole");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_and_a_missing_folder_are_refused_with_a_remedy() {
        let folder = std::env::temp_dir();
        assert!(WholeFile::create(&folder).unwrap_err().to_string().contains("it is a folder"));
        let missing = folder.join("no such folder").join("file");
        assert!(WholeFile::create(&missing).unwrap_err().to_string().contains("hint: "));
    }
}
