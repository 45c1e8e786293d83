//! Reads a run of ours, and holds its rows against its summary.
//!
//! Rows that are missing, doubled or changed change every figure over all that was offered, and
//! nothing in a row tells of another one. So the summary has to say the same of them, or the run is
//! refused. Without a summary a run was killed: its rows are read, and it is INVALID.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::super::gather::Gather;
use super::super::summary::Summary;
use super::super::{
    About, Invalid, Outcome, ROWS_MAX, Results, ResultsError, Row, Run, SCHEMA, SUMMARY_FILE,
};
use super::lines::Lines;
use super::own_summary;

/// What to do about files that contradict one another.
const REMEDY: &str = "one of both was changed or copied in part; copy the folder again, or measure \
                      again";

/// Reads the rows, and what they were from the summary beside them.
pub(super) fn open(rows: &Path) -> Result<Results, ResultsError> {
    let summary = own_summary(rows)?;
    let mut about = summary.as_ref().map_or_else(|| Ok(killed()), |it| about(rows, it))?;
    let file = rows;
    let (mut rows, cut): (Vec<Row>, _) = Lines::open(rows)?.each(ROWS_MAX, Row::check)?;
    match (&summary, cut) {
        (Some(_), Some(_)) => {
            let what = "its last line is cut, and the summary says that the run was finished";
            return Err(ResultsError::of(file, what, REMEDY));
        }
        (None, cut) => about.notes.extend(cut),
        (Some(summary), None) => reconcile(file, summary, &rows, &about)?,
    }
    rows.sort_by_key(|row| row.request);
    Ok(Results::Run(Box::new(Run { about, rows })))
}

/// What is known of a run without a summary.
fn killed() -> About {
    let what = "there is no summary.json: the run was killed, and what had not ended is missing, \
                so that nothing can be said of all that was offered; run it again";
    About {
        tool: "forebay".to_owned(),
        was_interrupted: true,
        invalid: vec![Invalid { reason: "killed".to_owned(), what: what.to_owned() }],
        ..About::default()
    }
}

fn about(rows: &Path, summary: &Value) -> Result<About, ResultsError> {
    let path = rows.with_file_name(SUMMARY_FILE);
    let schema = summary["schema"].as_str().unwrap_or_default();
    if schema != SCHEMA {
        let what = format!("has the schema {schema:?}, and {SCHEMA:?} is what is read here");
        let remedy = "read it with the version of forebay that wrote it, or a newer one";
        return Err(ResultsError::of(&path, what, remedy));
    }
    About::deserialize(&summary["about"])
        .map_err(|error| ResultsError::of(&path, format!("about: {error}"), "run it again"))
}

/// Refuses rows that do not sum up to what the summary says.
fn reconcile(
    file: &Path,
    summary: &Value,
    rows: &[Row],
    about: &About,
) -> Result<(), ResultsError> {
    let mut gather = Gather::default();
    rows.iter().for_each(|row| gather.add(row));
    let found = counts(&gather.into_summary(about));
    for (pointer, found) in found {
        let said = summary.pointer(&pointer).and_then(Value::as_u64);
        if said != Some(found) {
            let said = said.map_or("no number".to_owned(), |said| said.to_string());
            let name = pointer[1..].replace('/', ".");
            let what = format!("{name} is {said} in {SUMMARY_FILE}, and {found} in the rows");
            return Err(ResultsError::of(file, what, REMEDY));
        }
    }
    Ok(())
}

/// Every count of a summary that rows decide, by where it stands in the file.
fn counts(summary: &Summary) -> Vec<(String, u64)> {
    let of = |place: &str, counts: &BTreeMap<Outcome, u64>| -> Vec<(String, u64)> {
        let named = counts.iter().map(|(outcome, count)| (outcome.name(), *count));
        named.map(|(name, count)| (format!("{place}/{name}"), count)).collect()
    };
    let Summary { all, conservation, .. } = summary;
    let mut counts = vec![
        ("/all/offered".to_owned(), all.offered),
        ("/conservation/rows".to_owned(), conservation.rows),
        ("/conservation/missing".to_owned(), conservation.missing),
        ("/conservation/repeated".to_owned(), conservation.repeated),
        ("/all/attempts".to_owned(), all.attempts),
    ];
    counts.extend(of("/all/by_outcome", &all.by_outcome));
    counts.extend(of("/all/attempts_by_outcome", &all.attempts_by_outcome));
    counts.extend(of("/warmup", &summary.warmup));
    counts
}
