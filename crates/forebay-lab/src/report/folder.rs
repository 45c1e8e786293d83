//! Writes a folder of files, all of it or nothing, and never over anything but an older report.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::whole_file::followed;

/// The file that marks a folder as a report.
pub(super) const MARKER: &str = "report.json";
/// What the marker of a simulated drill's report says it is.
pub(super) const KIND: &str = "forebay drill report";
/// What that of a report of live results says.
pub(super) const KIND_LIVE: &str = "forebay live report";

/// What that of a live drill says, whose folder holds its runs and is never replaced.
pub(super) const KIND_DRILL: &str = "forebay live drill";

/// What that of a search for a capacity says, whose folder holds its runs.
pub(super) const KIND_CAPACITY: &str = "forebay capacity";

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Something else is there.
    #[error(
        "{}: exists and is not a report of forebay\nhint: name a new folder with --out; only an \
         older report is ever replaced",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A signed report is there, and the new one has no sign-off.
    #[error(
        "{}: is a report with a sign-off, and the new one has none\nhint: name a new folder with \
         --out, or give --sign-off",
        .0.display()
    )]
    Signed(PathBuf),
    /// The place has no name of its own, such as `/` or `..`.
    #[error(
        "{}: is no name for a folder\nhint: name a new folder with --out, such as report",
        .0.display()
    )]
    Nameless(PathBuf),
    /// The place can't be written.
    #[error("{}: {said}\nhint: name a folder with --out that can be written", path.display())]
    Unwritable {
        /// The place.
        path: PathBuf,
        /// What the system said.
        said: io::Error,
    },
}

/// Finds out whether a report could be written there, before the work for it is done.
pub fn check(folder: &Path) -> Result<(), FolderError> {
    let folder = &followed(folder).map_err(unwritable(folder))?;
    refuse_foreign(folder)?;
    let partial = beside(folder, "partial")?;
    let made: Vec<&Path> =
        partial.ancestors().take_while(|at| !at.as_os_str().is_empty() && !at.exists()).collect();
    let tried = fs::create_dir_all(&partial);
    // The folder and those above it come with the report, or not at all.
    let mut made = made.into_iter().filter(|at| at.exists());
    let removed: io::Result<()> = made.try_for_each(fs::remove_dir);
    tried.and(removed).map_err(unwritable(folder))
}

/// Refuses to replace a report that has a sign-off: somebody may have signed its seal.
pub fn refuse_signed(folder: &Path) -> Result<(), FolderError> {
    let text = fs::read(folder.join(MARKER)).unwrap_or_default();
    let older: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let is_signed = older["kind"] == KIND_LIVE && older["service"].is_string();
    if is_signed { Err(FolderError::Signed(folder.to_owned())) } else { Ok(()) }
}

/// Writes the files to a temporary folder beside this one, which then takes its place.
pub(super) fn write(folder: &Path, files: &BTreeMap<String, String>) -> Result<(), FolderError> {
    // A link stays, and the folder it leads to is replaced.
    let folder = &followed(folder).map_err(unwritable(folder))?;
    refuse_foreign(folder)?;
    let partial = Removed(beside(folder, "partial")?);
    let replaced = Removed(beside(folder, "replaced")?);
    fs::create_dir_all(&partial.0).map_err(unwritable(folder))?;
    for (name, text) in files {
        let path = partial.0.join(name);
        fs::write(&path, text).map_err(unwritable(&folder.join(name)))?;
    }
    take_place(&partial.0, folder, &replaced.0)
}

/// Gives a folder the place of another, which is moved away.
fn take_place(partial: &Path, folder: &Path, replaced: &Path) -> Result<(), FolderError> {
    if folder.exists() {
        fs::rename(folder, replaced).map_err(unwritable(folder))?;
    }
    fs::rename(partial, folder).map_err(|said| {
        // Puts the older report back; if that fails too, the first failure is the one to tell.
        let _ = fs::rename(replaced, folder);
        FolderError::Unwritable { path: folder.to_owned(), said }
    })
}

/// A folder that fills while something runs, under a temporary name beside its own, and takes the
/// place of an older one when all of it is there. What was begun and not finished stays under the
/// temporary name if anything is in it: runs are what a search costs.
#[derive(Debug)]
pub struct Growing {
    folder: PathBuf,
    part: PathBuf,
    is_finished: bool,
}

impl Growing {
    /// Begins it. What is there under its name stays until it is finished.
    pub fn create(named: &Path) -> Result<Self, FolderError> {
        check(named)?;
        let folder = followed(named).map_err(unwritable(named))?;
        let part = beside(&folder, "part")?;
        fs::create_dir_all(&part).map_err(unwritable(&part))?;
        Ok(Self { folder, part, is_finished: false })
    }

    /// Where its files are put until it is finished.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Gives it its name.
    pub(super) fn finish(mut self) -> Result<(), FolderError> {
        refuse_foreign(&self.folder)?;
        let replaced = Removed(beside(&self.folder, "replaced")?);
        take_place(&self.part, &self.folder, &replaced.0)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if !self.is_finished {
            // Only an empty folder can be removed like this.
            let _ = fs::remove_dir(&self.part);
        }
    }
}

/// A path whose folder goes away with it, whatever happens.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Nothing is there after success, and after a failure that failure is what matters.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A hidden folder in the same parent, so that a rename is all that is needed in the end.
fn beside(folder: &Path, what: &str) -> Result<PathBuf, FolderError> {
    let Some(name) = folder.file_name() else {
        return Err(FolderError::Nameless(folder.to_owned()));
    };
    let name = name.to_string_lossy();
    Ok(folder.with_file_name(format!(".{name}.{what}-{}", process::id())))
}

