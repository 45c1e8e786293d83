//! Reads what a client asks for, and refuses it in vLLM's words.

use serde_json::{Map, Value};

use super::problem::Problem;

/// The most answers to one prompt, and the most prompts of one request, together: a bound, since
/// each is a job of its own.
const JOBS_MAX: u64 = 1_024;

/// The fields of a body.
#[derive(Debug)]
pub(super) struct Ask(Map<String, Value>);

/// How an answer is to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sampling {
    /// The most tokens of an answer, if the client says so.
    pub(super) max_tokens: Option<u32>,
    /// The fewest tokens of an answer.
    pub(super) min_tokens: u32,
    /// Whether the answer is as long as it may be.
    pub(super) ignore_eos: bool,
    /// Answers to each prompt.
    pub(super) n: u32,
    /// The client's seed, 0 without one.
    pub(super) seed: u64,
    /// Whether the answer is streamed.
    pub(super) stream: bool,
    /// Which events of the stream carry the usage.
    pub(super) usage: UsageEvents,
    /// Whether tokens are answered as numbers, too.
    pub(super) return_token_ids: bool,
}

/// Which events of a stream carry the usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageEvents {
    /// None.
    None,
    /// One of its own at the end (`include_usage`).
    Last,
    /// All, and one of its own at the end (`continuous_usage_stats`).
    All,
}

impl Ask {
    /// Reads a body.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(body).map_err(|_| Problem::not_text())?;
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(other) => {
                let message = "Input should be a valid dictionary or object to extract fields from";
                Err(Problem::schema("model_attributes_type", "", message, &python(&other)))
            }
            Err(error) => {
                let line = text.split_inclusive('\n').take(error.line().saturating_sub(1));
                let at = line.map(str::len).sum::<usize>() + error.column();
                let what =
                    if error.is_eof() { "Expecting value" } else { "Expecting ',' delimiter" };
                Err(Problem::not_json(at.min(text.len()), what))
            }
        }
    }

    /// A field that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub(super) fn must(&self, key: &str) -> Result<&Value, Problem> {
        self.get(key).ok_or_else(|| {
            let input = format!("'<dict of {} items>'", self.0.len());
            Problem::schema("missing", key, "Field required", &input)
        })
    }

    /// A field that is a text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, Problem> {
        let wrong = |value| {
            let message = "Input should be a valid string";
            Problem::schema("string_type", key, message, &python(value))
        };
        self.get(key).map(|value| value.as_str().ok_or_else(|| wrong(value))).transpose()
    }

    /// A field that is true or false, and false when it is missing.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Problem> {
        let wrong = |value| {
            let message = "Input should be a valid boolean";
            Problem::schema("bool_type", key, message, &python(value))
        };
        let flag = self.get(key).map(|value| value.as_bool().ok_or_else(|| wrong(value)));
        Ok(flag.transpose()?.unwrap_or(false))
    }

    /// A field that is a whole number.
    fn whole(&self, key: &str) -> Result<Option<i64>, Problem> {
        let wrong = |value| {
            let message = "Input should be a valid integer";
            Problem::schema("int_type", key, message, &python(value))
        };
        self.get(key).map(|value| value.as_i64().ok_or_else(|| wrong(value))).transpose()
    }

    /// A field that is a number of at least `least`.
    fn count(&self, key: &str, least: i64) -> Result<Option<u32>, Problem> {
        match self.whole(key)? {
            Some(value) if value < least => {
                let message = format!("{key} must be at least {least}, got {value}.");
                Err(Problem::bad_value(key, &value.to_string(), &message))
            }
            value => Ok(value.map(|value| u32::try_from(value).unwrap_or(u32::MAX))),
        }
    }

    /// Refuses a model that is not served. A client may leave it out.
    pub(super) fn check_model(&self, served: &str) -> Result<(), Problem> {
        match self.text("model")? {
            Some(asked) if asked != served => Err(Problem::unknown_model(asked, served)),
            _ => Ok(()),
        }
    }

    /// How the answer is to be made, for a model of that length.
    pub(super) fn sampling(&self, tokens_max: u32) -> Result<Sampling, Problem> {
        self.check_numbers()?;
        let key = ["max_completion_tokens", "max_tokens"];
        let key = key.into_iter().find(|key| self.get(key).is_some()).unwrap_or(key[1]);
        let max_tokens = self.count(key, 1)?;
        if let Some(asked) = max_tokens.filter(|&asked| asked > tokens_max) {
            let message = format!(
                "max_tokens={asked} cannot be greater than max_model_len={tokens_max}. Please \
                 request fewer output tokens."
            );
            return Err(Problem::bad_value("max_tokens", &asked.to_string(), &message));
        }
        let min_tokens = self.count("min_tokens", 0)?.unwrap_or(0);
        if let Some(max_tokens) = max_tokens.filter(|&max_tokens| max_tokens < min_tokens) {
            let message = format!(
                "min_tokens must be less than or equal to max_tokens={max_tokens}, got \
                 {min_tokens}."
            );
            return Err(Problem::bad_value("min_tokens", &min_tokens.to_string(), &message));
        }
        let n = self.count("n", 1)?.unwrap_or(1);
        check_jobs(u64::from(n), "n")?;
        let stream = self.flag("stream")?;
        let options = self.get("stream_options");
        if options.is_some() && !stream {
            let message = "Stream options can only be defined when `stream=True`.";
            return Err(Problem::bad("stream_options", message.to_owned()));
        }
        let option = |key| options.and_then(|all| all.get(key)?.as_bool()).unwrap_or(false);
        Ok(Sampling {
            max_tokens,
            min_tokens,
            ignore_eos: self.flag("ignore_eos")?,
            n,
            seed: self.whole("seed")?.unwrap_or(0).cast_unsigned(),
            stream,
            usage: match (option("include_usage"), option("continuous_usage_stats")) {
                (false, _) => UsageEvents::None,
                (true, false) => UsageEvents::Last,
                (true, true) => UsageEvents::All,
            },
            return_token_ids: self.flag("return_token_ids")?,
        })
    }

    /// Refuses numbers that vLLM's sampler refuses; otherwise they change nothing here.
    fn check_numbers(&self) -> Result<(), Problem> {
        let number = |key: &str| {
            let wrong = |value| {
                let message = "Input should be a valid number";
                Problem::schema("float_type", key, message, &python(value))
            };
            self.get(key).map(|value| value.as_f64().ok_or_else(|| wrong(value))).transpose()
        };
        if let Some(temperature) = number("temperature")?.filter(|&value| value < 0.0) {
            let value = format!("{temperature:?}");
            let message = format!("temperature must be non-negative, got {value}.");
            return Err(Problem::bad_value("temperature", &value, &message));
        }
        if let Some(top_p) = number("top_p")?.filter(|&value| value <= 0.0 || value > 1.0) {
            let value = format!("{top_p:?}");
            let message = format!("top_p must be in (0, 1], got {value}.");
            return Err(Problem::bad_value("top_p", &value, &message));
        }
        Ok(())
    }
}

