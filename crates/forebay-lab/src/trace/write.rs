//! Writes a trace as JSON lines that this reader and Mooncake's tools read.

use std::io::{self, Write};

use super::jsonl::MOONCAKE_ID_TOKENS;
use super::{TraceRequest, decimal};

/// Writes one request as a line: Mooncake's four fields, and of the others only what is there.
pub fn write_request(out: &mut impl Write, request: &TraceRequest) -> io::Result<()> {
    write!(out, "{{\"timestamp\": {}", decimal::millis(request.at.0))?;
    write!(out, ", \"input_length\": {}", request.prompt.0)?;
    write!(out, ", \"output_length\": {}", request.output.0)?;
    out.write_all(b", \"hash_ids\": [")?;
    for (nth, id) in request.ids.iter().enumerate() {
        let comma = if nth == 0 { "" } else { ", " };
        write!(out, "{comma}{id}")?;
    }
    out.write_all(b"]")?;
    if request.id_tokens != MOONCAKE_ID_TOKENS {
        write!(out, ", \"id_tokens\": {}", request.id_tokens)?;
    }
    if let Some(session) = request.session {
        // As a string, since AIPerf takes no other.
        write!(out, ", \"session_id\": \"{session}\"")?;
    }
    if let Some(delay) = request.delay {
        write!(out, ", \"delay\": {}", decimal::millis(delay.0))?;
    }
    for (field, name) in [("class", &request.class), ("tenant", &request.tenant)] {
        if let Some(name) = name {
            write!(out, ", \"{field}\": ")?;
            serde_json::to_writer(&mut *out, &**name)?;
        }
    }
    out.write_all(b"}\n")
}
