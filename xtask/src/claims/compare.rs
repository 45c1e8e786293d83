//! Compares arms run by run: the same figure of two modes on the same trace.

use super::bar::{Bar, Unit, ratio};
use super::run::Run;
use super::sheet::{Sample, Samples, Sheet};

/// One figure of every run.
pub(super) fn figures(samples: &[Sample], path: &str) -> anyhow::Result<Vec<(String, f64)>> {
    each(samples, |run| run.figure(path))
}

/// Something of every run.
pub(super) fn each(
    samples: &[Sample],
    value: impl Fn(&Run) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<(String, f64)>> {
    samples.iter().map(|one| Ok((one.name.clone(), value(&one.run)?))).collect()
}

/// One figure of every run over another's on the same trace.
pub(super) fn ratios(
    samples: &[Sample],
    base: &[Sample],
    path: &str,
) -> anyhow::Result<Vec<(String, f64)>> {
    paired(samples, base, path, ratio)
}

/// One figure of every run less another's on the same trace.
pub(super) fn excesses(
    samples: &[Sample],
    base: &[Sample],
    path: &str,
) -> anyhow::Result<Vec<(String, f64)>> {
    paired(samples, base, path, |value, base| value - base)
}

fn paired(
    samples: &[Sample],
    base: &[Sample],
    path: &str,
    of: impl Fn(f64, f64) -> f64,
) -> anyhow::Result<Vec<(String, f64)>> {
    anyhow::ensure!(
        samples.iter().map(|one| &one.name).eq(base.iter().map(|one| &one.name)),
        "the two arms did not run on the same traces"
    );
    let value = |(one, base): (&Sample, &Sample)| {
        Ok((one.name.clone(), of(one.run.figure(path)?, base.run.figure(path)?)))
    };
    samples.iter().zip(base).map(value).collect()
}

/// An arm that is measured, and one to measure it against.
pub(super) struct Pair<'a> {
    /// What the lines begin with: where the two differ from those of other lines.
    pub(super) at: &'a str,
    /// The first.
    pub(super) samples: &'a Samples,
    /// The second's name and runs.
    pub(super) base: (&'a str, &'a Samples),
}

impl Pair<'_> {
    /// Holds the ratio of each figure against its bar: title, path, bar.
    pub(super) fn hold(
        &self,
        sheet: &mut Sheet<'_>,
        figures: &[(&str, &str, Bar)],
    ) -> anyhow::Result<()> {
        let (name, base) = self.base;
        for (title, path, bar) in figures {
            let what = format!("{}, {title} over {name}'s", self.at);
            sheet.bar(what, Unit::Times, &ratios(self.samples, base, path)?, *bar);
        }
        Ok(())
    }
}

/// Holds the share that is completed against all.
pub(super) fn all_completed(
    sheet: &mut Sheet<'_>,
    at: &str,
    samples: &[Sample],
) -> anyhow::Result<()> {
    let shares = each(samples, |run| Ok(run.figure("completed")? / run.figure("offered")?))?;
    sheet.bar(format!("{at}, completed"), Unit::Share, &shares, Bar::AtLeast(1.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Sample, excesses, ratios};
    use crate::claims::run::Run;

    fn samples(values: &[(&str, &str)]) -> Vec<Sample> {
        let sample = |(name, value): &(&str, &str)| Sample {
            name: (*name).to_owned(),
            run: Run::all(&format!("{{\"max\":{value}}}")).unwrap().remove(0),
        };
        values.iter().map(sample).collect()
    }

    #[test]
    fn arms_are_compared_trace_by_trace() {
        let held = samples(&[("a", "1"), ("b", "9"), ("c", "null")]);
        let base = samples(&[("a", "4"), ("b", "3"), ("c", "3")]);
        let found: Vec<f64> =
            ratios(&held, &base, "max").unwrap().into_iter().map(|(_, value)| value).collect();
        assert_eq!(found, [0.25, 3.0, f64::INFINITY]);
        assert_eq!(excesses(&held, &base, "max").unwrap()[0], ("a".to_owned(), -3.0));
    }

    #[test]
    fn arms_on_other_traces_are_not_compared() {
        let (held, base) = (samples(&[("a", "1")]), samples(&[("b", "4")]));
        assert!(ratios(&held, &base, "max").is_err());
        assert!(ratios(&held, &[], "max").is_err());
    }
}
