//! Asks an endpoint one small thing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, ensure};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// How many bytes an answer may have: a page of metrics has about a hundred thousand.
const BYTES_MAX: u64 = 8 << 20;

/// A request to a port of this machine by HTTP/1.0, which ends the connection with the answer: the
/// status and the body.
pub(super) fn ask(port: u16, verb: &str, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    // In one piece: several would wait for each other's acknowledgement.
    let asked = format!(
        "{verb} {path} HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(asked.as_bytes())?;
    let mut bytes = Vec::new();
    socket.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("no status")?, body.to_owned()))
}

/// Whether an endpoint answers with 200.
pub(super) fn is_well(port: u16, verb: &str, path: &str, body: &str) -> bool {
    ask(port, verb, path, body).is_ok_and(|(status, _)| status == 200)
}

/// The sum of a metric over its labels, from a page in Prometheus' text format.
pub(super) fn metric(port: u16, name: &str) -> anyhow::Result<f64> {
    let (status, page) = ask(port, "GET", "/metrics", "")?;
    ensure!(status == 200, "the metrics of port {port} answer with {status}");
    sum_of(&page, name).with_context(|| format!("port {port} has no metric {name}"))
}

fn sum_of(page: &str, name: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) {
            return None;
        }
        line.rsplit_once(' ')?.1.parse().ok()
    });
    values.fold(None, |sum: Option<f64>, value: f64| Some(sum.unwrap_or(0.0) + value))
}

/// A port that nobody listens on.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::sum_of;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_not_over_its_namesakes() {
        let page =
            "# HELP a:n total\na:n{e=\"0\"} 3.0\na:n{e=\"1\"} 4\na:n_max{e=\"0\"} 9\nb 1e3\n";
        assert_eq!(sum_of(page, "a:n"), Some(7.0));
        assert_eq!(sum_of(page, "b"), Some(1000.0));
        assert_eq!(sum_of(page, "a"), None);
    }
}
