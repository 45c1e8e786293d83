//! Finds the scripts beside the repository, and what they have installed.

use std::env;
use std::path::{Path, PathBuf};

use crate::workspace::Workspace;

/// Folders outside of the repository.
pub(super) struct Places {
    /// Scripts and data that the projects around this one share.
    shared: PathBuf,
    /// Where the routers of others are installed.
    peers: PathBuf,
    /// Where real engines are installed.
    engines: PathBuf,
}

impl Places {
    /// `FOREBAY_SHARED`, or `../shared` beside the workspace; `PEERS_DIR` and `ENG` as the scripts
    /// themselves read them, or `~/peers` and `~/engines`.
    pub(super) fn find(workspace: &Workspace) -> Self {
        let named = |name| env::var_os(name).map(PathBuf::from);
        let home = named("HOME").unwrap_or_default();
        Self {
            shared: named("FOREBAY_SHARED").unwrap_or_else(|| workspace.path("../shared")),
            peers: named("PEERS_DIR").unwrap_or_else(|| home.join("peers")),
            engines: named("ENG").unwrap_or_else(|| home.join("engines")),
        }
    }

    /// A file or folder that is shared, if it is there.
    pub(super) fn shared(&self, name: &str) -> Result<PathBuf, String> {
        existing(self.shared.join(name), "`../shared` beside the workspace, or FOREBAY_SHARED")
    }

    /// A file of a router's installation, if it is there.
    pub(super) fn peer(&self, name: &str) -> Result<PathBuf, String> {
        existing(self.peers.join(name), "what `../shared/peers/install.sh` installs")
    }

    /// A file of an engine's installation, if it is there.
    pub(super) fn engine(&self, name: &str) -> Result<PathBuf, String> {
        existing(self.engines.join(name), "what `../shared/engines/install_vllm.sh` installs")
    }

    /// The folder of the engines' installation.
    pub(super) fn engines(&self) -> &Path {
        &self.engines
    }
}

fn existing(path: PathBuf, wanted: &str) -> Result<PathBuf, String> {
    if path.exists() {
        return Ok(path);
    }
    Err(format!("{} is not there; it is {wanted}", path.display()))
}
