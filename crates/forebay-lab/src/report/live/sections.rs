//! Writes the parts of the page that are tables and sentences.

use std::fmt::Write as _;

use super::Live;
use crate::compare::comparison::LatencyFigures;
use crate::drill::notation::{aligned_ms, percent, three_digits};
use crate::report::Origin;
use crate::report::escape::Escaped;
use crate::report::frame::{command, hashes, narrow, sentence_case};
use crate::report::html::{Table, list, paragraph};
use crate::results::About;
use crate::slo::Held;

/// The verdict on each arm, and what to take home.
pub(super) fn verdicts(live: &Live<'_>) -> String {
    let mut table = Table::new(
        "GO: every criterion holds. NO-GO: one does not. INCONCLUSIVE: more requests must decide.",
        &["arm", "verdict", "why"],
    );
    let arms = &live.comparison.arms;
    for (nth, arm) in arms.iter().enumerate() {
        let tested = if nth + 1 == arms.len() { " (under test)" } else { "" };
        let outcome = arm.outcome.0.to_string();
        table.row([format!("{}{tested}", arm.label), outcome, sentence_case(&arm.reason)]);
    }
    let marked = |row: &[String]| row[0].ends_with("(under test)");
    let contradiction = live.contradiction();
    let contradiction = contradiction.map_or(String::new(), |it| paragraph(&sentence_case(&it)));
    // The first sentence mostly says again what stands in the table.
    let reason = live.tested().map_or("", |arm| arm.reason.as_str());
    let said = live.comparison.summary.iter().filter(|said| !said.contains(reason)).cloned();
    let said: Vec<String> = said.collect();
    let said = if said.is_empty() { String::new() } else { list(&said) };
    contradiction + &table.html(&marked) + &said
}

/// How each criterion fared.
pub(super) fn findings(live: &Live<'_>) -> String {
    let mut table = Table::new(
        "Each criterion as it was written down, and what was seen of it over all offered.",
        &["criterion", "arm", "state", "seen", "more requests needed"],
    );
    for arm in &live.comparison.arms {
        for finding in &arm.findings {
            let more = finding.requests_more.map_or("–".to_owned(), |more| more.to_string());
            table.row([
                finding.criterion.clone(),
                arm.label.clone(),
                finding.state.to_owned(),
                finding.seen.said.clone(),
                more,
            ]);
        }
    }
    table.html(&|row| row[2] == "fails")
}

/// The criteria as they were written down, and their hash.
pub(in crate::report) fn written(held: &Held) -> String {
    let mut html = String::new();
    if let Some(objectives) = &held.objectives {
        html.push_str(&paragraph(
            "The criteria were made from a file of objectives. Not taken over from it:",
        ));
        html.push_str(&list(&objectives.unmapped));
    }
    let _ = write!(
        html,
        "<pre><code>{}</code></pre>\n<p class=\"hash\">SHA-256 of the criteria in canonical form: \
         <code>{}</code></p>\n",
        Escaped(&held.criteria.canonical()),
        held.criteria.hash()
    );
    html
}

/// All latencies, over all that were offered and over the survivors.
pub(super) fn latencies(live: &Live<'_>) -> String {
    let mut table = Table::new(
        &format!(
            "Latencies. Over all offered, a quantile that the unserved reach is undefined. \
             Survivors are no basis for comparing arms that serve different requests.{}",
            unknown(live)
        ),
        &["arm", "latency", "over", "p50", "p90", "p99", "mean"],
    );
    for arm in &live.comparison.arms {
        for latency in &arm.all.latencies {
            let LatencyFigures { metric, offered, survivors, survivors_mean } = latency;
            let title = match *metric {
                "ttft_ms" => "TTFT",
                "itl_ms" => "ITL",
                _ => "whole",
            };
            let buckets = &arm.all.buckets;
            // Where all were served, both are the same.
            let rows = if buckets.completed == buckets.offered && buckets.offered > 0 {
                vec![("all offered, all served", offered, survivors_mean.said.as_str())]
            } else {
                vec![
                    ("all offered", offered, "–"),
                    ("survivors", survivors, survivors_mean.said.as_str()),
                ]
            };
            for (over, of, mean) in rows {
                let said = [&of.p50, &of.p90, &of.p99].map(|estimate| estimate.said.clone());
                let head = [arm.label.clone(), title.to_owned(), over.to_owned()];
                table.row(head.into_iter().chain(said).chain([mean.to_owned()]));
            }
        }
    }
    table.html(&|_| false)
}

