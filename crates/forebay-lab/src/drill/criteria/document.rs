//! Turns the text of a file of criteria into criteria, or into all its faults.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::measure::Statistic;
use super::{Criterion, Fault, GoodLimit, Measure, Metric};

/// What a file of criteria says.
pub(super) struct Read {
    pub(super) criteria: Vec<Criterion>,
    /// What makes a completed request good.
    pub(super) good: Vec<GoodLimit>,
    /// The classes it names, and on which lines, from 1.
    pub(super) class_lines: Vec<(String, usize)>,
}

/// Reads criteria, or says all that is wrong, in order of lines.
pub(super) fn read(text: &str) -> Result<Read, Vec<Fault>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let (criteria, good) = (Vec::new(), Vec::new());
    let (class_lines, faults) = (Vec::new(), Vec::new());
    let mut reader = Reader { text, criteria, good, class_lines, faults };
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        reader.fault(span, error.message(), "the file is TOML: see https://toml.io");
    }
    reader.scope(None, table.get_ref());
    if reader.criteria.is_empty() && reader.faults.is_empty() {
        reader.fault(
            0..0,
            "no criterion",
            "name at least one, such as completed_share_min = 0.999",
        );
    }
    let Reader { criteria, good, class_lines, mut faults, .. } = reader;
    faults.sort_by_key(|fault| fault.line);
    faults.dedup();
    if faults.is_empty() { Ok(Read { criteria, good, class_lines }) } else { Err(faults) }
}

struct Reader<'t> {
    text: &'t str,
    criteria: Vec<Criterion>,
    good: Vec<GoodLimit>,
    class_lines: Vec<(String, usize)>,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn fault(&mut self, span: Range<usize>, what: impl Into<String>, remedy: impl Into<String>) {
        let line = self.line(&span);
        self.faults.push(Fault { line, what: what.into(), remedy: remedy.into() });
    }

    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    /// The criteria of the whole file, or of one class.
    fn scope(&mut self, class: Option<&str>, table: &DeTable<'_>) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            match name {
                "completed_share_min" => self.share(class, Measure::CompletedShare, value),
                "refused_share_max" => self.share(class, Measure::RefusedShare, value),
                "good_share_min" => self.share(class, Measure::GoodShare, value),
                "failed_share_max" => self.share(class, Measure::FailedShare, value),
                "good" => self.good(class, value),
                "class" if class.is_none() => self.classes(value),
                _ => match Metric::ALL.into_iter().find(|metric| metric.key() == name) {
                    Some(metric) => self.latencies(class, metric, value),
                    None => self.unknown_key(key.span(), name, class.is_some()),
                },
            }
        }
    }

    fn unknown_key(&mut self, span: Range<usize>, name: &str, in_class: bool) {
        let latencies = Metric::ALL.map(Metric::key).join(", ");
        let class = if in_class { "" } else { ", class" };
        self.fault(
            span,
            format!("unknown key `{name}`"),
            format!(
                "the keys are completed_share_min, refused_share_max, good_share_min, \
                 failed_share_max, {latencies}, good{class}"
            ),
        );
    }

    /// What makes a completed request good, of all classes or of one.
    fn good(&mut self, class: Option<&str>, value: &Spanned<DeValue<'_>>) {
        let names = GoodLimit::METRICS.map(Metric::key).join(", ");
        let DeValue::Table(table) = value.get_ref() else {
            let remedy = "write [good], and its limits below: ttft_ms_max = 2000";
            return self.fault(value.span(), "`good` is not a table", remedy);
        };
        for (key, value) in table {
            let name: &str = key.get_ref();
            let Some(metric) = GoodLimit::METRICS.into_iter().find(|one| one.key() == name) else {
                let what = format!("unknown key `{name}`");
                self.fault(key.span(), what, format!("the limits of a good request are {names}"));
                continue;
            };
            match number(value.get_ref()) {
                Some(ms_max) if ms_max > 0.0 => {
                    let class = class.map(str::to_owned);
                    self.good.push(GoodLimit { class, metric, ms_max });
                }
                _ => self.fault(
                    value.span(),
                    format!("{} is not a latency", shown(value.get_ref())),
                    "a latency is a number of milliseconds above 0: a minute is 60000",
                ),
            }
        }
    }

    fn classes(&mut self, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.get_ref() else {
            return self.fault(value.span(), "`class` is not a table", "write [class.NAME]");
        };
        for (name, value) in table {
            let line = self.line(&name.span());
            self.class_lines.push((name.get_ref().to_string(), line));
            match value.get_ref() {
                DeValue::Table(table) => self.scope(Some(name.get_ref()), table),
                _ => self.fault(
                    value.span(),
                    format!("class `{}` is not a table", name.get_ref()),
                    "write [class.NAME], and its criteria below",
                ),
            }
        }
    }

    fn share(&mut self, class: Option<&str>, measure: Measure, value: &Spanned<DeValue<'_>>) {
        match number(value.get_ref()) {
            Some(limit) if (0.0..=1.0).contains(&limit) => self.push(class, measure, limit),
            _ => self.fault(
                value.span(),
                format!("{} is not a share", shown(value.get_ref())),
                "a share is a number from 0 to 1: 99.9 % is 0.999",
            ),
        }
    }

    fn latencies(&mut self, class: Option<&str>, metric: Metric, value: &Spanned<DeValue<'_>>) {
        let names = Statistic::ALL.map(Statistic::name).join(", ");
        let DeValue::Table(table) = value.get_ref() else {
            let what = format!("`{}` is not a table of statistics", metric.key());
            let remedy = format!("write {} = {{ p99 = 60000 }}; there are {names}", metric.key());
            return self.fault(value.span(), what, remedy);
        };
        for (key, value) in table {
            let name: &str = key.get_ref();
            let Some(statistic) = Statistic::ALL.into_iter().find(|one| one.name() == name) else {
                let what = format!("unknown statistic `{name}`");
                self.fault(key.span(), what, format!("there are {names}"));
                continue;
            };
            match number(value.get_ref()) {
                Some(limit) if limit > 0.0 => {
                    self.push(class, Measure::Latency(metric, statistic), limit);
                }
                _ => self.fault(
                    value.span(),
                    format!("{} is not a latency", shown(value.get_ref())),
                    "a latency is a number of milliseconds above 0: a minute is 60000",
                ),
            }
        }
    }

    fn push(&mut self, class: Option<&str>, measure: Measure, limit: f64) {
        self.criteria.push(Criterion { class: class.map(str::to_owned), measure, limit });
    }
}

/// A finite number, whole or not.
fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok()?,
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    f64::is_finite(number).then_some(number)
}

/// The value as it may be quoted in a message: short, and on one line.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(integer) => format!("`{}`", integer.as_str()),
        DeValue::Float(float) => format!("`{}`", float.as_str()),
        DeValue::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        DeValue::Boolean(truth) => format!("`{truth}`"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
