//! Holds a report's folder to the hashes of its manifest: nothing changed, lost or put in since.
//!
//! Whoever can change a file can change the manifest too. So the manifest's own hash, the *seal*,
//! is what goes beside a signature, on paper or in a ticket: it is of one report only.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::folder::{KIND, KIND_CAPACITY, KIND_DRILL, KIND_LIVE, MARKER};
use crate::drill::digest;

/// What a folder came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The SHA-256 of `report.json`, in hexadecimal.
    pub seal: String,
    /// How many files the manifest names.
    pub files: usize,
    /// Files that are not what they were.
    pub changed: Vec<String>,
    /// Files that are not there any more.
    pub missing: Vec<String>,
    /// What was not there when the report was written.
    pub added: Vec<String>,
}

impl Verified {
    /// Whether all is as it was.
    pub fn holds(&self) -> bool {
        self.changed.is_empty() && self.missing.is_empty() && self.added.is_empty()
    }

    /// A line for each file that is not as it was.
    pub fn faults(&self) -> Vec<String> {
        let lines = |what: &str, names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("{what}: {name}")).collect()
        };
        let all = [("changed", &self.changed), ("missing", &self.missing), ("added", &self.added)];
        all.into_iter().flat_map(|(what, names)| lines(what, names)).collect()
    }
}

/// Why a folder cannot be verified: it is no report, or can't be read.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It is no report.
    #[error(
        "{}: {what}\nhint: name a folder that `forebay report` or `forebay drill` wrote",
        .folder.display()
    )]
    NoReport {
        /// The folder.
        folder: PathBuf,
        /// What says so.
        what: String,
    },
    /// A file can't be read.
    #[error("{}: {said}\nhint: see that it may be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        said: io::Error,
    },
}

#[derive(Deserialize)]
struct Manifest {
    kind: String,
    files: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    sha256: String,
}

/// Compares the folder with its manifest.
pub fn verify(folder: &Path) -> Result<Verified, VerifyError> {
    let no_report = |what: String| VerifyError::NoReport { folder: folder.to_owned(), what };
    let marker = folder.join(MARKER);
    let text = fs::read(&marker).map_err(|said| match said.kind() {
        io::ErrorKind::NotFound => no_report(format!("there is no {MARKER}")),
        io::ErrorKind::NotADirectory => no_report("it is no folder".to_owned()),
        _ => VerifyError::Unreadable { path: marker.clone(), said },
    })?;
    let manifest: Manifest = serde_json::from_slice(&text)
        .map_err(|error| no_report(format!("its {MARKER} is no manifest: {error}")))?;
    if ![KIND, KIND_LIVE, KIND_DRILL, KIND_CAPACITY].contains(&manifest.kind.as_str()) {
        return Err(no_report(format!("its {MARKER} is of another kind")));
    }
    // A name that leads out of the folder is none of ours.
    if let Some(odd) = manifest.files.iter().find(|file| !is_within(&file.name)) {
        return Err(no_report(format!("its {MARKER} names {:?}", odd.name)));
    }
    let seal = digest::of_bytes(&text);
    let mut verified = Verified { seal, files: manifest.files.len(), ..Verified::default() };
    for file in &manifest.files {
        let path = folder.join(&file.name);
        match digest::of_file(&path) {
            Ok(hash) if hash == file.sha256 => {}
            Ok(_) => verified.changed.push(file.name.clone()),
            Err(said) if said.kind() == io::ErrorKind::NotFound => {
                verified.missing.push(file.name.clone());
            }
            // What is a folder now is no longer the file that it was, and the other way round.
            Err(said) if said.kind() == io::ErrorKind::IsADirectory => {
                verified.changed.push(file.name.clone());
            }
            Err(said) if said.kind() == io::ErrorKind::NotADirectory => {
                verified.missing.push(file.name.clone());
            }
            Err(said) => return Err(VerifyError::Unreadable { path, said }),
        }
    }
    let known: BTreeSet<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    verified.added = others(folder, &known)?;
    Ok(verified)
}

