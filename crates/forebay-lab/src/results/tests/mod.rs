//! Holds the files of live runs to what is read back from them.

mod folder;
mod read;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::Span;

use super::{About, Attempt, Fault, Outcome, Row, Usage};

/// An empty folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("forebay-results-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

/// What is in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn about() -> About {
    About {
        label: "hold".into(),
        tool: "forebay 0.1.0".into(),
        targets: vec!["http://127.0.0.1:8000".into()],
        model: "m".into(),
        started_unix_ms: 1_700_000_000_000,
        ..About::default()
    }
}

/// A request that was due then, without any attempt.
pub(super) fn row(request: u64, scheduled_ms: u64) -> Row {
    Row {
        request,
        scheduled: Span::millis(scheduled_ms),
        is_warmup: false,
        session: None,
        turn: 0,
        class: Some("public".into()),
        tenant: None,
        prompt_tokens: Some(100),
        output_tokens: Some(3),
        outcome: Outcome::NotSent,
        attempts: Vec::new(),
    }
}

fn with(mut row: Row, attempt: Attempt) -> Row {
    row.outcome = attempt.outcome;
    row.attempts.push(attempt);
    row
}

/// Served with three tokens: the first after so long, then one every 10 ms.
pub(super) fn served(request: u64, scheduled_ms: u64, ttft_ms: u64) -> Row {
    let row = row(request, scheduled_ms);
    let at = |ms| row.scheduled + Span::millis(ms);
    let chunks = vec![at(ttft_ms), at(ttft_ms + 10), at(ttft_ms + 20)];
    let usage = Usage { prompt_tokens: Some(100), output_tokens: Some(3), cached_tokens: Some(25) };
    let attempt = Attempt {
        dequeued: Some(at(0)),
        written: Some(at(1)),
        first_byte: Some(at(2)),
        first_token: Some(chunks[0]),
        end: at(ttft_ms + 21),
        chunks,
        status: Some(200),
        usage,
        outcome: Outcome::Completed,
        ..Attempt::new(row.scheduled, 0)
    };
    with(row, attempt)
}

/// Refused after so long, and asked to come back in two seconds.
pub(super) fn refused(request: u64, scheduled_ms: u64, after_ms: u64) -> Row {
    let row = row(request, scheduled_ms);
    let attempt = Attempt {
        written: Some(row.scheduled),
        first_byte: Some(row.scheduled + Span::millis(after_ms)),
        end: row.scheduled + Span::millis(after_ms),
        status: Some(503),
        retry_after: Some(Span::secs(2)),
        outcome: Outcome::Refused,
        error: Some("the pool is full".into()),
        ..Attempt::new(row.scheduled, 0)
    };
    with(row, attempt)
}

/// Cut after its first token.
fn failed(request: u64, scheduled_ms: u64) -> Row {
    let row = row(request, scheduled_ms);
    let attempt = Attempt {
        first_token: Some(row.scheduled + Span::millis(5)),
        end: row.scheduled + Span::millis(9),
        status: Some(200),
        outcome: Outcome::Failed,
        fault: Some(Fault::Cut),
        ..Attempt::new(row.scheduled, 0)
    };
    with(row, attempt)
}
