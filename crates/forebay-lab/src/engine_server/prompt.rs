//! Makes the tokens of a prompt: from a chat by the template, from text, or from numbers.
//!
//! The chat template is that of Qwen: `<|im_start|>role`, the content and `<|im_end|>` for each
//! message, then the start of the assistant's. Tools stand before all messages, as they come.

use serde_json::Value;

use super::ask::{Ask, check_jobs, python};
use super::problem::Problem;
use super::tokenizer::{MESSAGE_END, MESSAGE_START, VOCABULARY, tokenize};

/// Tokens that stand for an image, a sound or a film, whatever it shows: what Qwen's vision models
/// make of a picture of about 450 by 450 pixels.
const MEDIA_TOKENS: usize = 256;

/// The tokens of a chat.
pub(super) fn chat(ask: &Ask) -> Result<Vec<u32>, Problem> {
    let messages = ask.must("messages")?;
    let Value::Array(messages) = messages else {
        let message = "Input should be a valid list";
        return Err(Problem::schema("list_type", "messages", message, &python(messages)));
    };
    let mut tokens = Vec::new();
    if let Some(tools) = ask.get("tools") {
        tokenize(&tools.to_string(), &mut tokens);
    }
    for (nth, message) in messages.iter().enumerate() {
        let Some(role) = message.get("role").and_then(Value::as_str) else {
            let place = format!("messages.{nth}.role");
            return Err(Problem::schema("missing", &place, "Field required", &python(message)));
        };
        tokens.push(MESSAGE_START);
        tokenize(role, &mut tokens);
        tokenize("\n", &mut tokens);
        content(message.get("content").unwrap_or(&Value::Null), nth, &mut tokens)?;
        if let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) {
            tokenize(&calls.to_string(), &mut tokens);
        }
        tokens.push(MESSAGE_END);
        tokenize("\n", &mut tokens);
    }
    let generates = ask.get("add_generation_prompt").and_then(Value::as_bool).unwrap_or(true);
    if generates {
        tokens.push(MESSAGE_START);
        tokenize("assistant\n", &mut tokens);
    }
    Ok(tokens)
}

/// Appends the tokens of a message's content: a text or parts of several kinds.
fn content(content: &Value, nth: usize, tokens: &mut Vec<u32>) -> Result<(), Problem> {
    match content {
        Value::Null => {}
        Value::String(text) => tokenize(text, tokens),
        Value::Array(parts) => {
            for part in parts {
                match part.as_str().or_else(|| part.get("text").and_then(Value::as_str)) {
                    Some(text) => tokenize(text, tokens),
                    None => tokens.extend([MESSAGE_START; MEDIA_TOKENS]),
                }
            }
        }
        other => {
            let place = format!("messages.{nth}.content");
            let message = "Input should be a valid string";
            return Err(Problem::schema("string_type", &place, message, &python(other)));
        }
    }
    Ok(())
}

/// The prompts of a field that holds one text, several texts, one list of tokens or several.
pub(super) fn prompts(ask: &Ask, key: &str) -> Result<Vec<Vec<u32>>, Problem> {
    let value = ask.must(key)?;
    let text = |text: &str| {
        let mut tokens = Vec::new();
        tokenize(text, &mut tokens);
        tokens
    };
    let wrong = |place: &Value| {
        let message = "Input should be a valid string or list of token ids";
        Problem::schema("string_type", key, message, &python(place))
    };
    let prompts = match value {
        Value::String(prompt) => vec![text(prompt)],
        Value::Array(items) if items.iter().all(Value::is_number) && !items.is_empty() => {
            vec![numbers(items, key)?]
        }
        Value::Array(items) => {
            check_jobs(items.len() as u64, key)?;
            let prompt = |item: &Value| match item {
                Value::String(prompt) => Ok(text(prompt)),
                Value::Array(items) => numbers(items, key),
                other => Err(wrong(other)),
            };
            items.iter().map(prompt).collect::<Result<_, _>>()?
        }
        other => return Err(wrong(other)),
    };
    if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
        // vLLM 0.32 says the same of an empty text and of an empty list.
        return Err(Problem::bad(key, "The decoder prompt cannot be empty".to_owned()));
    }
    Ok(prompts)
}

/// A list of tokens.
pub(super) fn numbers(items: &[Value], key: &str) -> Result<Vec<u32>, Problem> {
    let number = |item: &Value| {
        let known = item.as_u64().filter(|&number| number < u64::from(VOCABULARY));
        known.map(|number| number as u32).ok_or_else(|| {
            let message = format!("Token id {} is out of vocabulary", python(item));
            Problem::bad_value(key, &python(item), &message)
        })
    };
    items.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ask::Ask;
    use super::{chat, prompts};

    fn ask(body: &str) -> Ask {
        Ask::read(body.as_bytes()).expect("it is JSON")
    }

    #[test]
    fn a_chat_that_goes_on_begins_with_the_tokens_of_what_it_was() {
        let user = r#"{"role": "user", "content": "how many workers are there?"}"#;
        let answer = r#"{"role": "assistant", "content": " two of them"}"#;
        let first = chat(&ask(&format!(r#"{{"messages": [{user}]}}"#))).expect("it is good");
        let second = format!(r#"{{"messages": [{user}, {answer}, {user}]}}"#);
        let second = chat(&ask(&second)).expect("it is good");
        assert_eq!(second[..first.len()], first);
    }

    #[test]
    fn content_may_be_text_parts_or_nothing() {
        let text = chat(&ask(r#"{"messages": [{"role": "user", "content": "a b"}]}"#));
        let parts = r#"{"messages": [{"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": " b"}]}]}"#;
        assert_eq!(chat(&ask(parts)), text);
        assert!(chat(&ask(r#"{"messages": [{"role": "assistant", "content": null}]}"#)).is_ok());
        let image = r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#;
        assert!(chat(&ask(image)).is_ok_and(|tokens| tokens.len() > 256));
    }

    #[test]
    fn all_four_forms_of_a_prompt_are_read() {
        let of = |prompt: &str| prompts(&ask(&format!(r#"{{"prompt": {prompt}}}"#)), "prompt");
        assert_eq!(of(r#"" token3 token4""#), Ok(vec![vec![3, 4]]));
        assert_eq!(of(r#"[" token3", " token4"]"#), Ok(vec![vec![3], vec![4]]));
        assert_eq!(of("[3, 4]"), Ok(vec![vec![3, 4]]));
        assert_eq!(of("[[3], [4, 5]]"), Ok(vec![vec![3], vec![4, 5]]));
        for wrong in ["\"\"", "[]", "[[]]", "7", "[-1]", "[3, \"a\"]", "[151936]", "[{}]"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_chat_of_the_wrong_shape_is_refused() {
        let captured: Vec<_> = include_str!("captured/errors.jsonl").lines().collect();
        let told = chat(&ask(r#"{"model": "tiny", "messages": "not a list"}"#));
        assert_eq!(told.expect_err("it is refused").body(), captured[5]);
        for wrong in ["[{}]", "[3]", r#"[{"role": "user", "content": 3}]"#] {
            assert!(chat(&ask(&format!(r#"{{"messages": {wrong}}}"#))).is_err(), "{wrong}");
        }
    }
}
