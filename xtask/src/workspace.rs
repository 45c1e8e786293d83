//! Finds the workspace, its tracked files and its tools.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

/// The workspace on disk.
pub(crate) struct Workspace {
    root: PathBuf,
}

/// One file that git tracks, or would if it were added.
pub(crate) struct Source {
    /// Its path from the root, with `/` between the parts.
    pub(crate) path: String,
    /// Its size in bytes.
    pub(crate) len: u64,
    /// Its text; `None` where it is not UTF-8.
    pub(crate) text: Option<String>,
}

impl Source {
    /// What its name ends with after the last dot.
    pub(crate) fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

impl Workspace {
    /// The workspace that this program was built from.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .context("CARGO_MANIFEST_DIR is not set\nhint: run it as `cargo xtask`")?;
        let root = Path::new(&manifest).parent().context("xtask lies at the root of the disk")?;
        Ok(Self { root: root.to_owned() })
    }

    /// The full path of a file named from the root.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The text of a file named from the root.
    pub(crate) fn read(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.path(name)).with_context(|| format!("cannot read {name}"))
    }

    /// Writes a file named from the root: whole, or not at all.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(name);
        let draft = path.with_extension("draft");
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder of {name}"))?;
        }
        fs::write(&draft, text).with_context(|| format!("cannot write {name}"))?;
        fs::rename(&draft, &path).with_context(|| format!("cannot write {name}"))
    }

    /// A cargo command at the root, by the same cargo that runs this program.
    pub(crate) fn cargo(&self, words: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.args(words).current_dir(&self.root).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end with its output visible; an exit code other than 0 is an error.
    pub(crate) fn must(mut command: Command) -> anyhow::Result<()> {
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(status.success(), "{command:?}: {status}");
        Ok(())
    }

    /// Where cargo puts what it builds.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.path("target"), PathBuf::from)
    }

    /// Every file that git tracks or would track, in the order of the paths.
    pub(crate) fn sources(&self) -> anyhow::Result<Vec<Source>> {
        // A clone made by another user is no danger here: git only lists names.
        let words = ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"];
        let listed = Command::new("git")
            .args(words)
            .arg("--exclude-standard")
            .current_dir(&self.root)
            .output()
            .context("cannot run git, which lists the files to check")?;
        if !listed.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
        }
        let mut paths: Vec<String> = String::from_utf8(listed.stdout)
            .context("a tracked file's name is not UTF-8")?
            .split_terminator('\0')
            .map(str::to_owned)
            .collect();
        paths.sort();
        paths.dedup();
        // A file that is deleted but not yet committed is still listed, and there is nothing to
        // check in it.
        paths.retain(|path| self.path(path).is_file());
        paths.into_iter().map(|path| self.source(path)).collect()
    }

    fn source(&self, path: String) -> anyhow::Result<Source> {
        let bytes = fs::read(self.path(&path)).with_context(|| format!("cannot read {path}"))?;
        Ok(Source { path, len: bytes.len() as u64, text: String::from_utf8(bytes).ok() })
    }
}
