//! Measures what requests that wait for one model cost: in memory, and to another model.
//!
//! `waiting [REQUESTS] [RATE] [SECONDS]`. So many requests of 1 KB wait for one model, whose only
//! worker takes one and never answers it. Another model is asked at the given rate, each request at
//! its moment whether or not earlier ones were answered, first without and then with the others
//! waiting. The workers and the clients are a process of their own, started by this one, so that
//! the memory looked at is the gateway's alone. Prints a table. Each side of a connection takes a
//! descriptor, and the gateway keeps as many for workers as for clients.

use std::future::pending;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use forebay_core::Span;
use forebay_gateway::config::Config;
use forebay_lab::load::{Planned, Settings, run};
use forebay_lab::results::Row;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const BODY_BYTES: usize = 1024;
/// What the official Python client sends with a request, beside its length.
const HEADERS: &str = concat!(
    "Host: localhost:8080\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n",
    "Accept: application/json\r\nContent-Type: application/json\r\n",
    "User-Agent: OpenAI/Python 3.57.0\r\nX-Stainless-Lang: python\r\n",
    "X-Stainless-Package-Version: 3.57.0\r\nX-Stainless-OS: Linux\r\n",
    "X-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n",
    "X-Stainless-Runtime-Version: 3.12.3\r\nX-Stainless-Async: false\r\n",
    "x-stainless-retry-count: 0\r\nx-stainless-read-timeout: 600\r\n",
    "Authorization: Bearer sk-0123456789abcdef0123456789abcdef0123456789abcdef\r\n",
);
const PATH: &str = "/v1/chat/completions";
/// What the program is told that shall play the workers and the clients.
const OTHERS: &str = "others";
/// Rounds of load, of which the median counts: other programs disturb single ones.
const ROUNDS: usize = 3;
/// Clients that come at once, and the pause before the next: five thousand a second.
const AT_ONCE: u64 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// Connections beside those that wait.
const CONNECTIONS_MORE: usize = 100;
/// How long anything may take that must come about.
const SOON: Duration = Duration::from_mins(1);
/// Before memory is looked at, so that what is freed with a delay is free.
const CALM: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first() {
        Some(word) if word == OTHERS => others(),
        _ => measure(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure(words: &[String]) -> Result<()> {
    let number = |nth: usize, default: usize| words.get(nth).map_or(Ok(default), |it| it.parse());
    let (requests, rate, seconds) = (number(0, 9_800)?, number(1, 1_000)?, number(2, 5)?);
    let mut others = Others::start()?;
    let ports: Vec<u16> = numbers(&others.heard()?)?;
    let [stuck, free] = ports[..] else { return Err("there are two workers".into()) };
    let connections = requests + CONNECTIONS_MORE;
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:0\"\nconnections_max = {connections}\n\
         [[pool]]\nname = \"slow\"\nmodels = [\"slow\"]\nworker = [\"http://127.0.0.1:{stuck}\"]\n\
         seqs_max = 1\n\
         [[pool]]\nname = \"quick\"\nmodels = [\"m\"]\nworker = [\"http://127.0.0.1:{free}\"]\n\
         [[class]]\nname = \"a\"\noverload = \"queue\"\nqueue_len_max = 100000\n"
    );
    let config = Config::parse(Path::new("waiting.toml"), &text).map_err(|it| it.to_string())?;
    let gateway = forebay_gateway::start(config)?;
    let addr = gateway.addr();
    until(|| metric(addr, "forebay_worker_usable") == 2)?;
    others.tell(&format!("gateway {}", addr.port()))?;
    let load = format!("load {rate} {seconds}");
    // The first round opens connections to the worker, and is not counted.
    others.asked(&load)?;
    let alone = rounds(&mut others, &load)?;
    sleep(CALM);
    let before = resident()?;
    others.tell(&format!("wait {}", requests + 1))?;
    others.heard()?;
    until(|| metric(addr, "forebay_requests_waiting") == requests)?;
    sleep(CALM);
    let each = (resident()?.saturating_sub(before)) / requests.max(1);
    let beside = rounds(&mut others, &load)?;
    writeln!(
        stdout(),
        "| waiting | memory of each beyond its {BODY_BYTES} B | another model at {rate}/s: alone, \
         p50 / p99 | beside them | p99 added |\n|---|---|---|---|---|\n\
         | {requests} | {} B | {:.2} / {:.2} ms | {:.2} / {:.2} ms | {:+.2} ms |",
        each.saturating_sub(BODY_BYTES),
        alone[0],
        alone[1],
        beside[0],
        beside[1],
        beside[1] - alone[1]
    )?;
    drop(others);
    gateway.stop()?;
    Ok(())
}

/// The median and the 99th percentile of the other model's latency, of each the median over rounds.
fn rounds(others: &mut Others, load: &str) -> Result<[f64; 2]> {
    let mut of = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (values, value) in of.iter_mut().zip(numbers::<f64>(&others.asked(load)?)?) {
            values.push(value);
        }
    }
    Ok(of.map(|mut values| {
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    }))
}

/// The process that plays everybody else.
struct Others {
    child: std::process::Child,
    ears: BufReader<ChildStdout>,
    mouth: Option<ChildStdin>,
}

