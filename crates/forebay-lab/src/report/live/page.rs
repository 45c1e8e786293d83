//! Writes the page of live results: the verdicts first, then who signs, then what it rests on.

use std::fmt::Write as _;

use super::sections::{cost, criteria, generator, latencies, repeat, verdicts};
use super::{Live, burn, limits, server};
use crate::drill::verdict::Outcome;
use crate::report::escape::Escaped;
use crate::report::figures::Figure;
use crate::report::frame::{contents, document, section, sentence_case};
use crate::report::html::{list, paragraph};
use crate::report::sign_off;

/// The page. `raw` are the hashes of the raw files beside it.
pub(super) fn page(live: &Live<'_>, figures: &[Figure], raw: &[(String, String)]) -> String {
    let mut sections = vec![("verdicts", "Verdicts", verdicts(live))];
    if let Some(sign_off) = live.sign_off {
        let verdict = live.outcome().name();
        sections.push(("sign-off", "Sign-off", sign_off::html(sign_off, verdict)));
    }
    sections.push(("criteria", "Criteria", criteria(live)));
    let figure = |id: &str| figures.iter().find(|figure| figure.id == id);
    let mut draw = |id: &'static str, more: String| {
        if let Some(figure) = figure(id) {
            sections.push((figure.id, figure.heading.as_str(), with_table(figure) + &more));
        }
    };
    draw("population", String::new());
    draw("ttft", latencies(live));
    draw("over-time", String::new());
    draw("who-was-refused", String::new());
    draw("differences", String::new());
    sections.push(("cost", "What it cost", cost(live)));
    if let Some(server) = server::section(live) {
        sections.push(("server", "Refusals, as the server counts them", server));
    }
    sections.push(("generator", "The load generator's own health", generator(live)));
    let budgets: Vec<String> = live
        .comparison
        .arms
        .iter()
        .enumerate()
        .flat_map(|(nth, arm)| {
            burn::sentences(live, nth, arm)
                .into_iter()
                .map(|said| format!("{}: {said}.", arm.label))
                .collect::<Vec<_>>()
        })
        .collect();
    if !budgets.is_empty() {
        sections.push(("budget", "As a budget of errors", list(&budgets)));
    }
    sections.push(("limits", "What this does not show", list(&limits::sentences(live))));
    sections.push(("repeat", "How to repeat it", repeat(live, raw)));

    let claim = claim(live);
    let mut html = header(live, &claim);
    let entries: Vec<(&str, &str)> = sections.iter().map(|(id, title, _)| (*id, *title)).collect();
    html.push_str(&contents(&entries));
    for (id, title, body) in &sections {
        html.push_str(&section(id, title, body));
    }
    document(&format!("{}: {claim}", live.outcome()), &html)
}

/// The claim under test as a sentence.
pub(super) fn claim(live: &Live<'_>) -> String {
    let Some(arm) = live.tested() else { return "nothing was tested".to_owned() };
    let verb = match live.outcome() {
        Outcome::Go => "meets its criteria",
        Outcome::NoGo => "does not meet its criteria",
        Outcome::Inconclusive => "may or may not meet its criteria",
    };
    let service = live.sign_off.map_or(String::new(), |it| format!(" for {}", it.service));
    format!("{} {verb}{service}", arm.label)
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

fn with_table(figure: &Figure) -> String {
    format!(
        "<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n\
         <details>\n<summary>The same as a table</summary>\n{}</details>\n",
        figure.drawing.inline(figure.id, &figure.heading, &figure.caption),
        Escaped(&figure.caption),
        figure.table.html(&|_| false)
    )
}
