//! Reads the objectives of a Sloth file: `slos:`, each with a name, a percentage and its queries.

use forebay_service::reader::Gathered;

use super::yaml::{Node, Value};
use super::{Objective, Objectives, WINDOW_DAYS, query, statistic, target};

/// Reads the table that holds `slos`.
pub(super) fn read(table: &Node, into: &mut Objectives, found: &mut Gathered) {
    let Some(slos) = table.get("slos").filter(|slos| !slos.items().is_empty()) else {
        found.add(table.line, "`slos` is no list of objectives", "give one at least");
        return;
    };
    for slo in slos.items() {
        one(slo, into, found);
    }
}

fn one(slo: &Node, into: &mut Objectives, found: &mut Gathered) {
    let Some(name) = slo.get("name").and_then(Node::text) else {
        found.add(slo.line, "an objective has no `name`", "give it one");
        return;
    };
    let share = slo.get("objective").and_then(Node::number);
    let Some(target) = share.and_then(|percent| target(true, percent)) else {
        let line = slo.get("objective").unwrap_or(slo).line;
        let remedy = "give a percentage above 0 and below 100, such as 99.9";
        found.add(line, format!("`{name}` has no `objective` that is one"), remedy);
        return;
    };
    let mut queries = Vec::new();
    if let Some(sli) = slo.get("sli") {
        texts(sli, &mut queries);
    }
    if slo.at(&["sli", "plugin"]).is_some() {
        let what = format!("`{name}`: the plugin of its indicator, which no query is known of");
        into.unmapped.push(what);
    }
    if slo.get("alerting").is_some() {
        into.unmapped.push(format!("`{name}`: its alerts"));
    }
    let latency = queries.iter().find_map(|query| query::threshold(query));
    push(
        into,
        Objective {
            name: name.to_owned(),
            line: slo.line,
            target,
            latency,
            window_days: WINDOW_DAYS,
        },
        &queries,
    );
}

/// Takes an objective in, if it can be held against a run, else says why not.
pub(super) fn push(into: &mut Objectives, objective: Objective, queries: &[&str]) {
    let name = &objective.name;
    let counts_buckets = queries.iter().any(|query| query.contains("le="));
    match objective.latency {
        None if counts_buckets => into.unmapped.push(format!(
            "`{name}`: its query counts buckets of a histogram whose meaning is not known; name \
             the limit in the criteria as TOML"
        )),
        Some((latency, ms)) if statistic(objective.target).is_none() => {
            into.unmapped.push(format!(
                "`{name}`: a limit of {ms} ms for {} % of requests; {} can be limited at p50, \
                 p75, p90 and p99",
                objective.target * 100.0,
                latency.key()
            ));
        }
        _ => into.list.push(objective),
    }
}

/// Every text within a value.
pub(super) fn texts<'n>(node: &'n Node, into: &mut Vec<&'n str>) {
    match &node.value {
        Value::Scalar(text) => into.push(text),
        Value::List(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Table(pairs) => pairs.iter().for_each(|(_, value)| texts(value, into)),
    }
}
