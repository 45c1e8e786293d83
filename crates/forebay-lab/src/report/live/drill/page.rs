//! Writes the page of a drill of several cells: all of them together, and then each.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::page::{LIMITS, Part, REPEAT, SIMULATED, claim_of, parts, put, with_table};
use super::super::sections::{findings, repeat_of, verdicts, written};
use super::super::{Live, beside, limits};
use super::{CellFigures, Paper};
use crate::compare::comparison::ArmFigures;
use crate::drill::notation::{counted, listed, percent};
use crate::drill::verdict::Outcome;
use crate::report::escape::Escaped;
use crate::report::figures::Figure;
use crate::report::frame::{document, sentence_case, subsection};
use crate::report::html::{Table, list};
use crate::report::sign_off;

/// What is written of a cell while its runs are at hand.
pub(super) struct CellPage {
    part: Part,
    limits: Vec<String>,
}

impl CellPage {
    pub(super) fn of(live: &Live<'_>, cell: &CellFigures<'_>, figures: &[Figure]) -> Self {
        let prefix = cell.prefix();
        let mut body = verdicts(live);
        body.push_str(&subsection(&format!("{prefix}criteria"), "Criteria", &findings(live)));
        for part in parts(live, figures, &prefix) {
            body.push_str(&subsection(&part.id, &part.title, &part.body));
        }
        let part = Part::new(cell.cell.name(), cell.cell.title(), body);
        Self { part, limits: limits::sentences(live) }
    }
}

/// The page. `raw` are the hashes of the files that it is made of.
pub(super) fn page(
    paper: &Paper<'_>,
    sweep: Option<&Figure>,
    cells: &[CellPage],
    raw: &[(String, String)],
) -> String {
    let mut all = vec![Part::new("verdicts", "Verdicts", overview(paper))];
    all.extend(
        sweep.map(|figure| Part::new(figure.id, &*figure.heading, with_table(figure, figure.id))),
    );
    if let Some(sign_off) = &paper.drill.design.sign_off {
        let html = sign_off::html(sign_off, paper.drill.outcome().name());
        all.push(Part::new("sign-off", "Sign-off", html));
    }
    all.push(Part::new("criteria", "Criteria", written(&paper.held)));
    let mut simulated = beside::table(&["cell"]);
    for cell in &paper.cells {
        beside::rows(&cell.live(paper, &[]), &mut simulated, &[cell.cell.title()]);
    }
    if !simulated.rows.is_empty() {
        let html = simulated.html(&|_| false);
        all.push(Part::new("simulated", SIMULATED, html));
    }
    let mut html = header(paper);
    let ends = [
        Part::new("limits", LIMITS, list(&limits_of(cells))),
        Part::new("repeat", REPEAT, repeat(paper, raw)),
    ];
    let parts: Vec<&Part> =
        all.iter().chain(cells.iter().map(|cell| &cell.part)).chain(&ends).collect();
    put(&mut html, &parts);
    document(&format!("{}: {}", paper.drill.outcome(), claim(paper)), &html)
}

/// What no cell shows, each sentence once.
pub(super) fn limits_of(cells: &[CellPage]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = cells.iter().flat_map(|cell| &cell.limits);
    all.filter(|said| seen.insert(*said)).cloned().collect()
}

/// The claim under test as a sentence.
pub(super) fn claim(paper: &Paper<'_>) -> String {
    let outcome = paper.drill.outcome();
    let titles = paper.cells.iter().filter(|cell| cell.outcome == outcome);
    let titles: Vec<String> = titles.map(|cell| cell.cell.title()).collect();
    let at = match (outcome, titles.len()) {
        (Outcome::Go, many) => format!(" in all {}", counted(many, "cell")),
        (Outcome::NoGo, many) if many == paper.cells.len() => {
            format!(" in any of {}", counted(many, "cell"))
        }
        (_, many) if many == 0 || many == paper.cells.len() => String::new(),
        _ => format!(" at {}", listed(&titles)),
    };
    let label = paper.drill.design.arms.last().map_or("", |arm| arm.name.as_str());
    claim_of(label, outcome, &at, paper.drill.design.sign_off.as_ref())
}

