//! Measures what connections cost on which nothing is asked, and whether others are served beside
//! them.
//!
//! Each connection asks once and is kept open, as the pools of clients keep them. They come from
//! several addresses of this machine, since one has not enough ports. The gateway and this process
//! need a descriptor for each (`ulimit -n`), and the gateway keeps as many again for workers: what
//! the limit does not allow is not measured, and the command says so.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream as Socket};

use super::ask::{ask, free_port, is_well, metric};
use super::page;
use super::process::Running;
use crate::say::say;
use crate::workspace::Workspace;

/// Levels where none are named.
const LEVELS: [usize; 3] = [10_000, 50_000, 100_000];
/// Connections from one address: below the 28,232 ports that Linux gives away by default.
const PER_ADDRESS: usize = 20_000;
/// Connections that are opened at once; the kernel completes 4,096 before they are taken in.
const AT_ONCE: usize = 256;
/// The bound of the gateway that is filled.
const FULL_AT: usize = 1_000;
/// How long it may take until idle connections have made room.
const ROOM_MAX: Duration = Duration::from_secs(10);
/// Requests of the client that is served beside them.
const ASKED: usize = 500;
/// Where that client asks, and what.
const PATH: &str = "/v1/chat/completions";
const CHAT: &str = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}";
/// How long the gateway may take to start.
const START_MAX: Duration = Duration::from_secs(10);
/// How long an answer may take before this fails.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// What was measured with so many connections open.
struct Level {
    connections: usize,
    /// Of the gateway, in bytes.
    resident: u64,
    /// How fast the connections were taken in, a second.
    opened_per_s: f64,
    /// Latencies of the client beside them.
    p50: Duration,
    p99: Duration,
}

/// Runs the measurement: levels as numbers, `--program FILE` for another build, `--write`.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let (mut levels, mut program, mut write) = (Vec::new(), None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--write" => write = true,
            "--program" => program = words.next().map(PathBuf::from),
            number => match number.parse() {
                Ok(level) => levels.push(level),
                Err(_) => bail!("`{number}` is no number of connections\nhint: such as 10000"),
            },
        }
    }
    if levels.is_empty() {
        levels = LEVELS.to_vec();
    }
    // What the client is served with when nobody is there says how busy the machine is.
    levels.push(0);
    levels.sort_unstable();
    if program.is_none() {
        Workspace::must(workspace.cargo(&["build", "--release", "--package", "forebay"]))?;
    }
    let program = program.unwrap_or_else(|| workspace.target().join("release").join("forebay"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (before, found) = {
        let gateway = Gateway::start(workspace, &program, 10_000_000)?;
        (gateway.resident()?, runtime.block_on(measure(&gateway, &levels))?)
    };
    ensure!(found.len() > 1, "no level fits\nhint: raise `ulimit -n`, or name a smaller one");
    let gateway = Gateway::start(workspace, &program, FULL_AT)?;
    let made_room = runtime.block_on(fill(&gateway))?;
    let text = section(before, &found, made_room);
    let missed = levels.len() - found.len();
    let skipped: Vec<String> =
        (missed > 0).then(|| format!("{missed} levels")).into_iter().collect();
    page::report(workspace, (page::IDLE, &text), &[], &skipped, write)?;
    Ok(ExitCode::from(if missed > 0 { 3 } else { 0 }))
}

/// A gateway in front of a worker that answers at once.
struct Gateway {
    port: u16,
    running: Running,
}

impl Gateway {
    fn start(
        workspace: &Workspace,
        program: &Path,
        connections_max: usize,
    ) -> anyhow::Result<Self> {
        let (port, worker) = (free_port()?, worker()?);
        let file = workspace.target().join("xtask-live").join("idle.toml");
        fs::create_dir_all(file.parent().context("it has a folder")?)?;
        let text = format!(
            "[listen]\naddress = \"127.0.0.1:{port}\"\nconnections_max = {connections_max}\n\
             idle_ms_max = 3600000\n[[pool]]\nworker = \"http://{worker}\"\n"
        );
        fs::write(&file, text)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(file);
        let mut running = Running::start(workspace, "idle", command)?;
        running.wait_until(START_MAX, || is_well(port, "POST", PATH, CHAT))?;
        Ok(Self { port, running })
    }

    /// Bytes of its memory that are resident.
    fn resident(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kb.context("the system does not tell its memory")? * 1024)
    }
}

