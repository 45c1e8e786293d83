//! Writes a file that appears under its name only once it is whole.
//!
//! What has no content of its own to lose is written to as it comes: a device, a pipe, a standard
//! stream. A symbolic link stays, and the file it leads to is replaced.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

/// Links that are followed from one to the next, as many as Linux follows.
const LINKS_MAX: u32 = 40;
/// As much of a file as tells what it is.
const HEAD_BYTES: u64 = 256;
/// Where a system keeps the names of a process's own open files.
const STREAMS: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

/// A file that can't be written: where, what, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}: {said}\nhint: name a file in a folder that exists and may be written", file.display())]
pub struct UnwritableFile {
    /// The file.
    pub file: PathBuf,
    /// What the system said.
    pub said: io::Error,
}

/// A file under a temporary name in the folder of the final one. Dropped before
/// [`WholeFile::finish`] it is removed, so nobody ever reads half of it.
#[derive(Debug)]
pub struct WholeFile {
    /// As it was named.
    named: PathBuf,
    /// `None` once it was finished.
    out: Option<BufWriter<File>>,
    /// What has to get its name yet; `None` where the bytes go straight to a device or pipe.
    draft: Option<Draft>,
}

/// A file under a temporary name.
#[derive(Debug)]
struct Draft {
    at: PathBuf,
    /// Where it belongs.
    file: PathBuf,
}

impl WholeFile {
    /// Begins the file. What was there under its name stays until it is finished.
    pub fn create(named: &Path) -> Result<Self, UnwritableFile> {
        let unwritable = |said| UnwritableFile { file: named.to_owned(), said };
        let (out, draft) = if is_stream(named) {
            // Appended to and never cut: what the program printed there before stays.
            (OpenOptions::new().append(true).open(named).map_err(unwritable)?, None)
        } else {
            let file = followed(named).map_err(unwritable)?;
            let at = draft_of(&file).map_err(unwritable)?;
            let out = File::create(&at).map_err(unwritable)?;
            let draft = Draft { at, file };
            draft.take_permissions();
            (out, Some(draft))
        };
        Ok(Self { named: named.to_owned(), out: Some(BufWriter::new(out)), draft })
    }

    /// Finds out whether the file could be written, and leaves nothing behind. A pipe is not
    /// opened: whoever reads it would take that for its end.
    pub fn check(named: &Path) -> Result<(), UnwritableFile> {
        if is_stream(named) { Ok(()) } else { Self::create(named).map(drop) }
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), UnwritableFile> {
        let flushed = self.out.as_mut().map_or(Ok(()), BufWriter::flush);
        let named = |()| self.draft.as_ref().map_or(Ok(()), |it| fs::rename(&it.at, &it.file));
        let written = flushed.and_then(named);
        written.map_err(|said| UnwritableFile { file: self.named.clone(), said })?;
        (self.out, self.draft) = (None, None);
        Ok(())
    }
}

impl Draft {
    /// A file that replaces another may be read and written by the same people.
    fn take_permissions(&self) {
        if let Ok(there) = fs::metadata(&self.file) {
            // A file system without permissions has none to keep.
            let _ = fs::set_permissions(&self.at, there.permissions());
        }
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
        if let Some(draft) = self.draft.take() {
            // A draft that can't be removed is left behind under a name that says what it is.
            let _ = fs::remove_file(draft.at);
        }
        if let Some(out) = self.out.take() {
            // What was given up is not to be flushed either, least of all into a pipe.
            let _ = out.into_parts();
        }
    }
}

