//! Writes the page of a capacity: the answer first, then what it rests on.

use super::Paper;
use crate::capacity::sentences;
use crate::drill::notation::{counted, percent, three_digits};
use crate::report::escape::Escaped;
use crate::report::figures::Figure;
use crate::report::frame::{contents, document, narrow, section, sentence_case};
use crate::report::html::{Table, list};
use crate::report::live::page::with_table;
use crate::report::live::sections::{repeat_of, written};

/// The page; `raw` are the hashes of the rows that figures are made of.
pub(super) fn page(paper: &Paper<'_>, figure: &Figure, raw: &[(String, String)]) -> String {
    let confidence = ("confidence of each end", percent(paper.capacity.confidence));
    let sections = [
        ("answer", "What it came to", answer(paper)),
        (figure.id, figure.heading.as_str(), with_table(figure, figure.id)),
        ("rates", "Each rate, and why", rates(paper)),
        ("criteria", "Criteria", written(paper.held)),
        ("offered", "What was offered", offered(paper)),
        ("limits", "What this does not show", list(&limits(paper))),
        ("repeat", "How to repeat it", repeat_of(paper.origin, &[confidence], raw)),
    ];
    let title = title(paper);
    let mut html = header(paper, &title);
    let entries: Vec<(&str, &str)> = sections.iter().map(|(id, title, _)| (*id, *title)).collect();
    html.push_str(&contents(&entries));
    for (id, title, body) in &sections {
        html.push_str(&section(id, title, body));
    }
    document(&title, &html)
}

/// The answer in a line.
fn title(paper: &Paper<'_>) -> String {
    let answer = &paper.capacity.answer;
    match (answer.rate, answer.high.is_finite()) {
        (Some(rate), true) => format!("Capacity: {} requests a second", three_digits(rate)),
        (Some(rate), false) => {
            format!("Capacity: at least {} requests a second", three_digits(rate))
        }
        (None, true) => {
            format!("Capacity: less than {} requests a second", three_digits(answer.high))
        }
        (None, false) => "Capacity: unknown".to_owned(),
    }
}

fn header(paper: &Paper<'_>, title: &str) -> String {
    let (class, word) = match paper.capacity.exit_code() {
        0 => ("go", "FOUND"),
        1 => ("no-go", "NONE"),
        _ => ("inconclusive", "OPEN"),
    };
    let trials = &paper.capacity.trials;
    let runs: usize = trials.iter().map(|it| it.runs.len() + it.invalid_runs.len()).sum();
    let requests: u64 = trials.iter().map(|trial| trial.offered).sum();
    let first = sentences(paper.capacity, paper.growth).into_iter().next().unwrap_or_default();
    format!(
        "<header>\n<h1><span class=\"badge {class}\">{word}</span> {}</h1>\n\
         <p class=\"reason\">{}</p>\n\
         <p class=\"facts\">Measured on a live endpoint: {} at {}, and {requests} requests that \
         count. Every figure is over all that were offered.</p>\n</header>\n",
        Escaped(title),
        Escaped(&sentence_case(first.strip_prefix("capacity: ").unwrap_or(&first))),
        counted(runs, "run"),
        counted(trials.len(), "rate"),
    )
}

/// Every sentence of the answer.
fn answer(paper: &Paper<'_>) -> String {
    let all = sentences(paper.capacity, paper.growth);
    let said: Vec<String> =
        all.iter().map(|it| sentence_case(it.strip_suffix('.').unwrap_or(it))).collect();
    list(&said)
}

fn rates(paper: &Paper<'_>) -> String {
    let mut table = Table::new(
        "Why each rate holds, fails or is open, by its own runs. A rate may also be decided by \
         runs at its neighbours: what holds at a higher rate holds here, and what fails at a lower \
         one fails here.",
        &["offered/s", "criteria", "why", "runs"],
    );
    for trial in &paper.capacity.trials {
        let invalid = trial.invalid_runs.iter().map(|run| format!("{run} INVALID"));
        let runs: Vec<String> = trial.runs.iter().cloned().chain(invalid).collect();
        table.row([
            three_digits(trial.per_s),
            crate::capacity::state(trial).to_owned(),
            sentence_case(&trial.reason),
            runs.join(", "),
        ]);
    }
    table.html(&|_| false)
}

fn offered(paper: &Paper<'_>) -> String {
    let mut table = Table::new("The same at every rate, but for the rate.", &["what", "value"]);
    for (what, value) in paper.offered {
        table.row([(*what).to_owned(), value.clone()]);
    }
    narrow(&table)
}

fn limits(paper: &Paper<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if !paper.capacity.trials.iter().all(|trial| trial.invalid_runs.is_empty()) {
        all.push(
            "Some runs are INVALID, since the generator could not keep up; no figure counts them."
                .to_owned(),
        );
    }
    all.extend(
        [
            "Other requests than these: longer prompts, longer answers, or prompts that share more \
             or less, have another capacity.",
            "What builds up over hours: a run sees only what happens within its length. A rate \
             that is a little too high can look well for minutes.",
            "How the target is after an overload: every rate began with an idle target, and with \
             prompts that no run before had sent.",
            "Rates between the two ends: they were not decided.",
        ]
        .map(str::to_owned),
    );
    all
}
