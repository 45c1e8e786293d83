//! Writes the page of live results: the verdicts first, then who signs, then what it rests on.

use std::fmt::Write as _;

use super::sections::{cost, findings, generator, latencies, repeat, runs, verdicts, written};
use super::{Live, beside, burn, limits, server};
use crate::drill::verdict::Outcome;
use crate::report::escape::Escaped;
use crate::report::figures::Figure;
use crate::report::frame::{contents, document, section, sentence_case};
use crate::report::html::{list, paragraph};
use crate::report::{SignOff, sign_off};

/// A part of a page.
pub(super) struct Part {
    /// Its name in addresses.
    pub(super) id: String,
    /// Its heading.
    pub(super) title: String,
    /// What it holds.
    pub(super) body: String,
}

impl Part {
    pub(super) fn new(id: impl Into<String>, title: impl Into<String>, body: String) -> Self {
        Self { id: id.into(), title: title.into(), body }
    }
}

/// The page. `raw` are the hashes of the raw files beside it.
pub(super) fn page(live: &Live<'_>, figures: &[Figure], raw: &[(String, String)]) -> String {
    let mut all = vec![Part::new("verdicts", "Verdicts", verdicts(live))];
    if let Some(sign_off) = live.sign_off {
        let html = sign_off::html(sign_off, live.outcome().name());
        all.push(Part::new("sign-off", "Sign-off", html));
    }
    let criteria = findings(live) + &written(live.held);
    all.push(Part::new("criteria", "Criteria", criteria));
    all.extend(parts(live, figures, ""));
    if let Some(beside) = beside::section(live) {
        all.push(Part::new("simulated", SIMULATED, beside));
    }
    all.push(Part::new("limits", LIMITS, list(&limits::sentences(live))));
    all.push(Part::new("repeat", REPEAT, repeat(live, raw)));
    let claim = claim(live);
    let mut html = header(live, &claim);
    put(&mut html, &all.iter().collect::<Vec<_>>());
    document(&format!("{}: {claim}", live.outcome()), &html)
}

/// The heading of what a simulation came to.
pub(super) const SIMULATED: &str = "Beside the simulation";
/// The heading of what nothing says.
pub(super) const LIMITS: &str = "What this does not show";
/// The heading of the command.
pub(super) const REPEAT: &str = "How to repeat it";

/// Adds the contents, and the parts below them.
pub(super) fn put(html: &mut String, parts: &[&Part]) {
    let entries: Vec<(&str, &str)> =
        parts.iter().map(|part| (part.id.as_str(), part.title.as_str())).collect();
    html.push_str(&contents(&entries));
    for part in parts {
        html.push_str(&section(&part.id, &part.title, &part.body));
    }
}

/// What a comparison rests on: its figures, what refusals cost, the runs. `prefix` begins every
/// name in addresses.
pub(super) fn parts(live: &Live<'_>, figures: &[Figure], prefix: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |id: &str, title: &str, body: String| {
        parts.push(Part::new(format!("{prefix}{id}"), title, body));
    };
    for figure in figures {
        let id = format!("{prefix}{}", figure.id);
        let more = if figure.id == "ttft" { latencies(live) } else { String::new() };
        add(figure.id, &figure.heading, with_table(figure, &id) + &more);
    }
    if figures.iter().all(|figure| figure.id != "ttft") {
        // A summary of another tool has no request to draw, and still has figures.
        add("latencies", "Latencies", latencies(live));
    }
    add("cost", "What it cost", cost(live));
    if let Some(server) = server::section(live) {
        add("server", "Refusals, as the server counts them", server);
    }
    add("runs", "The runs", runs(live) + &generator(live));
    let arms = live.comparison.arms.iter().enumerate();
    let budgets = arms.flat_map(|(nth, arm)| {
        let said = burn::sentences(live, nth, arm).into_iter();
        said.map(|said| format!("{}: {said}.", arm.label))
    });
    let budgets: Vec<String> = budgets.collect();
    if !budgets.is_empty() {
        add("budget", "As a budget of errors", list(&budgets));
    }
    parts
}

/// The claim under test as a sentence.
pub(super) fn claim(live: &Live<'_>) -> String {
    let Some(arm) = live.tested() else { return "nothing was tested".to_owned() };
    claim_of(&arm.label, live.outcome(), "", live.sign_off)
}

/// The claim under test as a sentence; `at` says where, after a space.
pub(super) fn claim_of(
    label: &str,
    outcome: Outcome,
    at: &str,
    sign_off: Option<&SignOff>,
) -> String {
    let verb = match outcome {
        Outcome::Go => "meets its criteria",
        Outcome::NoGo => "does not meet its criteria",
        Outcome::Inconclusive => "may or may not meet its criteria",
    };
    let service = sign_off.map_or(String::new(), |it| format!(" for {}", it.service));
    format!("{label} {verb}{at}{service}")
}

fn header(live: &Live<'_>, claim: &str) -> String {
    let outcome = live.outcome().name();
    let reason = live.reason();
    // The first sentence mostly says the reason again, or what does not hold.
    let first = live.comparison.summary.first().filter(|it| !it.contains(&reason));
    let first = first.filter(|_| live.contradiction().is_none());
    let first = first.map_or(String::new(), |it| paragraph(it));
    let mut html = format!(
        "<header>\n<h1><span class=\"badge {}\">{outcome}</span> {}</h1>\n\
         <p class=\"reason\">{}</p>\n{first}",
        outcome.to_lowercase(),
        Escaped(claim),
        Escaped(&sentence_case(&reason)),
    );
    let offered: u64 = live.comparison.arms.iter().map(|arm| arm.all.buckets.offered).sum();
    let arms = live.comparison.arms.len();
    let _ = write!(
        html,
        "<p class=\"facts\">Measured on live endpoints: {} and {offered} requests that count. \
         Every figure is over all that were offered, unless it says survivors.</p>\n</header>\n",
        crate::drill::notation::counted(arms, "arm"),
    );
    html
}

/// A figure with the same as a table; `id` is unique on the page.
pub(in crate::report) fn with_table(figure: &Figure, id: &str) -> String {
    format!(
        "<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n\
         <details>\n<summary>The same as a table</summary>\n{}</details>\n",
        figure.drawing.inline(id, &figure.heading, &figure.caption),
        Escaped(&figure.caption),
        figure.table.html(&|_| false)
    )
}
