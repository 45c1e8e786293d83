//! Writes the page: the claim and whether it held, then what it rests on.

use std::fmt::Write as _;

use super::Origin;
use super::escape::Escaped;
use super::figures::Figure;
use super::frame::{command, contents, document, hashes, narrow, section, sentence_case};
use super::html::{Table, list, paragraph};
use crate::drill::Drill;
use crate::drill::notation::{counted, listed, percent, three_digits};
use crate::drill::row::Row;
use crate::drill::table::notes;
use crate::drill::verdict::Outcome;

/// The page of a report. `raw` are the hashes of its raw files.
pub(super) fn page(
    drill: &Drill,
    origin: &Origin,
    figures: &[Figure],
    raw: &[(String, String)],
) -> String {
    let claim = claim(drill);
    let mut html = String::new();
    header(&mut html, drill, &claim);
    let mut entries = vec![("verdicts", "Verdicts"), ("all-cells", "Every cell")];
    entries.extend(figures.iter().map(|figure| (figure.id, figure.heading.as_str())));
    entries.extend([("limits", "What this does not show"), ("repeat", "How to repeat it")]);
    html.push_str(&contents(&entries));
    html.push_str(&section("verdicts", "Verdicts", &verdicts(drill)));
    html.push_str(&section("all-cells", "Every cell", &cells(drill)));
    for figure in figures {
        html.push_str(&section(figure.id, &figure.heading, &with_table(figure, drill)));
    }
    html.push_str(&section("limits", "What this does not show", &list(&limits(drill))));
    html.push_str(&section("repeat", "How to repeat it", &repeat(drill, origin, raw)));
    document(&claim, &html)
}

/// The claim under test and whether it held, in one sentence.
fn claim(drill: &Drill) -> String {
    let Some((arm, verdict)) = drill.under_test() else { return "Nothing was tested".to_owned() };
    let workers = listed(&drill.design.workers);
    let criteria: Vec<String> =
        drill.design.criteria.list().iter().map(ToString::to_string).collect();
    let verb = match verdict.outcome {
        Outcome::Go => "meets its criteria",
        Outcome::NoGo => "does not meet its criteria",
        Outcome::Inconclusive => "may or may not meet its criteria",
    };
    let named =
        if criteria.len() <= 4 { format!(": {}", criteria.join(", ")) } else { String::new() };
    format!("{}: {arm} {verb} at N = {workers}{named}", verdict.outcome)
}

fn header(html: &mut String, drill: &Drill, claim: &str) {
    let (outcome, sentence) = claim.split_once(": ").unwrap_or((claim, ""));
    let class = outcome.to_lowercase();
    let reason = drill.under_test().map_or("", |(_, verdict)| verdict.reason.as_str());
    let _ = write!(
        html,
        "<header>\n<h1><span class=\"badge {class}\">{}</span> {}</h1>\n<p \
         class=\"reason\">{}</p>\n<p class=\"facts\">{}</p>\n</header>\n",
        Escaped(outcome),
        Escaped(sentence),
        Escaped(&sentence_case(reason)),
        Escaped(&format!(
            "{}, simulated; {} and {}, the same requests for every arm {} seed.",
            drill.title(),
            counted(drill.design.arms.len(), "arm"),
            counted(drill.design.seeds.len(), "seed"),
            if drill.replayed.is_some() { "and" } else { "of a" }
        ))
    );
}

fn verdicts(drill: &Drill) -> String {
    let mut table = Table::new(
        "GO: every seed passes every criterion. NO-GO: every seed misses the same one. \
         INCONCLUSIVE: anything else.",
        &["arm", "verdict", "why"],
    );
    let tested = drill.under_test().map(|(arm, _)| arm);
    for (arm, verdict) in drill.design.arms.iter().zip(&drill.verdicts) {
        let name =
            if tested == Some(*arm) { format!("{arm} (under test)") } else { arm.to_string() };
        let reason = sentence_case(&verdict.reason);
        table.row([name, verdict.outcome.to_string(), reason]);
    }
    let mut criteria = Table::new("The criteria", &["criterion", "limit"]);
    for criterion in drill.design.criteria.list() {
        let text = criterion.to_string();
        let (subject, limit) = text.split_at(text.find(['≤', '≥']).unwrap_or(text.len()));
        criteria.row([subject.trim().to_owned(), limit.to_owned()]);
    }
    let marked = |row: &[String]| row[0].ends_with("(under test)");
    let written = paragraph(
        "The criteria were read before the runs; their hash is below. Each holds at every number \
         of workers, over all offered requests: one that was never served is infinitely late.",
    );
    format!(
        "{}{written}{}<p class=\"hash\">SHA-256 of the criteria in canonical form: \
         <code>{}</code></p>\n",
        table.html(&marked),
        narrow(&criteria),
        drill.design.criteria.hash()
    )
}