/// A worker that answers everything at once; it ends with this process.
fn worker() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let addr = listener.local_addr()?;
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || answer(socket));
        }
    });
    Ok(addr)
}

fn answer(mut socket: TcpStream) {
    let body = "{\"choices\":[{\"message\":{\"content\":\"x\"}}]}";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    let (mut asked, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(more @ 1..) = socket.read(&mut buffer) {
        asked.extend_from_slice(&buffer[..more]);
        // What the gateway asks fits into one piece with its body.
        if asked.windows(4).any(|end| end == b"\r\n\r\n") {
            asked.clear();
            // In one piece: several would wait for each other's acknowledgement.
            let answer = format!("{head} {}\r\n\r\n{body}", body.len());
            if socket.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Goes from level to level, as far as descriptors go.
async fn measure(gateway: &Gateway, levels: &[usize]) -> anyhow::Result<Vec<Level>> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for level in levels {
        let (begun, had) = (Instant::now(), open.len());
        if let Err(why) = open_up_to(*level, gateway.port, &mut open).await {
            say(&format!("no {level} connections: {why:#}"));
            break;
        }
        let opened_per_s = (open.len() - had) as f64 / begun.elapsed().as_secs_f64();
        let (p50, p99) = served_beside(gateway.port).await?;
        let (resident, connections) = (gateway.resident()?, open.len());
        let left = metric(gateway.port, "forebay_connections_open")?;
        if left < connections as f64 {
            say(&format!(
                "of {connections} connections some were closed to keep room: {left} left"
            ));
            break;
        }
        say(&format!("{connections}: {resident} bytes, {opened_per_s:.0} a second, p99 {p99:?}"));
        found.push(Level { connections, resident, opened_per_s, p50, p99 });
    }
    Ok(found)
}

/// Takes all connections of a gateway with a small bound; how long after the first refusal somebody
/// is served again, while none of them is closed by its client.
async fn fill(gateway: &Gateway) -> anyhow::Result<Duration> {
    let mut open = Vec::new();
    let full = open_up_to(FULL_AT, gateway.port, &mut open).await;
    full.context("the bound is not reached")?;
    let refused = one(FULL_AT, gateway.port).await;
    let said = refused.err().map(|why| format!("{why:#}")).unwrap_or_default();
    ensure!(said.contains("503"), "one above the bound is not answered 503 but: {said}");
    let begun = Instant::now();
    while one(FULL_AT, gateway.port).await.is_err() {
        ensure!(begun.elapsed() < ROOM_MAX, "idle connections make no room");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(begun.elapsed())
}

async fn open_up_to(level: usize, port: u16, open: &mut Vec<Socket>) -> anyhow::Result<()> {
    while open.len() < level {
        let first = open.len();
        let more = (first..level.min(first + AT_ONCE)).map(|nth| tokio::spawn(one(nth, port)));
        for connection in more.collect::<Vec<_>>() {
            open.push(connection.await??);
        }
    }
    Ok(())
}

/// A connection that has asked once.
async fn one(nth: usize, port: u16) -> anyhow::Result<Socket> {
    let socket = TcpSocket::new_v4().context("no descriptor is left (ulimit -n)")?;
    let from = Ipv4Addr::new(127, 0, 0, 2 + (nth / PER_ADDRESS) as u8);
    socket.bind(SocketAddr::from((from, 0)))?;
    let mut socket = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let asked = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    socket.write_all(asked).await?;
    let mut buffer = [0; 1024];
    let read = tokio::time::timeout(ANSWER_MAX, socket.read(&mut buffer));
    let read = read.await.context("a connection is not answered")??;
    let head = String::from_utf8_lossy(&buffer[..read]);
    let status = head.split(' ').nth(1).unwrap_or("nothing").to_owned();
    ensure!(status == "200", "the gateway answers {status} to the next one");
    Ok(socket)
}

/// Latencies of a client that asks again and again: the median and one in a hundred.
async fn served_beside(port: u16) -> anyhow::Result<(Duration, Duration)> {
    let asked = tokio::task::spawn_blocking(move || {
        let mut took = Vec::with_capacity(ASKED);
        for _ in 0..ASKED {
            let begun = Instant::now();
            let (status, _) = ask(port, "POST", PATH, CHAT)?;
            ensure!(status == 200, "the client beside them was answered {status}");
            took.push(begun.elapsed());
        }
        took.sort_unstable();
        Ok((took[ASKED / 2], took[ASKED * 99 / 100]))
    });
    asked.await?
}

/// Descriptors that a process of this user may have.
fn descriptors_max() -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("few").to_owned()
}

fn section(before: u64, found: &[Level], made_room: Duration) -> String {
    let levels: Vec<String> =
        found.iter().skip(1).map(|level| level.connections.to_string()).collect();
    let mut text = format!(
        "Connections that have asked once and are kept open, from several addresses of one \
         machine, and meanwhile a client\nthat opens a connection for each of {ASKED} requests. \
         The gateway had {:.0} MB before. It keeps half of its descriptors\nfor workers, and from \
         seven eighths of `connections_max` on it closes idle ones after a second. A process \
         may have\n{} descriptors here; a hundred thousand connections take some 230,000 \
         (`ulimit -n`):\n\n```sh\ncargo xtask idle {} --write\n```\n\n\
         | idle connections | resident | each | taken in | p50 beside them | p99 |\n\
         |---|---|---|---|---|---|\n",
        before as f64 / 1e6,
        descriptors_max(),
        levels.join(" "),
    );
    for level in found {
        let (each, taken_in) = match level.connections as u64 {
            0 => (String::new(), String::new()),
            connections => {
                let each = level.resident.saturating_sub(before) / connections;
                (
                    format!("{:.1} KB", each as f64 / 1e3),
                    format!("{:.0} a second", level.opened_per_s),
                )
            }
        };
        let line = format!(
            "| {} | {:.0} MB | {each} | {taken_in} | {:.2} ms | {:.2} ms |\n",
            level.connections,
            level.resident as f64 / 1e6,
            level.p50.as_secs_f64() * 1e3,
            level.p99.as_secs_f64() * 1e3,
        );
        text += &line;
    }
    let line = format!(
        "\nWith `connections_max = {FULL_AT}` and {FULL_AT} idle ones, one more was answered 503 \
         at once, and {:.1} s later, some of the idle\nones having been closed, the next one was \
         served.\n",
        made_room.as_secs_f64()
    );
    text + &line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Level, section};

    #[test]
    fn what_a_connection_takes_is_above_what_the_gateway_had() {
        let ms = Duration::from_millis;
        let level = |connections, resident| Level {
            connections,
            resident,
            opened_per_s: 8_000.0,
            p50: ms(1),
            p99: ms(2),
        };
        let found = [level(0, 20_000_000), level(1_000, 30_000_000), level(5_000, 50_000_000)];
        let text = section(20_000_000, &found, ms(1_200));
        assert!(text.contains("| 1000 | 30 MB | 10.0 KB | 8000 a second | 1.00 ms | 2.00 ms |"));
        assert!(text.contains("| 5000 | 50 MB | 6.0 KB |") && text.contains("1.2 s later"));
        assert!(text.contains("| 0 | 20 MB |  |  | 1.00 ms |"), "{text}");
        assert!(text.contains("cargo xtask idle 1000 5000 --write"));
    }
}
