//! Says in vLLM's words what is wrong with a request.

use http::StatusCode;
use serde_json::json;

/// An error that a client is told, with vLLM's message, type and parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    /// The status of the answer.
    pub(super) status: StatusCode,
    message: String,
    kind: &'static str,
    param: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, message: String, param: Option<&str>) -> Self {
        Self { status, message, kind, param: param.map(str::to_owned) }
    }

    /// A value that vLLM itself refuses.
    pub(super) fn bad(param: &str, message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestError", message, Some(param))
    }

    /// A value that vLLM itself refuses, with what it was.
    pub(super) fn bad_value(param: &str, value: &str, message: &str) -> Self {
        Self::bad(param, format!("{message} (parameter={param}, value={value})"))
    }

    /// A body that its schema refuses. `kind` and `message` are pydantic's, `place` is the path in
    /// the body, `input` what stood there in Python's notation.
    pub(super) fn schema(kind: &str, place: &str, message: &str, input: &str) -> Self {
        let place = if place.is_empty() { "body".to_owned() } else { format!("body.{place}") };
        let message = format!(
            "1 validation error:\n  {{'type': '{kind}', 'loc': '{place}', 'msg': '{message}', \
             'input': {input}}}"
        );
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", message, Some(&place))
    }

    /// A body that is not JSON from this byte on.
    pub(super) fn not_json(at: usize, what: &str) -> Self {
        let place = format!("body.{at}");
        let message = format!(
            "1 validation error:\n  {{'type': 'json_invalid', 'loc': '{place}', 'msg': 'JSON \
             decode error', 'input': '<dict of 0 items>', 'ctx': {{'error': '{what}'}}}}"
        );
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", message, Some(&place))
    }

    /// A body that is not even text.
    pub(super) fn not_text() -> Self {
        let message = "There was an error parsing the body".to_owned();
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", message, None)
    }

    /// A body above the limit of this many bytes. vLLM has no such limit.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        let message = format!("The body is larger than {bytes_max} bytes.");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, "Request Entity Too Large", message, None)
    }

    /// A model that is not served.
    pub(super) fn unknown_model(asked: &str, served: &str) -> Self {
        let message = format!("The model `{asked}` does not exist. Valid aliases: {served}.");
        Self::new(StatusCode::NOT_FOUND, "NotFoundError", message, Some("model"))
    }

    /// A prompt longer than the model can take.
    pub(super) fn prompt_too_long(tokens: usize, tokens_max: u32) -> Self {
        // vLLM's tokenizer stops one token behind the limit, so it doesn't know how long the prompt
        // really is.
        let (at_least, told) = match tokens_max as usize + 1 {
            limit if tokens < limit => ("", tokens),
            limit => ("at least ", limit),
        };
        let message = format!(
            "This model's maximum context length is {tokens_max} tokens. However, your prompt \
             contains {at_least}{told} input tokens, which exceeds this limit even without any \
             output tokens. Please reduce the length of the input prompt."
        );
        Self::bad_value("input_tokens", &told.to_string(), &message)
    }

    /// Too many requests are inside: vLLM's `--max-num-queued-reqs`, and the same words where too
    /// many bodies are being read.
    pub(super) fn busy() -> Self {
        let message = "The engine is currently busy and cannot accept new requests. Please try \
                       again later or on a different instance.";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "Service Unavailable", message.to_owned(), None)
    }

    /// The engine behind the server has died.
    pub(super) fn dead() -> Self {
        let message =
            "EngineCore encountered an issue. See stack trace (above) for the root cause.";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "InternalServerError", message.to_owned(), None)
    }

    /// The body of an answer.
    pub(super) fn body(&self) -> String {
        let Self { status, message, kind, param } = self;
        let quoted = |text: &str| json!(text).to_string();
        let param = param.as_deref().map_or("null".to_owned(), quoted);
        format!(
            "{{\"error\":{{\"message\":{},\"type\":\"{kind}\",\"param\":{param},\"code\":{}}}}}",
            quoted(message),
            status.as_u16()
        )
    }

    /// The same as an event of a stream, which vLLM writes with other blanks.
    pub(super) fn event(&self) -> String {
        let Self { status, message, kind, param } = self;
        let quoted = |text: &str| json!(text).to_string();
        let param = param.as_deref().map_or("null".to_owned(), quoted);
        format!(
            "data: {{\"error\": {{\"message\": {}, \"type\": \"{kind}\", \"param\": {param}, \
             \"code\": {}}}}}\n\n",
            quoted(message),
            status.as_u16()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Problem;

    #[test]
    fn errors_have_the_bytes_that_were_captured() {
        let seen = [
            Problem::unknown_model("no-such-model", "tiny"),
            Problem::prompt_too_long(6_000, 2_048),
            Problem::not_json(9, "Expecting value"),
            Problem::schema("missing", "messages", "Field required", "'<dict of 1 items>'"),
            Problem::dead(),
        ];
        let captured: Vec<_> = include_str!("captured/errors.jsonl").lines().take(5).collect();
        assert_eq!(seen.map(|problem| problem.body())[..], captured);
    }

    #[test]
    fn the_event_of_a_dead_engine_has_the_bytes_that_were_captured() {
        let captured = "data: {\"error\": {\"message\": \"EngineCore encountered an issue. See \
                        stack trace (above) for the root cause.\", \"type\": \
                        \"InternalServerError\", \"param\": null, \"code\": 500}}\n\n";
        assert_eq!(Problem::dead().event(), captured);
    }
}