fn cells(drill: &Drill) -> String {
    let rows = Row::all(drill);
    let mut table = Table::new(
        "Means over the seeds; max is the largest, refused the sum. TTFT in seconds over all \
         offered requests, ∞ where a request was never served; ITL over the served, but \
         criteria on it over all; makespan as a multiple of round-robin's.",
        &[
            "N",
            "arm",
            "completed",
            "refused",
            "TTFT p50",
            "mean",
            "p99",
            "max",
            "ITL, ms",
            "makespan",
            "preemptions",
        ],
    );
    for row in &rows {
        let secs = |ms: Option<f64>| ms.map_or("–".to_owned(), |ms| three_digits(ms / 1000.0));
        table.row([
            row.workers.to_string(),
            row.arm.to_string(),
            percent(row.completed_share),
            row.refused.to_string(),
            secs(row.ttft.map(|ttft| ttft.p50)),
            secs(row.ttft.map(|ttft| ttft.mean)),
            secs(row.ttft.map(|ttft| ttft.p99)),
            secs(row.ttft.map(|ttft| ttft.max)),
            row.itl_ms_mean.map_or("–".to_owned(), three_digits),
            row.makespan_ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("{:.0}", row.preemptions),
        ]);
    }
    let tested = drill.under_test().map(|(arm, _)| arm.name());
    let notes: String = notes(drill, &rows).iter().map(|note| paragraph(note)).collect();
    table.html(&|row| tested == Some(row[1].as_str())) + &notes
}

fn with_table(figure: &Figure, drill: &Drill) -> String {
    let tested = drill.under_test().map(|(arm, _)| arm.name());
    let marked = |row: &[String]| row.iter().take(2).any(|cell| Some(cell.as_str()) == tested);
    format!(
        "<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n\
         <details>\n<summary>The same as a table</summary>\n{}</details>\n",
        figure.drawing.inline(figure.id, &figure.heading, &figure.caption),
        Escaped(&figure.caption),
        figure.table.html(&marked)
    )
}

fn limits(drill: &Drill) -> Vec<String> {
    let mut limits = vec![
        "These are simulated runs. A simulator ranks policies; near saturation its absolute tail \
         is not to be trusted, and no figure here is a promise about a real engine."
            .to_owned(),
        "Clients wait as long as it takes and send on schedule, whatever came back before. \
         People give up, and programs retry."
            .to_owned(),
        "Nothing but the engines takes time here: no network, no tokenizer, no gateway.".to_owned(),
        "Prefill and decode share a step. On engines that split them, gaps between tokens behave \
         differently."
            .to_owned(),
    ];
    limits.push(if drill.design.seeds.len() < 2 {
        "One seed shows no spread between runs.".to_owned()
    } else if let Some(draws) = drill.replayed {
        format!(
            "All {} replay the same requests: they show what {draws} change, and nothing of other \
             requests.",
            counted(drill.design.seeds.len(), "seed")
        )
    } else {
        format!(
            "{} show some of the spread between runs, not all of it; the verdict says that they \
             agree, not how likely the next one is to.",
            counted(drill.design.seeds.len(), "seed")
        )
    });
    limits
}

fn repeat(drill: &Drill, origin: &Origin, raw: &[(String, String)]) -> String {
    let mut html = format!("<pre><code>{}</code></pre>\n", command(&origin.words));
    let mut table = Table::new("What these figures were made of.", &["what", "value"]);
    let mut row = |what: &str, value: String| table.row([what.to_owned(), value]);
    row("program", origin.version.clone());
    row("engine", drill.design.engine.clone());
    row("trace", drill.design.trace.clone());
    row("seeds", listed(&drill.design.seeds));
    row("runs", (drill.runs.len() + drill.varied.len()).to_string());
    html.push_str(&narrow(&table));
    html.push_str(&hashes(
        "SHA-256 of what was read and of the raw files beside this page.",
        origin.inputs.iter().chain(raw),
    ));
    html
}