/// Whether bytes go straight to what has this name: a device, a pipe, or a stream of this process.
pub fn is_stream(named: &Path) -> bool {
    STREAMS.iter().any(|place| named.starts_with(place))
        || fs::metadata(named).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// An output that is named twice, or that is an input as well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {option} would replace {other}\nhint: name another file", file.display())]
pub struct Clash {
    /// The file.
    pub file: PathBuf,
    /// Which output it is, as a word of the command line.
    pub option: &'static str,
    /// What it would replace.
    pub other: &'static str,
}

/// Refuses outputs that would replace each other, or an input. Whatever takes a stream of bytes
/// takes several.
pub fn apart(outputs: &[(&'static str, PathBuf)], inputs: &[&Path]) -> Result<(), Clash> {
    let files = outputs.iter().filter(|(_, file)| !is_stream(file));
    let files: Vec<(&'static str, &Path, PathBuf)> =
        files.map(|(option, file)| (*option, file.as_path(), identity(file))).collect();
    let inputs: Vec<PathBuf> = inputs.iter().map(|file| identity(file)).collect();
    for (nth, (option, file, is)) in files.iter().enumerate() {
        let clash = |other| Err(Clash { file: file.to_path_buf(), option, other });
        if inputs.contains(is) {
            return clash("a file that the run reads");
        }
        if let Some((other, ..)) = files[..nth].iter().find(|(_, _, earlier)| earlier == is) {
            return clash(other);
        }
    }
    Ok(())
}

/// A file that is there and is nothing that may be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: exists and is no {what} of forebay\nhint: name a new file; only an older one is ever \
         replaced", file.display())]
pub struct ForeignFile {
    /// The file.
    pub file: PathBuf,
    /// What it would have to be.
    pub what: &'static str,
}

/// Refuses to replace a file that does not begin as an older output of the same kind does: a
/// mistyped name is no reason to lose the rows of a run. An empty file and a stream may be written.
pub fn refuse_foreign(file: &Path, begins: &str, what: &'static str) -> Result<(), ForeignFile> {
    if is_stream(file) {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(file).and_then(|there| there.take(HEAD_BYTES).read_to_end(&mut head));
    // What can't be read fails where it is written to, with what the system says.
    let is_own = read.is_err() || head.is_empty() || head.starts_with(begins.as_bytes());
    if is_own { Ok(()) } else { Err(ForeignFile { file: file.to_owned(), what }) }
}

/// The same path for every way to name a file, as far as its folder is there.
fn identity(named: &Path) -> PathBuf {
    let file = followed(named).unwrap_or_else(|_| named.to_owned());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (fs::canonicalize(folder.unwrap_or(Path::new("."))), file.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => file,
    }
}

/// The file that a chain of symbolic links leads to, whether or not it is there.
pub(crate) fn followed(named: &Path) -> io::Result<PathBuf> {
    let mut file = named.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&file) {
            Ok(target) => file = file.parent().unwrap_or(Path::new("")).join(target),
            // It is no link, or not there.
            Err(_) => return Ok(file),
        }
    }
    Err(io::Error::other("its symbolic links lead round in a circle"))
}

/// A name beside the file's own, which tells what it is should it ever be left behind.
fn draft_of(file: &Path) -> io::Result<PathBuf> {
    let Some(name) = file.file_name().filter(|_| !file.is_dir()) else {
        return Err(io::Error::other("it is a folder"));
    };
    let mut draft = OsString::from(name);
    draft.push(format!(".{}.part", std::process::id()));
    Ok(file.with_file_name(draft))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::{Path, PathBuf};

    use super::{WholeFile, apart, refuse_foreign};

    /// An empty folder of this test's own.
    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("forebay-whole-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn written(file: &Path, text: &str) {
        let mut out = WholeFile::create(file).unwrap();
        out.write_all(text.as_bytes()).unwrap();
        out.finish().unwrap();
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = scratch("appears");
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
    fn only_an_older_file_of_the_same_kind_is_replaced() {
        let folder = scratch("foreign");
        let at = |name: &str, text: &str| {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            refuse_foreign(&file, "# Runbook", "runbook")
        };
        assert_eq!(at("old.md", "# Runbook\n\nIn which order"), Ok(()));
        assert_eq!(at("empty", ""), Ok(()));
        assert_eq!(refuse_foreign(&folder.join("none"), "# Runbook", "runbook"), Ok(()));
        assert_eq!(refuse_foreign(Path::new("/dev/null"), "# Runbook", "runbook"), Ok(()));
        let told = at("requests.jsonl", "{\"request\":0}\n").unwrap_err().to_string();
        assert!(told.contains("exists and is no runbook of forebay\nhint: name a new"), "{told}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_and_a_missing_folder_are_refused_with_a_remedy() {
        let folder = std::env::temp_dir();
        assert!(WholeFile::create(&folder).unwrap_err().to_string().contains("it is a folder"));
        let missing = folder.join("no such folder").join("file");
        assert!(WholeFile::create(&missing).unwrap_err().to_string().contains("hint: "));
    }

    #[cfg(unix)]
    #[test]
    fn outputs_that_are_one_file_by_any_name_are_refused() {
        let folder = scratch("apart");
        fs::create_dir(folder.join("deep")).unwrap();
        fs::write(folder.join("trace"), "").unwrap();
        std::os::unix::fs::symlink("trace", folder.join("link")).unwrap();
        let at = |name: &str| folder.join(name);
        let told = |outputs: &[(&'static str, PathBuf)], inputs: &[&Path]| {
            apart(outputs, inputs).unwrap_err().to_string()
        };
        assert_eq!(apart(&[("--a", at("x")), ("--b", at("y"))], &[&at("trace")]), Ok(()));
        let twice = told(&[("--a", at("x")), ("--b", at("deep/../x"))], &[]);
        assert!(twice.contains("--b would replace --a\nhint: "), "{twice}");
        let input = told(&[("--a", at("link"))], &[&at("trace")]);
        assert!(input.contains("--a would replace a file that the run reads"), "{input}");
        let null = PathBuf::from("/dev/null");
        assert_eq!(apart(&[("--a", null.clone()), ("--b", null)], &[]), Ok(()));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced_with_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = scratch("links");
        fs::create_dir(folder.join("deep")).unwrap();
        let target = folder.join("deep/target");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("deep/target", folder.join("first")).unwrap();
        symlink("first", folder.join("second")).unwrap();
        symlink("deep/new", folder.join("dangling")).unwrap();
        symlink("circle", folder.join("circle")).unwrap();
        written(&folder.join("second"), "new");
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(folder.join("first").is_symlink() && folder.join("second").is_symlink());
        written(&folder.join("dangling"), "made");
        assert_eq!(fs::read_to_string(folder.join("deep/new")).unwrap(), "made");
        let error = WholeFile::check(&folder.join("circle")).unwrap_err().to_string();
        assert!(error.contains("in a circle"), "{error}");
        assert_eq!(fs::read_dir(folder.join("deep")).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to_and_stays_a_device() {
        use std::os::unix::fs::FileTypeExt;
        let null = Path::new("/dev/null");
        WholeFile::check(null).unwrap();
        written(null, "gone");
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
        // Given up, it takes nothing along.
        drop(WholeFile::create(null).unwrap());
        assert!(null.exists());
    }
}