/// What a dash stands for, where another tool left only a summary.
fn unknown(live: &Live<'_>) -> &'static str {
    let is_summary = live.comparison.arms.iter().any(|arm| arm.is_figures_only);
    if is_summary { " A dash: not known from a summary." } else { "" }
}

/// Amplification, wasted work and recovery.
pub(super) fn cost(live: &Live<'_>) -> String {
    let mut table = Table::new(
        &format!(
            "What refusals and retries cost: amplification is attempts divided by requests.{}",
            unknown(live)
        ),
        &[
            "arm",
            "completed/s",
            "amplification",
            "refused attempts",
            "refused after waiting ≥ 1 s",
            "prompt tokens wasted",
            "output tokens wasted",
            "waited for nothing",
        ],
    );
    let mut recovered = Vec::new();
    for arm in &live.comparison.arms {
        let wasted = arm.wasted;
        let of = |pick: &dyn Fn(crate::compare::comparison::Wasted) -> String| {
            wasted.map_or("–".to_owned(), pick)
        };
        table.row([
            arm.label.clone(),
            arm.completed_per_s.said.clone(),
            arm.amplification.map_or("–".to_owned(), three_digits),
            of(&|wasted| wasted.refused_attempts.to_string()),
            of(&|wasted| wasted.refused_after_waiting.to_string()),
            of(&|wasted| wasted.prompt_tokens.to_string()),
            of(&|wasted| format!("{} ({})", wasted.output_tokens, percent(wasted.output_share))),
            of(&|wasted| format!("{} s", three_digits(wasted.waited_s))),
        ]);
        if let Some(recovery) = &arm.recovery {
            recovered.push(format!("{}: {}", arm.label, recovery.said));
        }
    }
    table.html(&|_| false) + &if recovered.is_empty() { String::new() } else { list(&recovered) }
}

/// What each run was: what holds for all of them once, and the rest in a table.
pub(super) fn runs(live: &Live<'_>) -> String {
    type Of = fn(&About) -> String;
    let kinds: [(&str, Of); 7] = [
        ("Measured by", |about| about.tool.clone()),
        ("Target", |about| about.targets.join(", ")),
        ("Model", |about| about.model.clone()),
        ("Offered", |about| about.workload.clone()),
        // Other tools do not say theirs.
        ("Seed", |about| {
            let is_ours = about.tool.starts_with("forebay");
            if is_ours { about.seed.to_string() } else { String::new() }
        }),
        ("Plan", |about| {
            let plan = about.plan.as_deref().unwrap_or_default();
            plan.get(..12).unwrap_or(plan).to_owned()
        }),
        ("Repeated by", |about| about.repeat.clone()),
    ];
    let runs = || live.arms.iter().flat_map(|arm| arm.runs.iter().map(move |run| (arm, run)));
    let values = |of: Of| -> Vec<String> {
        let said = runs().map(|(_, run)| of(run.results.about()));
        said.map(|said| if said.is_empty() { "–".to_owned() } else { said }).collect()
    };
    let (mut same, mut differing) = (String::new(), Vec::new());
    for (name, of) in kinds {
        let values = values(of);
        match values.first() {
            Some(first) if values.iter().all(|value| value == first) => {
                let said = Escaped(first);
                let _ = writeln!(same, "<dt>{name}</dt><dd>{said}</dd>");
            }
            _ => differing.push((name.to_lowercase(), values)),
        }
    }
    let heads: Vec<&str> =
        ["run", "arm"].into_iter().chain(differing.iter().map(|(name, _)| name.as_str())).collect();
    let mut table =
        Table::new("Equal plans offered the same requests at the same moments.", &heads);
    for (nth, (arm, run)) in runs().enumerate() {
        let head = [run.from.clone(), arm.label.clone()].into_iter();
        table.row(head.chain(differing.iter().map(|(_, values)| values[nth].clone())));
    }
    format!("<dl class=\"facts-list\">\n{same}</dl>\n") + &table.html(&|_| false)
}

/// What the generator saw of itself in each run.
pub(super) fn generator(live: &Live<'_>) -> String {
    let mut table = Table::new(
        "The load generator's own health. A run whose generator was late, starved or out of \
         sockets is INVALID, and no figure counts it. A dash: the tool does not say.",
        &[
            "run",
            "arm",
            "valid",
            "lag p50",
            "p99",
            "max",
            "in flight",
            "connections",
            "CPU pressure",
            "steal",
        ],
    );
    let mut reasons = Vec::new();
    for arm in live.arms {
        for block in &arm.runs {
            let about = block.results.about();
            for invalid in &about.invalid {
                reasons
                    .push(format!("{}: INVALID, {}: {}", block.from, invalid.reason, invalid.what));
            }
            let valid = if about.is_valid() { "yes" } else { "INVALID" };
            let head = [block.from.clone(), arm.label.clone(), valid.to_owned()];
            let share = |share: Option<f64>| share.map_or("–".to_owned(), percent);
            let rest = about.generator.map_or([const { String::new() }; 7], |it| {
                [
                    aligned_ms(it.lag_ms_p50),
                    aligned_ms(it.lag_ms_p99),
                    aligned_ms(it.lag_ms_max),
                    it.in_flight_max_seen.to_string(),
                    it.connections.to_string(),
                    share(it.cpu_pressure),
                    share(it.steal),
                ]
            });
            let rest = rest.map(|cell| if cell.is_empty() { "–".to_owned() } else { cell });
            table.row(head.into_iter().chain(rest));
        }
    }
    let html = table.html(&|row| row[2] == "INVALID");
    if reasons.is_empty() { html } else { html + &list(&reasons) }
}

/// The command, versions, seeds and hashes.
pub(super) fn repeat(live: &Live<'_>, raw: &[(String, String)]) -> String {
    let comparison = live.comparison;
    let rows = [
        ("seed of every resample", comparison.seed.to_string()),
        ("resamples", comparison.resamples.to_string()),
        ("confidence", percent(comparison.confidence)),
    ];
    repeat_of(live.origin, &rows, raw)
}

/// The same with what figures were made of in rows.
pub(in crate::report) fn repeat_of(
    origin: &Origin,
    rows: &[(&str, String)],
    raw: &[(String, String)],
) -> String {
    let mut html = format!("<pre><code>{}</code></pre>\n", command(&origin.words));
    let mut table = Table::new("What these figures were made of.", &["what", "value"]);
    table.row(["program".to_owned(), origin.version.clone()]);
    for (what, value) in rows {
        table.row([(*what).to_owned(), value.clone()]);
    }
    html.push_str(&narrow(&table));
    html.push_str(&hashes(
        "SHA-256 of what was read and of the raw files beside this page.",
        origin.inputs.iter().chain(raw),
    ));
    html
}
