//! Reads the objectives of an `OpenSLO` document of the kind `SLO`.

use forebay_service::reader::Gathered;

use super::sloth::{push, texts};
use super::yaml::Node;
use super::{Latency, Objective, Objectives, WINDOW_DAYS, days, query, target};

/// What an annotation is called that says which latency an objective limits: `ttft` or `e2e`.
const LATENCY: &str = "forebay/latency";
/// What an annotation is called that says the limit, in milliseconds.
const LIMIT: &str = "forebay/limit-ms";

/// Reads one document. Those that are no SLO, such as a service, say nothing to hold a run to.
pub(super) fn read(document: &Node, version: &str, into: &mut Objectives, found: &mut Gathered) {
    if version != "openslo/v1" {
        let remedy = "convert it to openslo/v1";
        found.add(document.line, format!("`{version}` is not read"), remedy);
        return;
    }
    let kind = document.get("kind").and_then(Node::text).unwrap_or("");
    let name = document.at(&["metadata", "name"]).and_then(Node::text).unwrap_or("without a name");
    if kind != "SLO" {
        into.unmapped.push(format!("the {kind} `{name}`: only documents of the kind SLO are read"));
        return;
    }
    let Some(spec) = document.get("spec") else {
        found.add(document.line, format!("the SLO `{name}` has no `spec`"), "give its objectives");
        return;
    };
    let objectives = spec.get("objectives").map_or(&[][..], Node::items);
    if objectives.is_empty() {
        found.add(spec.line, format!("the SLO `{name}` has no `objectives`"), "give one at least");
    }
    note(name, spec, into);
    for (nth, objective) in objectives.iter().enumerate() {
        let shown = objective.get("displayName").and_then(Node::text);
        let of_several = objectives.len() > 1;
        let name = match shown {
            Some(shown) if of_several => format!("{name}: {shown}"),
            None if of_several => format!("{name}: {}", nth + 1),
            _ => name.to_owned(),
        };
        one(name, document, spec, objective, into, found);
    }
}

fn one(
    name: String,
    document: &Node,
    spec: &Node,
    objective: &Node,
    into: &mut Objectives,
    found: &mut Gathered,
) {
    let number = |key: &str| objective.get(key).and_then(Node::number);
    let share = number("target").and_then(|share| target(false, share));
    let percent = || number("targetPercent").and_then(|percent| target(true, percent));
    let Some(target) = share.or_else(percent) else {
        let what = format!("`{name}` has no `target` above 0 and below 1, and no `targetPercent`");
        found.add(objective.line, what, "give `target: 0.999` or `targetPercent: 99.9`");
        return;
    };
    let mut queries = Vec::new();
    if let Some(indicator) = spec.at(&["indicator", "spec"]) {
        texts(indicator, &mut queries);
    }
    if spec.at(&["indicator", "spec", "thresholdMetric"]).is_some() {
        let lacks = threshold(document, &queries, objective).is_none();
        if lacks {
            into.unmapped.push(format!(
                "`{name}`: a limit on a metric that is neither the time to the first token nor to \
                 the last; the annotations `{LATENCY}` and `{LIMIT}` can say which it is"
            ));
            return;
        }
    }
    let latency = annotated(document)
        .or_else(|| threshold(document, &queries, objective))
        .or_else(|| queries.iter().find_map(|query| query::threshold(query)));
    let window = spec.at(&["timeWindow"]).and_then(|windows| windows.items().first());
    let window = window.and_then(|window| window.get("duration")).and_then(Node::text);
    let window_days = window.and_then(days).unwrap_or(WINDOW_DAYS);
    push(into, Objective { name, line: objective.line, target, latency, window_days }, &queries);
}

/// The latency that the annotations name.
fn annotated(document: &Node) -> Option<(Latency, f64)> {
    let annotation = |name: &str| document.at(&["metadata", "annotations", name]);
    let latency = match annotation(LATENCY)?.text()? {
        "ttft" => Latency::Ttft,
        "e2e" => Latency::E2e,
        _ => return None,
    };
    Some((latency, annotation(LIMIT)?.number().filter(|ms| *ms > 0.0)?))
}

/// The latency of an objective with a `value`: at most so much of a metric whose query names it.
fn threshold(document: &Node, queries: &[&str], objective: &Node) -> Option<(Latency, f64)> {
    if let Some(said) = annotated(document) {
        return Some(said);
    }
    let is_most = matches!(objective.get("op").and_then(Node::text), Some("lte" | "lt"));
    let value = objective.get("value").and_then(Node::number).filter(|value| *value > 0.0)?;
    let named = queries.iter().find_map(|text| Some((query::latency(text)?, query::unit_ms(text))));
    named.filter(|_| is_most).map(|(latency, ms)| (latency, value * ms))
}

/// Says what of an SLO is not taken over.
fn note(name: &str, spec: &Node, into: &mut Objectives) {
    let method = spec.get("budgetingMethod").and_then(Node::text).unwrap_or("Occurrences");
    if method != "Occurrences" {
        into.unmapped.push(format!(
            "`{name}`: its budget counts slices of time ({method}); requests are counted here"
        ));
    }
    if let Some(reference) = spec.get("indicatorRef").and_then(Node::text) {
        into.unmapped
            .push(format!("`{name}`: the indicator `{reference}`, which stands elsewhere"));
    }
    if spec.get("alertPolicies").is_some_and(|policies| !policies.items().is_empty()) {
        into.unmapped.push(format!("`{name}`: its alert policies"));
    }
}
