//! Reads traces that are tables: Azure's LLM inference traces of 2023 and 2024, and `BurstGPT`.
//!
//! Neither quotes its fields, and neither says what its prompts share. Columns are found by name.

use std::sync::Arc;

use forebay_core::{Span, Tokens};

use super::jsonl::{LENGTH_TOKENS_MAX, MOONCAKE_ID_TOKENS};
use super::lines::Lines;
use super::order::Row;
use super::{Notes, TraceError, TraceRequest, clock, decimal};

/// Which table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// `TIMESTAMP,ContextTokens,GeneratedTokens`, with a date and a time of day.
    Azure,
    /// `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`, with seconds.
    BurstGpt,
}

/// Where the columns are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    table: Table,
    time: usize,
    prompt: usize,
    output: usize,
    count: usize,
}

impl Columns {
    /// The columns that this header names, if it is one of the tables.
    pub(super) fn of(header: &str) -> Option<Self> {
        let names: Vec<String> =
            header.split(',').map(|name| bare(name).to_ascii_lowercase()).collect();
        let place = |name: &str| names.iter().position(|other| other == name);
        let found = |table, prompt, output| {
            let (time, prompt, output) = (place("timestamp")?, place(prompt)?, place(output)?);
            Some(Self { table, time, prompt, output, count: names.len() })
        };
        found(Table::Azure, "contexttokens", "generatedtokens")
            .or_else(|| found(Table::BurstGpt, "request tokens", "response tokens"))
    }
}

fn bare(field: &str) -> &str {
    field.trim().trim_matches('"')
}

/// The rows of a table, after its header.
pub(super) struct TableRows {
    lines: Lines,
    columns: Columns,
    notes: Notes,
    no_ids: Arc<[u64]>,
}

impl TableRows {
    /// The rows after the header, which `lines` has not yet read.
    pub(super) fn new(
        mut lines: Lines,
        columns: Columns,
        notes: &Notes,
    ) -> Result<Self, TraceError> {
        lines.advance()?;
        Ok(Self { lines, columns, notes: notes.clone(), no_ids: Arc::from([]) })
    }

    /// The current line's request; `None` where it is one that can't be played.
    fn row(&self) -> Result<Option<Row>, TraceError> {
        let Columns { table, time, prompt, output, count } = self.columns;
        let lines = &self.lines;
        let line = std::str::from_utf8(lines.line())
            .map_err(|_| lines.fault("the line is not UTF-8 text", "save the table as UTF-8"))?;
        let fields: Vec<&str> = line.split(',').map(bare).collect();
        if fields.len() != count {
            let what = format!("the row has {} fields, the header {count}", fields.len());
            let cut = "the file was not written to its end: fetch it again, or drop the line";
            let remedy =
                if lines.is_complete() { "give every row the header's fields" } else { cut };
            return Err(lines.fault(what, remedy));
        }
        let at = match table {
            Table::Azure => clock::nanos(fields[time]),
            Table::BurstGpt => decimal::nanos(fields[time], 9),
        };
        let Some(at) = at else {
            let form = match table {
                Table::Azure => {
                    "a time such as 2023-11-16 18:17:03.9799600 is expected, UTC or with a zone"
                }
                Table::BurstGpt => "a number of seconds is expected, not negative",
            };
            return Err(lines.fault(format!("the timestamp is {:?}", fields[time]), form));
        };
        let prompt = self.length(fields[prompt])?;
        let output = self.length(fields[output])?;
        if prompt == 0 || output == 0 {
            let what = match (output, table) {
                (0, Table::BurstGpt) => "with no response tokens (a failed request) skipped",
                (0, Table::Azure) => "with no generated tokens skipped",
                _ => "with an empty prompt skipped",
            };
            self.notes.add(what, lines.number());
            return Ok(None);
        }
        let request = TraceRequest {
            at: Span(at),
            prompt: Tokens(prompt),
            output: Tokens(output),
            ids: Arc::clone(&self.no_ids),
            id_tokens: MOONCAKE_ID_TOKENS,
            session: None,
            delay: None,
            class: None,
            tenant: None,
        };
        Ok(Some(Row { line: lines.number(), request }))
    }

    fn length(&self, field: &str) -> Result<u64, TraceError> {
        if let Ok(length @ 0..=LENGTH_TOKENS_MAX) = field.parse() {
            return Ok(length);
        }
        let shown: String = field.chars().take(40).collect();
        let remedy = format!("a whole number of tokens up to {LENGTH_TOKENS_MAX} is expected");
        Err(self.lines.fault(format!("a length is {shown:?}"), remedy))
    }
}

impl Iterator for TableRows {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.lines.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
            if let Some(row) = self.row().transpose() {
                return Some(row);
            }
        }
    }
}
