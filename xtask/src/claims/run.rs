//! Reads figures from one object that `forebay simulate --json` printed.

use anyhow::Context;
use serde_json::Value;

/// One run's figures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run(Value);

impl Run {
    /// Reads what the program printed: one object a line.
    pub(super) fn all(printed: &str) -> anyhow::Result<Vec<Self>> {
        let read = |line| serde_json::from_str(line).map(Self);
        printed.lines().map(read).collect::<Result<_, _>>().context("not a JSON object a line")
    }

    /// The figure at a path such as `ttft_ms.p50`; `null` stands for infinity. No name in a path
    /// may hold a dot.
    pub(super) fn figure(&self, path: &str) -> anyhow::Result<f64> {
        match self.value(path)? {
            Value::Null => Ok(f64::INFINITY),
            value => value.as_f64().with_context(|| format!("`{path}` is no number: {value}")),
        }
    }

    /// How many were refused for each reason, at the path of a `refused_by`.
    pub(super) fn reasons(&self, path: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let reasons = self.value(path)?.as_object();
        let reasons = reasons.with_context(|| format!("`{path}` is no object"))?;
        let count = |(reason, count): (&String, &Value)| {
            let count = count.as_u64().with_context(|| format!("`{path}`: {count} refusals"))?;
            Ok((reason.clone(), count))
        };
        reasons.iter().map(count).collect()
    }

    /// Figures of the latencies over all offered that are infinite.
    pub(super) fn infinite_len(&self) -> anyhow::Result<f64> {
        let mut infinite = 0;
        for name in ["ttft_ms", "itl_ms", "e2e_ms", "queue_ms"] {
            let figures = self.value(name)?.as_object();
            let figures = figures.with_context(|| format!("`{name}` is no object"))?;
            infinite += figures.values().filter(|value| value.is_null()).count();
        }
        Ok(infinite as f64)
    }

    fn value(&self, path: &str) -> anyhow::Result<&Value> {
        let missing = || format!("the program printed no `{path}`");
        path.split('.').try_fold(&self.0, |value, key| value.get(key)).with_context(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::Run;

    const LINE: &str = "{\"offered\":3,\"refused_by\":{\"shed\":1},\"ttft_ms\":{\"p50\":2.5,\
                        \"max\":null},\"itl_ms\":{},\"e2e_ms\":{},\"queue_ms\":{\"mean\":null}}";

    #[test]
    fn figures_are_found_by_path_and_null_is_infinite() {
        let runs = Run::all(&format!("{LINE}\n{LINE}\n")).unwrap();
        assert_eq!(runs.len(), 2);
        assert!((runs[1].figure("ttft_ms.p50").unwrap() - 2.5).abs() < 1e-12);
        assert!(runs[1].figure("ttft_ms.max").unwrap().is_infinite());
        assert!((runs[1].infinite_len().unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(runs[1].reasons("refused_by").unwrap(), [("shed".to_owned(), 1)]);
    }

    #[test]
    fn what_is_missing_or_no_number_is_an_error_not_a_figure() {
        let run = &Run::all(LINE).unwrap()[0];
        let said = |path| run.figure(path).unwrap_err().to_string();
        assert_eq!(said("ttft_ms.p42"), "the program printed no `ttft_ms.p42`");
        assert_eq!(said("refused_by"), "`refused_by` is no number: {\"shed\":1}");
        assert!(Run::all("{\"offered\":3").is_err());
    }
}