fn is_within(name: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    name.split('/').all(is_plain) && !name.contains('\\')
}

/// What lies in the folder beside its manifest and the files that it names: files, and folders in
/// which something lies and nothing is named.
fn others(folder: &Path, known: &BTreeSet<&str>) -> Result<Vec<String>, VerifyError> {
    let mut others = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(within) = folders.pop() {
        let at = folder.join(&within);
        let unreadable = |said| VerifyError::Unreadable { path: at.clone(), said };
        for entry in fs::read_dir(&at).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = format!("{within}{}", entry.file_name().to_string_lossy());
            // A link is not followed: it is no file that was written here.
            let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
            let below = format!("{name}/");
            let is_known = known.range(below.as_str()..).next();
            if is_folder && is_known.is_some_and(|next| next.starts_with(&below)) {
                folders.push(below);
            } else if name != MARKER && !known.contains(name.as_str()) {
                // An empty folder says nothing; a drill without commands has one for logs.
                let is_empty =
                    || fs::read_dir(entry.path()).is_ok_and(|mut it| it.next().is_none());
                if !is_folder || !is_empty() {
                    others.push(name);
                }
            }
        }
    }
    others.sort();
    Ok(others)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::super::{Origin, write};
    use super::{VerifyError, verify};
    use crate::drill::{ARMS, fake};

    /// A report of a simulated drill in a folder of this test's own.
    fn report(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("forebay-{}-verify-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let origin =
            Origin { words: Vec::new(), version: "forebay 0.1.0".to_owned(), inputs: Vec::new() };
        write(&fake::drill(&[2], 1, &ARMS[..2]), &origin, &folder).unwrap();
        folder
    }

    #[test]
    fn a_report_is_as_it_was_until_somebody_changes_loses_or_adds_a_file() {
        let folder = report("changed");
        let whole = verify(&folder).unwrap();
        assert!(whole.holds() && whole.files >= 4 && whole.seal.len() == 64, "{whole:?}");
        let page = folder.join("index.html");
        let text = fs::read_to_string(&page).unwrap();
        fs::write(&page, text.replace("GO", "go")).unwrap();
        fs::remove_file(folder.join("criteria.toml")).unwrap();
        fs::write(folder.join("note.txt"), "I was never here").unwrap();
        let found = verify(&folder).unwrap();
        assert!(!found.holds());
        assert_eq!(
            found.faults(),
            ["changed: index.html", "missing: criteria.toml", "added: note.txt"]
        );
        assert_eq!(found.seal, whole.seal);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_manifest_that_was_mended_has_another_seal() {
        let folder = report("mended");
        let before = verify(&folder).unwrap();
        let marker = folder.join("report.json");
        let text = fs::read_to_string(&marker).unwrap();
        fs::write(&marker, text.replace("NO-GO", "GO")).unwrap();
        let after = verify(&folder).unwrap();
        assert!(after.holds());
        assert_ne!(after.seal, before.seal);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_report_is_told_with_a_remedy() {
        let folder = report("none");
        let told = |text: Option<&str>| {
            match text {
                Some(text) => fs::write(folder.join("report.json"), text).unwrap(),
                None => fs::remove_file(folder.join("report.json")).unwrap(),
            }
            let error = verify(&folder).unwrap_err();
            assert!(matches!(error, VerifyError::NoReport { .. }));
            let said = error.to_string();
            assert!(said.contains("\nhint: "), "{said}");
            said
        };
        assert!(told(Some("{}")).contains("is no manifest"));
        let other = r#"{"kind": "invoice", "files": []}"#;
        assert!(told(Some(other)).contains("of another kind"));
        let outside = r#"{"kind": "forebay drill report",
            "files": [{"name": "../secret", "sha256": ""}]}"#;
        assert!(told(Some(outside)).contains(r#"names "../secret""#));
        assert!(told(None).contains("there is no report.json"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