fn refuse_foreign(folder: &Path) -> Result<(), FolderError> {
    let foreign = || FolderError::Foreign(folder.to_owned());
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            let is_marked =
                |text: &str, kind: &str| text.contains(&format!("\"kind\": \"{kind}\""));
            let replaced = [KIND, KIND_LIVE, KIND_CAPACITY];
            let ours = fs::read_to_string(folder.join(MARKER))
                .is_ok_and(|text| replaced.iter().any(|kind| is_marked(&text, kind)));
            if ours || entries.next().is_none() { Ok(()) } else { Err(foreign()) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory && folder.exists() => {
            Err(foreign())
        }
        Err(said) => Err(unwritable(folder)(said)),
    }
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    |said| FolderError::Unwritable { path, said }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{FolderError, Growing, KIND, KIND_LIVE, MARKER, check, refuse_signed, write};

    /// An empty folder of this test's own.
    fn scratch(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("forebay-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        root
    }

    fn report(word: &str) -> BTreeMap<String, String> {
        let marker = format!("{{\n  \"kind\": \"{KIND}\"\n}}\n");
        let files = [(MARKER, marker), ("index.html", word.to_owned())];
        files.map(|(name, text)| (name.to_owned(), text)).into()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_older_report_is_replaced_whole_and_nothing_is_left_beside_it() {
        let root = scratch("replaced");
        let folder = root.join("deep/report");
        write(&folder, &report("old")).unwrap();
        fs::write(folder.join("extra.svg"), "old").unwrap();
        check(&folder).unwrap();
        write(&folder, &report("new")).unwrap();
        assert_eq!(names(&folder), ["index.html", "report.json"]);
        assert_eq!(fs::read_to_string(folder.join("index.html")).unwrap(), "new");
        assert_eq!(names(&root.join("deep")), ["report"]);
    }

    #[test]
    fn what_is_not_a_report_is_left_alone() {
        let root = scratch("foreign");
        fs::write(root.join("thesis.tex"), "years of work").unwrap();
        fs::write(root.join("file"), "").unwrap();
        for place in [root.clone(), root.join("file")] {
            assert!(matches!(check(&place), Err(FolderError::Foreign(_))), "{}", place.display());
            assert!(matches!(write(&place, &report("x")), Err(FolderError::Foreign(_))));
        }
        assert_eq!(names(&root), ["file", "thesis.tex"]);
    }

    #[test]
    fn a_signed_report_gives_way_to_a_signed_one_only() {
        let folder = scratch("signed");
        let marked = |service: &str| {
            let text = format!(r#"{{"kind": "{KIND_LIVE}", "service": {service}}}"#);
            fs::write(folder.join(MARKER), text).unwrap();
            refuse_signed(&folder)
        };
        assert!(marked("null").is_ok());
        let told = marked("\"Chat\"").unwrap_err().to_string();
        assert!(told.contains("with a sign-off, and the new one has none\nhint: "), "{told}");
        fs::remove_file(folder.join(MARKER)).unwrap();
        assert!(refuse_signed(&folder).is_ok());
    }

    #[test]
    fn trying_a_place_leaves_nothing_behind() {
        let root = scratch("tried");
        check(&root.join("new/deeper/report")).unwrap();
        assert!(names(&root).is_empty(), "{:?}", names(&root));
    }

    #[test]
    fn a_folder_that_grows_takes_its_place_only_when_it_is_whole() {
        let root = scratch("growing");
        write(&root.join("report"), &report("old")).unwrap();
        drop(Growing::create(&root.join("report")).unwrap());
        assert_eq!(names(&root), ["report"]);
        let growing = Growing::create(&root.join("report")).unwrap();
        fs::create_dir(growing.part().join("run-001")).unwrap();
        drop(growing);
        assert_eq!(names(&root).len(), 2, "what was measured stays");
        let growing = Growing::create(&root.join("report")).unwrap();
        assert!(root.join("report/index.html").exists());
        growing.finish().unwrap();
        assert_eq!(
            (names(&root), names(&root.join("report"))),
            (vec!["report".into()], vec!["run-001".to_owned()])
        );
        fs::write(root.join("file"), "").unwrap();
        assert!(Growing::create(&root.join("file")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_report_stays_a_link() {
        let root = scratch("link");
        write(&root.join("report"), &report("old")).unwrap();
        std::os::unix::fs::symlink("report", root.join("latest")).unwrap();
        check(&root.join("latest")).unwrap();
        write(&root.join("latest"), &report("new")).unwrap();
        assert!(root.join("latest").is_symlink());
        assert_eq!(fs::read_to_string(root.join("report/index.html")).unwrap(), "new");
        assert_eq!(names(&root), ["latest", "report"]);
    }

    #[test]
    fn an_empty_folder_is_taken() {
        let root = scratch("empty");
        write(&root, &report("new")).unwrap();
        assert_eq!(names(&root), ["index.html", "report.json"]);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_with_a_remedy_and_leaves_nothing() {
        let root = scratch("unwritable");
        fs::write(root.join("file"), "").unwrap();
        for place in [root.join("file/report"), PathBuf::from("/"), PathBuf::from("..")] {
            let error = check(&place).unwrap_err().to_string();
            assert!(error.contains("hint: "), "{error}");
        }
        // A name that no file system takes fails while writing, after the temporary folder was
        // made.
        let mut files = report("x");
        files.insert("no/such/folder".to_owned(), String::new());
        assert!(write(&root.join("report"), &files).is_err());
        assert_eq!(names(&root), ["file"]);
    }
}
