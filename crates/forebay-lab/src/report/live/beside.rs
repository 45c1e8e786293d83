//! Puts what a simulation of the same requests came to beside what was measured.

use super::Live;
use crate::compare::comparison::Quantiles;
use crate::drill::notation::{duration_ms, percent};
use crate::report::html::Table;

/// The rows of a comparison: what was measured, and below it the simulation; none of an arm that
/// was not simulated. Each begins with these cells.
pub(super) fn rows(live: &Live<'_>, table: &mut Table, first: &[String]) {
    for arm in &live.comparison.arms {
        let Some(simulated) = live.simulated.get(&arm.label) else { continue };
        let head = |what: &str| {
            let cells = first.iter().cloned().chain([arm.label.clone(), what.to_owned()]);
            cells.collect::<Vec<String>>()
        };
        let ttft = arm.all.latencies.iter().find(|latency| latency.metric == "ttft_ms");
        let dash = || "–".to_owned();
        let said = |of: fn(&Quantiles) -> &crate::compare::comparison::Estimate| {
            ttft.map_or_else(dash, |ttft| of(&ttft.offered).said.clone())
        };
        let shares = [&arm.all.completed_share, &arm.all.refused_share].map(|it| it.said.clone());
        let quantiles = [said(|it| &it.p50), said(|it| &it.p90), said(|it| &it.p99)];
        table.row(head("measured").into_iter().chain(shares).chain(quantiles));
        let shares = [simulated.completed_share, simulated.refused_share].map(percent);
        let ms = |ms: Option<f64>| duration_ms(ms.unwrap_or(f64::INFINITY));
        let quantiles = [simulated.ttft_ms_p50, simulated.ttft_ms_p90, simulated.ttft_ms_p99];
        let quantiles = quantiles.map(ms);
        table.row(head("simulated").into_iter().chain(shares).chain(quantiles));
    }
}

/// A table for [`rows`]; the heads of the cells that each begins with come first.
pub(super) fn table(first: &[&str]) -> Table {
    let heads = ["arm", "how", "completed", "refused", "TTFT p50", "p90", "p99"];
    let heads: Vec<&str> = first.iter().copied().chain(heads).collect();
    Table::new(
        "The same requests, measured and simulated, over all that were offered. A simulator ranks \
         ways of routing; near saturation its slowest requests are not to be trusted.",
        &heads,
    )
}

/// Both beside each other; `None` where nothing was simulated.
pub(super) fn section(live: &Live<'_>) -> Option<String> {
    let mut table = table(&[]);
    rows(live, &mut table, &[]);
    (!table.rows.is_empty()).then(|| table.html(&|_| false))
}
