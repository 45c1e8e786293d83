//! Turns a request for text or embeddings into jobs, and their outcome into an answer.

use std::rc::Rc;

use serde_json::json;

use super::answer::{Answer as Text, embedding};
use super::ask::{Ask, Sampling, check_jobs};
use super::format::Reply;
use super::hashes::block_hashes;
use super::kv_events::Prompt;
use super::problem::Problem;
use super::prompt;
use super::service::{Answer, Service, now, ok, streamed};
use super::stream::{Stream, ended, usage};
use super::worker::{Admission, Wanted};

/// Numbers of an embedding when the client doesn't say.
const DIMENSIONS: usize = 256;
/// The most numbers of an embedding: what the largest of today's models give.
const DIMENSIONS_MAX: u64 = 8_192;

/// Answers a chat, a completion or a request for embeddings.
pub(super) async fn answer(
    service: &Service,
    path: &str,
    ask: &Ask,
    name: &str,
) -> Result<Answer, Problem> {
    match path {
        "/v1/chat/completions" => {
            let prompts = vec![prompt::chat(ask)?];
            text(service, ask, format!("chatcmpl-{name}"), prompts).await
        }
        "/v1/completions" => {
            let prompts = prompt::prompts(ask, "prompt")?;
            text(service, ask, format!("cmpl-{name}"), prompts).await
        }
        _ => embeddings(service, ask, name).await,
    }
}

/// Answers a chat or a completion.
async fn text(
    service: &Service,
    ask: &Ask,
    id: String,
    prompts: Vec<Vec<u32>>,
) -> Result<Answer, Problem> {
    let sampling = ask.sampling(service.tokens_max)?;
    check_jobs(prompts.len() as u64 * u64::from(sampling.n), "n")?;
    let salt = ask.text("cache_salt")?;
    let (mut wanted, mut answers, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for tokens in prompts {
        let tokens_left = check_length(service, &tokens)?;
        let made = |nth| Text::new(service.seed, &tokens, nth, &sampling, tokens_left);
        let made: Vec<Text> = (0..sampling.n).map(made).collect();
        let (prompt, blocks) = share(service, tokens, salt, &sampling);
        wanted.extend(made.iter().map(|answer| Wanted {
            prompt: prompt.clone(),
            blocks: blocks.clone(),
            output: answer.tokens,
            stops: answer.stops,
        }));
        answers.extend(made);
        kept.push(prompt);
    }
    let limits: Vec<u32> = wanted.iter().map(|wanted| wanted.output).collect();
    let admission = Admission::new(&service.worker, wanted)?;
    note_params(service, &sampling, &limits);
    let reply = Reply {
        is_chat: id.starts_with("chat"),
        id,
        created: now(),
        model: service.model_json.clone(),
        fingerprint: service.fingerprint.clone(),
        sampling,
        prompts: kept,
        answers,
    };
    if reply.sampling.stream {
        return Ok(streamed(Stream::new(admission, reply, service.block_size)));
    }
    ended(&admission).await?;
    Ok(ok(reply.whole(usage(&admission, &reply, service.block_size))))
}

/// The tokens that a prompt leaves for its answer.
fn check_length(service: &Service, tokens: &[u32]) -> Result<u32, Problem> {
    let left = u64::from(service.tokens_max).saturating_sub(tokens.len() as u64);
    match left {
        // vLLM takes a prompt that leaves no room, and answers nothing.
        0 => Err(Problem::prompt_too_long(tokens.len(), service.tokens_max)),
        left => Ok(left as u32),
    }
}

/// A prompt as its jobs share it, and the hashes of its blocks.
fn share(
    service: &Service,
    tokens: Vec<u32>,
    salt: Option<&str>,
    sampling: &Sampling,
) -> (Rc<Prompt>, std::sync::Arc<[forebay_core::BlockHash]>) {
    let blocks = block_hashes(&tokens, service.block_size, salt);
    let len = tokens.len() as u32;
    let is_kept = service.has_events || sampling.return_token_ids;
    let tokens = if is_kept { tokens } else { Vec::new() };
    (Rc::new(Prompt { len, tokens, salt: salt.map(str::to_owned) }), blocks)
}

fn note_params(service: &Service, sampling: &Sampling, limits: &[u32]) {
    let metrics = &mut service.worker.borrow_mut().metrics;
    metrics.params_n.observe(f64::from(sampling.n), 1);
    for &limit in limits {
        let limit = sampling.max_tokens.unwrap_or(limit);
        metrics.params_max_tokens.observe(f64::from(limit), 1);
    }
}

/// Answers a request for embeddings: prompts that are computed and generate nothing.
async fn embeddings(service: &Service, ask: &Ask, name: &str) -> Result<Answer, Problem> {
    let prompts = prompt::prompts(ask, "input")?;
    let dimensions = match ask.get("dimensions").map(|value| value.as_u64().unwrap_or(0)) {
        None => DIMENSIONS,
        Some(asked @ 1..=DIMENSIONS_MAX) => asked as usize,
        Some(asked) => {
            let message = format!("dimensions must be from 1 to {DIMENSIONS_MAX}, got {asked}.");
            return Err(Problem::bad("dimensions", message));
        }
    };
    let in_base64 = ask.text("encoding_format")? == Some("base64");
    let sampling = ask.sampling(service.tokens_max)?;
    let (mut wanted, mut rows, mut total) = (Vec::new(), Vec::new(), 0);
    for (nth, tokens) in prompts.into_iter().enumerate() {
        check_length(service, &tokens)?;
        total += tokens.len();
        let numbers = embedding(service.seed, &tokens, dimensions);
        let numbers = if in_base64 { json!(base64(&numbers)) } else { json!(numbers) };
        rows.push(format!("{{\"index\":{nth},\"object\":\"embedding\",\"embedding\":{numbers}}}"));
        let (prompt, blocks) = share(service, tokens, None, &sampling);
        wanted.push(Wanted { prompt, blocks, output: 1, stops: true });
    }
    let admission = Admission::new(&service.worker, wanted)?;
    ended(&admission).await?;
    let (created, model, rows) = (now(), &service.model_json, rows.join(","));
    Ok(ok(format!(
        "{{\"id\":\"embd-{name}\",\"object\":\"list\",\"created\":{created},\"model\":{model},\
         \"data\":[{rows}],\"usage\":{{\"prompt_tokens\":{total},\"total_tokens\":{total},\
         \"completion_tokens\":0,\"prompt_tokens_details\":null,\
         \"completion_tokens_details\":null}}}}"
    )))
}

/// The numbers' bytes, the lowest first, in the alphabet of RFC 4648, 4: what the official clients
/// ask for.
fn base64(numbers: &[f32]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=three.len()].copy_from_slice(three);
        let group = u32::from_be_bytes(group);
        for place in 0..4 {
            let six = (group >> (18 - 6 * place)) & 63;
            text.push(if place <= three.len() { ALPHABET[six as usize].into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn numbers_have_the_bytes_of_rfc_4648() {
        // As Python's `base64.b64encode(array('f', [1.0, -2.5]))` gives.
        assert_eq!(base64(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[]), "");
    }
}