/// Why, from the cell that decides.
pub(super) fn reason(paper: &Paper<'_>) -> String {
    let outcome = paper.drill.outcome();
    let of = |cell: &CellFigures<'_>| {
        let tested = cell.comparison.arms.last();
        let why = tested.map_or(String::new(), |arm| arm.reason.clone());
        let why = cell.contradiction.clone().unwrap_or(why);
        format!("{}: {why}", cell.cell.title())
    };
    let mut contradicted = paper.cells.iter().filter(|cell| cell.contradiction.is_some());
    let mut decisive = paper.cells.iter().filter(|cell| cell.outcome == outcome);
    match outcome {
        Outcome::Go => "every criterion holds in every cell".to_owned(),
        Outcome::NoGo => decisive.next().map_or(String::new(), of),
        Outcome::Inconclusive => {
            let stopped = || "it was stopped before its end".to_owned();
            contradicted.next().or_else(|| decisive.next()).map_or_else(stopped, of)
        }
    }
}

fn header(paper: &Paper<'_>) -> String {
    let outcome = paper.drill.outcome().name();
    let arms = paper.cells.iter().flat_map(|cell| &cell.comparison.arms);
    let offered: u64 = arms.map(|arm| arm.all.buckets.offered).sum();
    let mut html = format!(
        "<header>\n<h1><span class=\"badge {}\">{outcome}</span> {}</h1>\n\
         <p class=\"reason\">{}</p>\n",
        outcome.to_lowercase(),
        Escaped(&claim(paper)),
        Escaped(&sentence_case(&reason(paper))),
    );
    let _ = write!(
        html,
        "<p class=\"facts\">Measured on live endpoints: {}, {} and {offered} requests that count. \
         A cell is a number of workers and a load. Every figure is over all that were offered, \
         unless it says survivors.</p>\n</header>\n",
        counted(paper.drill.design.arms.len(), "arm"),
        counted(paper.cells.len(), "cell"),
    );
    html
}

/// The quantiles of TTFT over all that were offered, as an arm's row has them.
pub(super) fn ttft(arm: &ArmFigures) -> [String; 3] {
    let ttft = arm.all.latencies.iter().find(|latency| latency.metric == "ttft_ms");
    ttft.map_or([const { String::new() }; 3], |ttft| {
        [&ttft.offered.p50, &ttft.offered.p90, &ttft.offered.p99].map(|it| it.said.clone())
    })
}

/// Each arm in each cell in a row.
fn overview(paper: &Paper<'_>) -> String {
    let mut table = Table::new(
        "GO: every criterion holds. NO-GO: one does not. INCONCLUSIVE: more blocks must decide. \
         The reasons stand with each cell below.",
        &["cell", "arm", "verdict", "offered", "completed", "refused", "TTFT p50", "p90", "p99"],
    );
    for cell in &paper.cells {
        let arms = &cell.comparison.arms;
        for (nth, arm) in arms.iter().enumerate() {
            let is_tested = nth + 1 == arms.len();
            let tested = if is_tested { " (under test)" } else { "" };
            // A verdict that a server contradicts is none.
            let verdict = if is_tested { cell.outcome } else { arm.outcome.0 };
            let head = [
                cell.cell.title(),
                format!("{}{tested}", arm.label),
                verdict.to_string(),
                arm.all.buckets.offered.to_string(),
                arm.all.completed_share.said.clone(),
                arm.all.refused_share.said.clone(),
            ];
            table.row(head.into_iter().chain(ttft(arm)));
        }
    }
    table.html(&|row| row[1].ends_with("(under test)"))
}

fn repeat(paper: &Paper<'_>, raw: &[(String, String)]) -> String {
    let confidence = paper
        .cells
        .iter()
        .map(|cell| format!("{} ({})", percent(cell.comparison.confidence), cell.cell.title()));
    let first = paper.cells.first().map(|cell| cell.comparison);
    let rows = [
        ("seed of every resample", first.map_or(0, |it| it.seed).to_string()),
        ("resamples", first.map_or(0, |it| it.resamples).to_string()),
        ("confidence, after looks", confidence.collect::<Vec<_>>().join(", ")),
    ];
    repeat_of(paper.origin, &rows, raw)
}
