//! Makes the requests and sends them.

use std::future::pending;
use std::process::Command;

use anyhow::{Context, ensure};
use forebay_core::Span;
use forebay_lab::load::{self, Planned, Settings};
use forebay_lab::results::Row;
use serde_json::{Value, json};

use crate::live::places::Places;

/// One request: when it is due, and its body.
#[derive(Clone, Debug)]
pub(super) struct Request {
    at: Span,
    body: String,
}

/// The workload of the script beside the repository, whose tokenizer is the engine's own.
pub(super) fn plan(
    places: &Places,
    seed: u64,
    requests: u64,
    rate: f64,
) -> anyhow::Result<Vec<Request>> {
    let file = |found: Result<_, String>| found.map_err(anyhow::Error::msg);
    let script = file(places.shared("engines/workload.py"))?;
    let output = Command::new(file(places.engine("vllm/bin/python"))?)
        .arg(&script)
        .args([seed.to_string(), requests.to_string(), format!("{rate:.3}")])
        .output()
        .context("cannot run the workload's script")?;
    let failed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}\n{failed}", script.display(), output.status);
    let printed = String::from_utf8(output.stdout).context("the workload is not UTF-8")?;
    printed.lines().map(request).collect()
}

/// Reads one line of the workload. Lengths are met: an answer has exactly its tokens.
fn request(line: &str) -> anyhow::Result<Request> {
    let value: Value = serde_json::from_str(line).context("a line of the workload is not JSON")?;
    let at = value["at"].as_f64().context("a request of the workload has no moment")?;
    let output = &value["max_tokens"];
    let body = json!({
        "model": "tiny", "prompt": value["prompt"], "max_tokens": output, "min_tokens": output,
        "ignore_eos": true, "temperature": 0, "stream": true,
        "stream_options": {"include_usage": true},
    });
    Ok(Request { at: Span::secs_f64(at), body: body.to_string() })
}

/// Sends a plan to its end, on a thread of its own: the rows as they ended.
pub(super) fn send(plan: &[Request], settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let planned = plan.iter().map(|request| Planned {
        at: request.at,
        body: request.body.clone().into(),
        ..Planned::default()
    });
    let mut rows = Vec::with_capacity(plan.len());
    runtime.block_on(load::run(planned, settings, |row| rows.push(row), pending()));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::request;

    #[test]
    fn a_line_becomes_a_request_whose_answer_has_its_length() {
        let line = "{\"at\":0.5,\"prompt\":\" a b\",\"tokens\":2,\"max_tokens\":7}";
        let request = request(line).unwrap();
        assert_eq!(request.at.0, 500_000_000);
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!((&body["min_tokens"], &body["prompt"]), (&7.into(), &" a b".into()));
        assert!(super::request("{}").is_err() && super::request("x").is_err());
    }
}
