//! Starts engines and arms, asks whether they are ready, and brings them to a known state.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use forebay_wire::engine_metrics;
use http::Method;
use tokio::time::{Instant, sleep};

use super::design::{Arm, Command, Design, Engines, Hook};
use super::error::LiveError;
use super::fill::Filling;
use super::pages::Page;
use super::process::Process;
use crate::load::{Target, ask};

/// How often is looked whether something is ready, or idle.
const POLL: Duration = Duration::from_millis(200);
/// How long something that runs already may take to answer.
const PRESENT_MAX: Duration = Duration::from_secs(10);

/// The engines of a cell.
#[derive(Default)]
pub(super) struct Fleet {
    /// Their URLs.
    pub(super) urls: Vec<String>,
    /// Those that the drill started; they end with this.
    processes: Vec<Process>,
}

impl Fleet {
    /// Starts so many workers, or takes the first of those that run already, and waits until all of
    /// them are ready.
    pub(super) async fn start(
        engines: &Engines,
        workers: u32,
        design: &Design,
        logs: &Path,
    ) -> Result<Self, LiveError> {
        let mut fleet = Self::default();
        let Some(command) = &engines.command else {
            fleet.urls = engines.urls.iter().take(workers as usize).cloned().collect();
            for url in &fleet.urls {
                present("a worker", url, &engines.health).await?;
            }
            return Ok(fleet);
        };
        for nth in 0..workers as usize {
            let ports = free_ports()?;
            let filling = Filling {
                ports,
                nth,
                workers_len: workers,
                model: design.load.model.clone(),
                ..Filling::default()
            };
            let name = format!("worker-{nth}");
            fleet.processes.push(started(&name, command, filling, design, logs)?);
            fleet.urls.push(format!("http://127.0.0.1:{}", ports[0]));
        }
        for (url, process) in fleet.urls.iter().zip(&mut fleet.processes) {
            ready(process, url, &engines.health, command.ready_max).await?;
        }
        Ok(fleet)
    }

    /// Waits until no engine runs or holds anything; `Some` says that it did not come to that. What
    /// an engine does not tell is taken for nothing.
    pub(super) async fn idle(&self, engines: &Engines, limit: Duration) -> Option<String> {
        let begun = Instant::now();
        loop {
            let mut busy = None;
            for url in &self.urls {
                let Ok(page) = get(url, &engines.metrics).await else { continue };
                let figures = engine_metrics::read(page.as_bytes());
                let open = figures.running.unwrap_or(0) + figures.waiting.unwrap_or(0);
                if open > 0 {
                    busy = Some(format!("{url} still had {open} requests"));
                }
            }
            let busy = busy?;
            if begun.elapsed() > limit {
                return Some(format!("{busy} after {} s", limit.as_secs()));
            }
            sleep(POLL).await;
        }
    }

    /// Asks every engine what the file says to bring it to a known state.
    pub(super) async fn reset(&self, hook: Option<&Hook>) -> Result<(), LiveError> {
        for url in &self.urls {
            reset("a worker", url, hook).await?;
        }
        Ok(())
    }
}

/// An arm that runs.
pub(super) struct Running {
    /// Where it is asked.
    pub(super) url: String,
    /// Where its metrics are.
    pub(super) metrics: Option<String>,
    _process: Option<Process>,
}

impl Running {
    /// Starts an arm in front of the engines of a cell, or looks whether it is there.
    pub(super) async fn start(
        arm: &Arm,
        fleet: &Fleet,
        workers: u32,
        design: &Design,
        logs: &Path,
    ) -> Result<Self, LiveError> {
        let ports = free_ports()?;
        let filling = Filling {
            ports,
            nth: 0,
            workers: fleet.urls.clone(),
            workers_len: workers,
            model: arm.model.as_ref().unwrap_or(&design.load.model).clone(),
            config: String::new(),
        };
        let url = filling.text(&arm.url);
        let at = arm.metrics_url.as_ref().map_or(url.clone(), |other| filling.text(other));
        let metrics =
            arm.metrics.as_ref().map(|path| format!("{}{path}", at.trim_end_matches('/')));
        let process = match &arm.command {
            None => {
                present(&arm.name, &url, &arm.health).await?;
                None
            }
            Some(command) => {
                let mut process = started(&arm.name, command, filling, design, logs)?;
                ready(&mut process, &url, &arm.health, command.ready_max).await?;
                Some(process)
            }
        };
        Ok(Self { url, metrics, _process: process })
    }