/// Refuses a request of more jobs than the bound.
pub(super) fn check_jobs(jobs: u64, param: &str) -> Result<(), Problem> {
    if jobs <= JOBS_MAX {
        return Ok(());
    }
    let message = format!("{param} must be at most {JOBS_MAX}, got {jobs}.");
    Err(Problem::bad_value(param, &jobs.to_string(), &message))
}

/// A value in Python's notation, without what is inside of it.
pub(super) fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            // vLLM cuts what it quotes as well; so long an input says enough.
            let start: String = text.chars().take(64).collect();
            format!("'{}'", start.replace('\\', "\\\\").replace('\'', "\\'"))
        }
        Value::Array(items) => format!("'<list of {} items>'", items.len()),
        Value::Object(fields) => format!("'<dict of {} items>'", fields.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ask, Sampling};

    /// What a client is told about this body, or how its answer is to be made.
    fn sampling(body: &str) -> Result<Sampling, String> {
        let ask = Ask::read(body.as_bytes()).map_err(|problem| problem.body())?;
        ask.check_model("tiny").map_err(|problem| problem.body())?;
        ask.must("messages").map_err(|problem| problem.body())?;
        ask.sampling(2_048).map_err(|problem| problem.body())
    }

    #[test]
    fn refusals_have_the_bytes_that_were_captured() {
        let captured: Vec<_> = include_str!("captured/errors.jsonl").lines().collect();
        let told = |body| sampling(body).expect_err("it is refused");
        assert_eq!(told(r#"{"model": "no-such-model", "messages": []}"#), captured[0]);
        assert_eq!(told(r#"{"model":"#), captured[2]);
        assert_eq!(told(r#"{"model": "tiny"}"#), captured[3]);
        assert_eq!(told(r#"{"messages": [], "max_tokens": 100000}"#), captured[6]);
        assert_eq!(told(r#"{"messages": [], "temperature": -1}"#), captured[7]);
    }

    #[test]
    fn what_is_no_sensible_request_is_refused_and_never_panics() {
        for body in [
            "",
            "[]",
            "1e999",
            "{\"messages\": [], \"n\": 0}",
            "{\"messages\": [], \"n\": 100000}",
            "{\"messages\": [], \"n\": 1e300}",
            "{\"messages\": [], \"max_tokens\": 0}",
            "{\"messages\": [], \"max_tokens\": \"8\"}",
            "{\"messages\": [], \"min_tokens\": 9, \"max_tokens\": 8}",
            "{\"messages\": [], \"stream\": 1}",
            "{\"messages\": [], \"stream_options\": {\"include_usage\": true}}",
            "{\"messages\": [], \"top_p\": 2}",
            "{\"messages\": [], \"seed\": []}",
            "{\"messages\": [], \"model\": 3}",
        ] {
            let told = sampling(body).expect_err(body);
            assert!(told.contains("\"code\":400"), "{told}");
        }
        let deep = "[".repeat(100_000);
        assert!(sampling(&deep).is_err());
        assert!(Ask::read(b"{\"messages\": \"\xff\"}").is_err());
    }

    #[test]
    fn the_newer_name_of_the_limit_wins_and_unknown_fields_are_taken() {
        let body = r#"{"messages": [], "max_tokens": 8, "max_completion_tokens": 9, "x": {}}"#;
        assert_eq!(sampling(body).map(|sampling| sampling.max_tokens), Ok(Some(9)));
        let body = r#"{"messages": [], "max_tokens": null, "seed": -1, "n": 2}"#;
        let sampling = sampling(body).expect("it is good");
        assert_eq!((sampling.max_tokens, sampling.seed, sampling.n), (None, u64::MAX, 2));
    }
}