impl Others {
    fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(OTHERS).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let ears = child.stdout.take().ok_or("it has an output")?;
        let mouth = child.stdin.take();
        Ok(Self { child, ears: BufReader::new(ears), mouth })
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        let mouth = self.mouth.as_mut().ok_or("it has an input")?;
        Ok(writeln!(mouth, "{line}")?)
    }

    fn heard(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.ears.read_line(&mut line)? {
            0 => Err("the process of the clients has ended".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }

    fn asked(&mut self, line: &str) -> Result<String> {
        self.tell(line)?;
        self.heard()
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // Without anybody to listen to, it ends.
        self.mouth = None;
        drop(self.child.wait());
    }
}

/// Memory of this process that is in use, in bytes.
fn resident() -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(kilobytes.parse::<usize>()? << 10)
}

/// The sum of a metric over its series.
fn metric(addr: SocketAddr, name: &str) -> usize {
    let page = || -> std::io::Result<String> {
        let mut socket = TcpStream::connect(addr)?;
        socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
        let mut page = String::new();
        socket.read_to_string(&mut page)?;
        Ok(page)
    };
    let page = page().unwrap_or_default();
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit_once(' ')?.1.parse::<f64>().ok()
    });
    values.sum::<f64>() as usize
}

fn until(mut is: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is() {
        if begun.elapsed() > SOON {
            return Err("what must come about does not\nhint: see the limit of descriptors".into());
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn numbers<T: std::str::FromStr>(line: &str) -> std::result::Result<Vec<T>, T::Err> {
    line.split_whitespace().map(str::parse).collect()
}

/// Plays the workers and the clients, as it is told line by line.
fn others() -> Result<()> {
    writeln!(stdout(), "{} {}", worker(true)?, worker(false)?)?;
    let (mut gateway, mut waiting) = (0, Vec::new());
    for line in stdin().lines() {
        let line = line?;
        let (word, rest) = line.split_once(' ').ok_or("a line has a word and numbers")?;
        let told = numbers::<u64>(rest)?;
        match (word, &told[..]) {
            ("gateway", [port]) => gateway = u16::try_from(*port)?,
            ("load", [rate, seconds]) => {
                let (p50, p99) = load(gateway, *rate, *seconds)?;
                writeln!(stdout(), "{p50:.2} {p99:.2}")?;
            }
            ("wait", [requests]) => {
                let body = body("slow", BODY_BYTES);
                let length = body.len();
                let head = format!("POST {PATH} HTTP/1.1\r\n{HEADERS}content-length: {length}");
                for nth in 0..*requests {
                    // Lanes that are a thousand behind take nobody in.
                    if nth % AT_ONCE == 0 {
                        sleep(PAUSE);
                    }
                    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, gateway))?;
                    socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes())?;
                    waiting.push(socket);
                }
                writeln!(stdout(), "they wait")?;
            }
            _ => return Err(format!("nobody knows what to do: {line}").into()),
        }
    }
    Ok(())
}

/// A chat for a model, of so many bytes.
fn body(model: &str, bytes: usize) -> String {
    let text = |filler: &str| {
        let message = format!("{{\"role\":\"user\",\"content\":\"{filler}\"}}");
        format!("{{\"model\":\"{model}\",\"max_tokens\":8,\"messages\":[{message}]}}")
    };
    text(&"x".repeat(bytes.saturating_sub(text("").len())))
}

/// Asks the other model: the median and the 99th percentile in milliseconds, each from the moment
/// that a request was due.
fn load(gateway: u16, rate: u64, seconds: u64) -> Result<(f64, f64)> {
    let body = bytes::Bytes::from(body("m", BODY_BYTES));
    let plan = (0..rate * seconds).map(|nth| Planned {
        at: Span(nth * 1_000_000_000 / rate),
        body: body.clone(),
        ..Planned::default()
    });
    let target = format!("http://127.0.0.1:{gateway}{PATH}").parse()?;
    let settings = Settings::for_targets(vec![target]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut took, mut unserved) = (Vec::new(), 0);
    let each = |row: Row| match row.e2e() {
        Some(e2e) => took.push(e2e.0),
        None => unserved += 1,
    };
    runtime.block_on(run(plan, &settings, each, pending()));
    if unserved > 0 || took.is_empty() {
        return Err(format!("{unserved} requests were not served").into());
    }
    took.sort_unstable();
    let rank = |percent: usize| took[(took.len() * percent).div_ceil(100) - 1] as f64 / 1e6;
    Ok((rank(50), rank(99)))
}

/// Starts a worker that answers at once, or never; its port.
fn worker(is_stuck: bool) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            thread::spawn(move || carry(socket, is_stuck));
        }
    });
    Ok(port)
}

fn carry(mut socket: TcpStream, is_stuck: bool) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = BufReader::new(socket.try_clone()?);
    loop {
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        reader.read_line(&mut first)?;
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let (status, answer) = match first.split(' ').collect::<Vec<_>>()[..] {
            ["GET", "/health", _] => (200, String::new()),
            ["GET", ..] => (404, String::new()),
            // What a gateway asks for itself is the completion of one token.
            ["POST", PATH, _] if is_stuck => {
                // Until whoever asked has gone.
                reader.read_line(&mut line)?;
                return Ok(());
            }
            ["POST", ..] => (200, ANSWER.to_owned()),
            _ => return Ok(()),
        };
        let length = answer.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n");
        let whole = format!("{head}content-length: {length}\r\n\r\n{answer}");
        socket.write_all(whole.as_bytes())?;
    }
}

const ANSWER: &str = concat!(
    r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"#,
    r#""message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}"#,
);
