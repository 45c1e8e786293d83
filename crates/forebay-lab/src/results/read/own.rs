//! Reads a run of ours.

use std::path::Path;

use serde::Deserialize;

use super::super::{About, ROWS_MAX, Results, ResultsError, Row, Run, SCHEMA, SUMMARY_FILE};
use super::lines::Lines;
use super::own_summary;

/// Reads the rows, and what they were from the summary beside them.
pub(super) fn open(rows: &Path) -> Result<Results, ResultsError> {
    let mut about = match own_summary(rows)? {
        None => {
            let note = "no summary.json: the run was not finished, or its rows were moved";
            let tool = "forebay".to_owned();
            About { tool, was_interrupted: true, notes: vec![note.into()], ..About::default() }
        }
        Some(summary) => {
            let path = rows.with_file_name(SUMMARY_FILE);
            let schema = summary["schema"].as_str().unwrap_or_default();
            if schema != SCHEMA {
                let what =
                    format!("has the schema {schema:?}, and {SCHEMA:?} is what is read here");
                let remedy = "read it with the version of forebay that wrote it, or a newer one";
                return Err(ResultsError::of(&path, what, remedy));
            }
            About::deserialize(&summary["about"]).map_err(|error| {
                ResultsError::of(&path, format!("about: {error}"), "run it again")
            })?
        }
    };
    let (mut rows, note): (Vec<Row>, _) = Lines::open(rows)?.each(ROWS_MAX)?;
    about.notes.extend(note);
    rows.sort_by_key(|row| row.request);
    Ok(Results::Run(Box::new(Run { about, rows })))
}
