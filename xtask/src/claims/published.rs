//! Holds the modelled engine and router against the figures that were published of real ones.

use forebay_core::Mode;
use forebay_lab::drill::published::{CELLS, Figure};

use super::bar::{Bar, Unit, mean};
use super::compare::{each, figures};
use super::sheet::{Arm, Sheet};

/// The figures that the engine is held to, with how far off each may be at 2 workers, where the
/// engines were full, and at 4 and 8.
const HELD: [(Figure, f64, Option<f64>); 4] = [
    (Figure::TtftP50, 0.30, Some(0.20)),
    (Figure::TtftMean, 0.30, Some(0.20)),
    (Figure::ItlMean, 0.25, Some(0.20)),
    (Figure::Makespan, 0.10, None),
];

/// `round-robin` on the traces like the test's against the test's own cells.
pub(super) fn engine(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    for workers in [2, 4, 8] {
        let samples = sheet.seedlike(&Arm { workers, mode: "round-robin", flags: "" })?;
        if samples.is_empty() {
            continue;
        }
        for (figure, at_two, above) in HELD {
            let Some(off_max) = (if workers == 2 { Some(at_two) } else { above }) else { continue };
            let predicted = mean(&figures(&samples, path(figure))?);
            let published = published(workers, figure)?;
            let what = format!(
                "N={workers}, {} {} against {} published",
                figure.title(),
                figure.shown(predicted),
                figure.shown(published)
            );
            let off = predicted / published - 1.0;
            sheet.single(what, Unit::Share, off, Bar::Between(-off_max, off_max));
        }
    }
    Ok(())
}

/// `kv:dynamo-1.2` refuses where the real one did, and only there.
pub(super) fn refuses(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let bars = [(2, Bar::Between(0.03, 0.20)), (4, Bar::AtMost(0.0)), (8, Bar::AtMost(0.0))];
    for (workers, bar) in bars {
        let samples = sheet.everywhere(&Arm { workers, mode: "kv:dynamo-1.2", flags: "" })?;
        let shares = each(&samples, |run| Ok(run.figure("refused")? / run.figure("offered")?))?;
        sheet.bar(format!("N={workers}, refused"), Unit::Share, &shares, bar);
    }
    Ok(())
}

/// Where a run has the figure on the terms of the test: over completed requests only.
const fn path(figure: Figure) -> &'static str {
    match figure {
        Figure::Completed => "completed",
        Figure::TtftMean => "completed_only.ttft_ms.mean",
        Figure::TtftP50 => "completed_only.ttft_ms.p50",
        Figure::TtftP90 => "completed_only.ttft_ms.p90",
        Figure::TtftP99 => "completed_only.ttft_ms.p99",
        Figure::ItlMean => "completed_only.itl_ms.mean",
        Figure::E2eMean => "completed_only.e2e_ms.mean",
        Figure::Makespan => "makespan_s",
    }
}

fn published(workers: u32, figure: Figure) -> anyhow::Result<f64> {
    let place = Figure::ALL.iter().position(|other| *other == figure);
    let cell = CELLS.iter().find(|cell| (cell.workers, cell.arm) == (workers, Mode::RoundRobin));
    let published = place.zip(cell).map(|(place, cell)| cell.figures[place]);
    published.ok_or_else(|| anyhow::anyhow!("no {} is published at N={workers}", figure.title()))
}

#[cfg(test)]
mod tests {
    use super::{Figure, HELD, published};

    #[test]
    fn every_figure_that_is_held_was_published() {
        for (figure, ..) in HELD {
            for workers in [2, 4, 8] {
                assert!(published(workers, figure).unwrap() > 0.0);
            }
        }
        assert!((published(2, Figure::TtftP50).unwrap() - 12_100.0).abs() < 1e-9);
        assert!(published(3, Figure::TtftP50).is_err());
    }
}
