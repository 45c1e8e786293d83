//! Writes the verdicts for programs to read.

use indexmap::IndexMap;
use serde::Serialize;

use super::Origin;
use super::folder::KIND;
use crate::drill::Drill;

#[derive(Serialize)]
struct Finding<'a> {
    kind: &'a str,
    trace: &'a str,
    engine: &'a str,
    workers: &'a [u32],
    seeds: &'a [u64],
    under_test: Option<&'a str>,
    outcome: Option<&'a str>,
    exit_code: u8,
    criteria: Vec<String>,
    criteria_sha256: String,
    verdicts: Vec<ArmVerdict<'a>>,
    #[serde(flatten)]
    origin: Option<Written<'a>>,
}

#[derive(Serialize)]
struct ArmVerdict<'a> {
    arm: &'a str,
    outcome: &'a str,
    reason: &'a str,
    refused: u64,
    refused_by: IndexMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Written<'a> {
    version: &'a str,
    command: String,
    inputs: Vec<Named<'a>>,
    files: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    sha256: &'a str,
}

/// One object with the verdict on each arm, on one line: the last line of `--json`.
pub fn verdicts_json(drill: &Drill) -> String {
    let verdicts = verdicts(drill, "forebay drill verdicts", None);
    serde_json::to_string(&verdicts).expect("strings and numbers are always JSON")
}

/// The same with where it came from, for the folder.
pub(super) fn manifest_json(drill: &Drill, origin: &Origin, files: &[(String, String)]) -> String {
    let named = |pairs: &'_ [(String, String)]| -> Vec<(String, String)> { pairs.to_vec() };
    let (inputs, files) = (named(&origin.inputs), named(files));
    let written = Written {
        version: &origin.version,
        command: origin.command(),
        inputs: inputs.iter().map(|(name, sha256)| Named { name, sha256 }).collect(),
        files: files.iter().map(|(name, sha256)| Named { name, sha256 }).collect(),
    };
    let verdicts = verdicts(drill, KIND, Some(written));
    let json = serde_json::to_string_pretty(&verdicts);
    json.expect("strings and numbers are always JSON") + "\n"
}

fn verdicts<'a>(drill: &'a Drill, kind: &'a str, origin: Option<Written<'a>>) -> Finding<'a> {
    let under_test = drill.under_test();
    let arms = drill.design.arms.iter().zip(&drill.verdicts);
    Finding {
        kind,
        trace: &drill.design.trace,
        engine: &drill.design.engine,
        workers: &drill.design.workers,
        seeds: &drill.design.seeds,
        under_test: under_test.map(|(arm, _)| arm.name()),
        outcome: under_test.map(|(_, verdict)| verdict.outcome.name()),
        exit_code: drill.exit_code(),
        criteria: drill.design.criteria.list().iter().map(ToString::to_string).collect(),
        criteria_sha256: drill.design.criteria.hash(),
        verdicts: arms
            .map(|(arm, verdict)| {
                let refused_by = drill.refused_by(*arm);
                ArmVerdict {
                    arm: arm.name(),
                    outcome: verdict.outcome.name(),
                    reason: &verdict.reason,
                    refused: refused_by.values().sum(),
                    refused_by,
                }
            })
            .collect(),
        origin,
    }
}
