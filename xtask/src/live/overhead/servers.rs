//! Builds and starts the two servers that answer at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::{PATH, PROBE};
use crate::live::ask::{free_port, is_well};
use crate::live::places::Places;
use crate::live::process::Running;
use crate::workspace::Workspace;

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(10);

/// Where the shared source looks for `stream`, at the end of a body. A router that writes bodies
/// anew puts it farther from the end, and would get an answer that is no stream.
const TAIL: &str = "body.len().saturating_sub(64)";
/// Far enough for all.
const LONG_TAIL: &str = "body.len().saturating_sub(1024)";

/// Two servers; they end with it.
pub(super) struct Servers {
    ports: [u16; 2],
    _running: [Running; 2],
}

impl Servers {
    /// Builds them unless they are built, and starts both.
    pub(super) fn start(workspace: &Workspace, places: &Places) -> anyhow::Result<Self> {
        let source = places.shared("peers/instant-server").map_err(anyhow::Error::msg)?;
        let program = build(workspace, &source).context("cannot build the instant servers")?;
        let start = |nth| {
            let port = free_port()?;
            let mut command = Command::new(&program);
            command.arg(port.to_string());
            let mut running = Running::start(workspace, &format!("instant {nth}"), command)?;
            running.wait_until(START_MAX, || is_well(port, "POST", PATH, PROBE))?;
            anyhow::Ok((port, running))
        };
        let [(one, first), (two, second)] = [start(1)?, start(2)?];
        Ok(Self { ports: [one, two], _running: [first, second] })
    }

    /// Their ports.
    pub(super) const fn ports(&self) -> [u16; 2] {
        self.ports
    }
}

/// Builds a copy below the target folder: the source is not ours to write a lock file into.
fn build(workspace: &Workspace, source: &Path) -> anyhow::Result<PathBuf> {
    let folder = workspace.target().join("xtask-live").join("instant-server");
    let program = folder.join("target/release/instant-server");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(folder.join("src"))?;
    fs::copy(source.join("Cargo.toml"), folder.join("Cargo.toml"))?;
    let text = fs::read_to_string(source.join("src/main.rs"))?;
    ensure!(text.contains(TAIL), "src/main.rs does not look for `stream` as it did");
    fs::write(folder.join("src/main.rs"), text.replace(TAIL, LONG_TAIL))?;
    let mut command = workspace.cargo(&["build", "--release", "--target-dir", "target"]);
    // The build is not ours: neither our target folder nor our settings are for it.
    command.current_dir(&folder).env_remove("CARGO_TARGET_DIR");
    Workspace::must(command)?;
    Ok(program)
}
