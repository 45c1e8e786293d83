//! Plays a worker on a raw socket, with whatever answers a test wants.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::config::WorkerUrl;

/// What a page of the stub does.
#[derive(Clone, Debug)]
pub(super) enum Page {
    /// It answers with this status and body.
    Says(u16, String),
    /// It never answers.
    Hangs,
    /// Its body never ends: a few bytes now and then.
    Trickles,
    /// Its body never ends, and comes as fast as it can.
    Floods,
}

/// The pages of a stub.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) health: Page,
    pub(super) metrics: Page,
    pub(super) models: Page,
    pub(super) completions: Page,
}

impl Pages {
    /// Those of a worker that is well.
    pub(super) fn well() -> Self {
        Self {
            health: says(200, ""),
            metrics: says(200, &metrics(100.0, 10)),
            models: says(200, r#"{"data":[{"id":"tiny","max_model_len":2048}]}"#),
            completions: says(200, "{}"),
        }
    }
}

pub(super) fn says(status: u16, body: &str) -> Page {
    Page::Says(status, body.to_owned())
}

/// Metrics of a process that started then and took so many prompt tokens: 1600 tokens of KV.
pub(super) fn metrics(started: f64, prompt_tokens: u64) -> String {
    format!(
        "process_start_time_seconds {started}\n\
         vllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"100\"}} 1.0\n\
         vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\n\
         vllm:num_preemptions_total 0.0\nvllm:prompt_tokens_total {prompt_tokens}\n"
    )
}

/// A worker on a raw socket.
pub(super) struct Stub {
    pub(super) addr: SocketAddr,
    pub(super) pages: Arc<Mutex<Pages>>,
    /// Completions that were asked for.
    pub(super) completions: Arc<AtomicUsize>,
    accepts: AbortHandle,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl Stub {
    /// Listens there, on any free port if that is 0.
    pub(super) async fn on(addr: &str, pages: Pages) -> Self {
        let listener = TcpListener::bind(addr).await.expect("the address is free");
        let addr = listener.local_addr().expect("it listens");
        let pages = Arc::new(Mutex::new(pages));
        let completions = Arc::new(AtomicUsize::new(0));
        let (shared, count) = (Arc::clone(&pages), Arc::clone(&completions));
        let accepts = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&shared), Arc::clone(&count)));
            }
        });
        Self { addr, pages, completions, accepts: accepts.abort_handle() }
    }

    pub(super) fn url(&self) -> WorkerUrl {
        format!("http://{}", self.addr).parse().expect("it is a URL")
    }

    /// Changes its pages.
    pub(super) fn change(&self, change: impl FnOnce(&mut Pages)) {
        change(&mut self.pages.lock().unwrap());
    }
}

async fn serve(mut socket: TcpStream, pages: Arc<Mutex<Pages>>, completions: Arc<AtomicUsize>) {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match socket.read(&mut buffer).await {
            Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let pages = pages.lock().unwrap().clone();
    let page = match path {
        "/health" => pages.health,
        "/metrics" => pages.metrics,
        "/v1/models" => pages.models,
        "/v1/completions" => {
            completions.fetch_add(1, Ordering::SeqCst);
            pages.completions
        }
        _ => says(404, ""),
    };
    let endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    match page {
        Page::Says(status, body) => {
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(socket.write_all((head + &body).as_bytes()).await);
        }
        Page::Hangs => sleep(Duration::from_hours(1)).await,
        Page::Trickles => {
            drop(socket.write_all(endless).await);
            while socket.write_all(b"4\r\nx 1\n\r\n").await.is_ok() {
                sleep(Duration::from_millis(10)).await;
            }
        }
        Page::Floods => {
            drop(socket.write_all(endless).await);
            let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
            while socket.write_all(piece.as_bytes()).await.is_ok() {}
        }
    }
}
