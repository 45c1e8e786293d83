//! Knows the command line of each router that is measured.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::ask::{free_port, is_well};
use super::places::Places;
use super::process::Running;
use crate::workspace::Workspace;

/// How long a router may take until it serves. Those of others look at their workers first.
const READY_MAX: Duration = Duration::from_mins(1);

/// One router in one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arm {
    /// The name in tables.
    pub(super) name: &'static str,
    router: Router,
    mode: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Router {
    Forebay,
    Vllm,
    Smg,
    Sglang,
}

const fn arm(name: &'static str, router: Router, mode: &'static str) -> Arm {
    Arm { name, router, mode }
}

/// `forebay serve` as it is by default.
pub(super) const HOLD: Arm = arm("forebay hold", Router::Forebay, "hold");
/// `forebay serve` that only passes requests around.
pub(super) const ROUND_ROBIN: Arm = arm("forebay round-robin", Router::Forebay, "round-robin");
/// The routers of others that know prefixes.
pub(super) const VLLM_CACHE_AWARE: Arm =
    arm("vllm-router cache_aware", Router::Vllm, "cache_aware");
/// See [`VLLM_CACHE_AWARE`].
pub(super) const SMG_CACHE_AWARE: Arm = arm("smg cache_aware", Router::Smg, "cache_aware");
/// See [`VLLM_CACHE_AWARE`].
pub(super) const SGLANG_CACHE_AWARE: Arm =
    arm("sglang-router cache_aware", Router::Sglang, "cache_aware");
/// The routers of others that only pass requests around.
pub(super) const VLLM_ROUND_ROBIN: Arm =
    arm("vllm-router round_robin", Router::Vllm, "round_robin");
/// See [`VLLM_ROUND_ROBIN`].
pub(super) const SMG_ROUND_ROBIN: Arm = arm("smg round_robin", Router::Smg, "round_robin");

impl Arm {
    /// The program, or why it cannot be run.
    pub(super) fn program(self, workspace: &Workspace, places: &Places) -> Result<PathBuf, String> {
        match self.router {
            Router::Forebay => {
                let program = workspace.target().join("release").join("forebay");
                let help = Command::new(&program).args(["serve", "--help"]).output();
                match help {
                    Ok(output) if output.status.success() => Ok(program),
                    _ => Err("this `forebay` has no command `serve`".to_owned()),
                }
            }
            Router::Vllm => places.peer("routers/bin/vllm-router"),
            Router::Smg => places.peer("smg/bin/python"),
            Router::Sglang => places.peer("sglang/bin/sglang-router"),
        }
    }

    /// The mode, as its own command line spells it.
    pub(super) const fn mode(self) -> &'static str {
        self.mode
    }

    /// Its command line in front of these workers.
    pub(super) fn words(self, port: u16, workers: &[u16]) -> anyhow::Result<Vec<String>> {
        let urls: Vec<String> =
            workers.iter().map(|worker| format!("http://127.0.0.1:{worker}")).collect();
        let mut words: Vec<String> = Vec::new();
        if self.router == Router::Forebay {
            words.extend(["serve", "--listen"].map(str::to_owned));
            words.push(format!("127.0.0.1:{port}"));
            words.extend(["--mode", self.mode].map(str::to_owned));
            words.extend(urls.into_iter().flat_map(|url| ["--worker".to_owned(), url]));
            return Ok(words);
        }
        match self.router {
            Router::Smg => words.extend(["-m", "smg.launch_router"].map(str::to_owned)),
            Router::Sglang => words.push("launch".to_owned()),
            Router::Forebay | Router::Vllm => {}
        }
        let (port, metrics) = (port.to_string(), free_port()?.to_string());
        words.extend(["--host", "127.0.0.1", "--port", &port].map(str::to_owned));
        words.push("--worker-urls".to_owned());
        words.extend(urls);
        words.extend(["--policy", self.mode, "--prometheus-port", &metrics].map(str::to_owned));
        Ok(words)
    }

    /// Starts it in front of these workers, and waits until it serves `probe` on `path`: the
    /// process and its port.
    pub(super) fn start(
        self,
        workspace: &Workspace,
        program: PathBuf,
        workers: &[u16],
        (path, probe): (&str, &str),
    ) -> anyhow::Result<(Running, u16)> {
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(self.words(port, workers)?);
        let mut running = Running::start(workspace, self.name, command)?;
        running
            .wait_until(READY_MAX, || is_well(port, "POST", path, probe))
            .with_context(|| format!("{} does not serve", self.name))?;
        Ok((running, port))
    }
}

#[cfg(test)]
mod tests {
    use super::{HOLD, SMG_CACHE_AWARE};

    #[test]
    fn a_command_line_names_the_workers_and_the_mode() {
        let words = HOLD.words(80, &[1, 2]).unwrap().join(" ");
        assert_eq!(
            words,
            "serve --listen 127.0.0.1:80 --mode hold --worker http://127.0.0.1:1 --worker \
             http://127.0.0.1:2"
        );
        let words = SMG_CACHE_AWARE.words(80, &[1, 2]).unwrap().join(" ");
        let expected = "-m smg.launch_router --host 127.0.0.1 --port 80 --worker-urls \
                        http://127.0.0.1:1 http://127.0.0.1:2 --policy cache_aware";
        assert!(words.starts_with(expected), "{words}");
    }
}