    /// Its page of metrics; an empty one where it has none, or does not show it.
    pub(super) async fn page(&self) -> Page {
        match &self.metrics {
            None => Page::default(),
            Some(url) => read_page(url, &[]).await,
        }
    }
}

/// A page of metrics; an empty one where it can't be had.
pub(super) async fn read_page(url: &str, metrics: &[String]) -> Page {
    let text = get(url, "").await.unwrap_or_default();
    Page::read(&text, metrics)
}

/// The text of a page.
pub(super) async fn get(url: &str, path: &str) -> Result<String, String> {
    asked(&Method::GET, url, path).await
}

/// Asks the arm, or a worker, for what brings it to a known state.
pub(super) async fn reset(name: &str, url: &str, hook: Option<&Hook>) -> Result<(), LiveError> {
    let Some(hook) = hook else { return Ok(()) };
    let said = asked(&hook.verb, url, &hook.path).await;
    said.map(drop).map_err(|said| LiveError::Hook {
        name: name.to_owned(),
        what: format!("answer {} {url}{}", hook.verb, hook.path),
        said,
    })
}

async fn asked(verb: &Method, url: &str, path: &str) -> Result<String, String> {
    let target: Target = format!("{url}{path}").parse().map_err(|error| format!("{error}"))?;
    ask(&target, verb).await
}

fn started(
    name: &str,
    command: &Command,
    mut filling: Filling,
    design: &Design,
    logs: &Path,
) -> Result<Process, LiveError> {
    // A program starts in the folder of the drill's file, so its own paths must not begin here.
    let logs = logs.canonicalize().unwrap_or_else(|_| logs.to_owned());
    if let Some(text) = &command.config {
        let file = logs.join(format!("{name}.config"));
        fs::write(&file, filling.text(text))
            .map_err(|said| LiveError::Unwritable { file: file.clone(), said })?;
        filling.config = file.to_string_lossy().into_owned();
    }
    let words = filling.words(&command.words);
    let stop = filling.words(&command.stop);
    let log = logs.join(format!("{name}.log"));
    Ok(Process::start(name, &words, stop, &design.folder, &log)?)
}

async fn ready(
    process: &mut Process,
    url: &str,
    health: &str,
    limit: Duration,
) -> Result<(), LiveError> {
    let begun = Instant::now();
    loop {
        let said = match get(url, health).await {
            Ok(_) if process.has_started() => return Ok(()),
            Ok(_) => "it answers, but what starts it has not ended".to_owned(),
            Err(said) => said,
        };
        if let Some(failed) = process.has_failed() {
            return Err(failed.into());
        }
        if begun.elapsed() > limit {
            let secs = limit.as_secs_f64();
            let what = format!("is not ready after {secs} s ({url}{health}: {said})");
            return Err(process.not_ready(what).into());
        }
        sleep(POLL).await;
    }
}

async fn present(name: &str, url: &str, health: &str) -> Result<(), LiveError> {
    let begun = Instant::now();
    loop {
        let Err(said) = get(url, health).await else { return Ok(()) };
        if begun.elapsed() > PRESENT_MAX {
            let url = format!("{url}{health}");
            return Err(LiveError::Absent { name: name.to_owned(), url, said });
        }
        sleep(POLL).await;
    }
}

/// Two ports that nobody listens on.
fn free_ports() -> Result<[u16; 2], LiveError> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(LiveError::NoPort);
    // Both are held before either is let go, so that they differ.
    let (one, two) = (listen()?, listen()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port());
    Ok([port(&one).map_err(LiveError::NoPort)?, port(&two).map_err(LiveError::NoPort)?])
}
