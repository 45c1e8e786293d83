//! Starts engines and arms, asks whether they are ready, and brings them to a known state.

use std::cell::RefCell;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use forebay_wire::engine_metrics;
use tokio::time::{Instant, sleep};

use super::design::{Arm, Command, Design, Engines, Hook};
use super::error::LiveError;
use super::fill::Filling;
use super::pages::Page;
use super::process::Process;
use super::sending::{Asker, Ready};

/// How often is looked whether something is ready, or idle.
const POLL: Duration = Duration::from_millis(200);
/// How long something that runs already may take to answer.
const PRESENT_MAX: Duration = Duration::from_secs(10);

/// The engines of a cell.
#[derive(Default)]
pub(super) struct Fleet {
    /// Their URLs.
    pub(super) urls: Vec<String>,
    /// Who asks them.
    pub(super) asker: Asker,
    /// Those that the drill started; they end with this.
    processes: RefCell<Vec<Process>>,
}

impl Fleet {
    /// No engines at all.
    pub(super) fn none(ready: &Ready) -> Self {
        Self { asker: ready.asker(), ..Self::default() }
    }

    /// Starts so many workers, or takes the first of those that run already, and waits until all of
    /// them are ready.
    pub(super) async fn start(
        engines: &Engines,
        workers: u32,
        (design, ready): (&Design, &Ready),
        logs: &Path,
    ) -> Result<Self, LiveError> {
        let mut fleet = Self::none(ready);
        let Some(command) = &engines.command else {
            fleet.urls = engines.urls.iter().take(workers as usize).cloned().collect();
            for url in &fleet.urls {
                present(&fleet.asker, "a worker", (url, &engines.health)).await?;
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
            let process = started(&name, command, filling, design, logs)?;
            fleet.processes.get_mut().push(process);
            fleet.urls.push(format!("http://127.0.0.1:{}", ports[0]));
        }
        for (url, process) in fleet.urls.iter().zip(fleet.processes.get_mut()) {
            until_ready(process, &fleet.asker, (url, &engines.health), command.ready_max).await?;
        }
        Ok(fleet)
    }

    /// What is to be said of workers that have ended though they are needed.
    pub(super) fn has_ended(&self) -> Option<String> {
        self.processes.borrow_mut().iter_mut().find_map(Process::has_ended)
    }

    /// Waits until no engine runs or holds anything; `Some` says that it did not come to that. What
    /// an engine does not tell is taken for nothing.
    pub(super) async fn idle(&self, engines: &Engines, limit: Duration) -> Option<String> {
        let begun = Instant::now();
        loop {
            let mut busy = None;
            for url in &self.urls {
                let Ok(page) = self.asker.get(url, &engines.metrics).await else { continue };
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
            self.asker.reset("a worker", url, hook).await?;
        }
        Ok(())
    }
}

/// An arm that runs.
pub(super) struct Running {
    /// Where it is asked.
    pub(super) url: String,
    /// Where its metrics are, and who asks for them.
    metrics: Option<(String, Asker)>,
    /// Who asks it.
    pub(super) asker: Asker,
    process: Option<Process>,
}

impl Running {
    /// Starts an arm in front of the engines of a cell, or looks whether it is there.
    pub(super) async fn start(
        (arm, asker): (&Arm, Asker),
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
        // The arm's key is nobody else's business.
        let (at, asks) = match &arm.metrics_url {
            None => (url.clone(), asker.clone()),
            Some(other) => (filling.text(other), fleet.asker.clone()),
        };
        let metrics = arm.metrics.as_ref();
        let metrics = metrics.map(|path| (format!("{}{path}", at.trim_end_matches('/')), asks));
        let process = match &arm.command {
            None => {
                present(&asker, &arm.name, (&url, &arm.health)).await?;
                None
            }
            Some(command) => {
                // Else what answers later may be somebody else, and be measured in its place.
                if asker.get(&url, &arm.health).await.is_ok() {
                    return Err(LiveError::Occupied { name: arm.name.clone(), url });
                }
                let mut process = started(&arm.name, command, filling, design, logs)?;
                until_ready(&mut process, &asker, (&url, &arm.health), command.ready_max).await?;
                Some(process)
            }
        };
        Ok(Self { url, metrics, asker, process })
    }

    /// What is to be said of it if it has ended though it is needed.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        self.process.as_mut().and_then(Process::has_ended)
    }

    /// Its page of metrics; an empty one where it has none, or does not show it.
    pub(super) async fn page(&self) -> Page {
        match &self.metrics {
            None => Page::default(),
            Some((url, asker)) => asker.page(url, &[]).await,
        }
    }
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

async fn until_ready(
    process: &mut Process,
    asker: &Asker,
    (url, health): (&str, &str),
    limit: Duration,
) -> Result<(), LiveError> {
    let begun = Instant::now();
    loop {
        let answer = asker.get(url, health).await;
        // First: whoever answers for a program that has failed is another one.
        if let Some(failed) = process.has_failed() {
            return Err(failed.into());
        }
        let said = match answer {
            Ok(_) if process.has_started() => return Ok(()),
            Ok(_) => "it answers, but what starts it has not ended".to_owned(),
            Err(said) => said,
        };
        if begun.elapsed() > limit {
            let secs = limit.as_secs_f64();
            let what = format!("is not ready after {secs} s ({url}{health}: {said})");
            return Err(process.not_ready(what).into());
        }
        sleep(POLL).await;
    }
}

async fn present(asker: &Asker, name: &str, (url, health): (&str, &str)) -> Result<(), LiveError> {
    let begun = Instant::now();
    loop {
        let Err(said) = asker.get(url, health).await else { return Ok(()) };
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
