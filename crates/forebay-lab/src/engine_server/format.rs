//! Writes answers with the bytes of vLLM 0.32.
//!
//! By hand, since the order of fields and what is left out where are part of the form, and every
//! token passes here.

use std::fmt::Write as _;
use std::ops::Range;
use std::rc::Rc;

use serde_json::json;

use super::answer::Answer;
use super::ask::{Sampling, UsageEvents};
use super::kv_events::Prompt;
use super::usage::{Usage, so_far};

/// What all answers to a request have in common.
#[derive(Debug)]
pub(super) struct Reply {
    /// Whether it is a chat, not a completion.
    pub(super) is_chat: bool,
    /// Its name, `chatcmpl-` or `cmpl-` and so on.
    pub(super) id: String,
    /// Seconds since the epoch of Unix.
    pub(super) created: u64,
    /// The model's name, as JSON.
    pub(super) model: Rc<str>,
    /// Names the version and configuration of the engine.
    pub(super) fingerprint: Rc<str>,
    /// How the answers are made.
    pub(super) sampling: Sampling,
    /// The prompts.
    pub(super) prompts: Vec<Rc<Prompt>>,
    /// The answers to all prompts, `n` for each.
    pub(super) answers: Vec<Answer>,
}

impl Reply {
    /// The prompt that an answer answers.
    fn prompt_of(&self, answer: usize) -> &Prompt {
        &self.prompts[answer / self.sampling.n as usize]
    }

    /// The lengths of the prompts.
    pub(super) fn prompt_lengths(&self) -> Vec<u32> {
        self.prompts.iter().map(|prompt| prompt.len).collect()
    }

    fn prompt_numbers(&self, answer: usize) -> String {
        if !self.sampling.return_token_ids {
            return "null".to_owned();
        }
        json!(self.prompt_of(answer).tokens).to_string()
    }

    fn numbers(&self, answer: usize, tokens: Range<u32>) -> String {
        if !self.sampling.return_token_ids {
            return "null".to_owned();
        }
        json!(self.answers[answer].numbers(tokens)).to_string()
    }

    fn start_event(&self) -> String {
        let Self { id, created, model, .. } = self;
        let object = if self.is_chat { "chat.completion.chunk" } else { "text_completion" };
        let mut event = String::with_capacity(320);
        write!(
            event,
            "data: {{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\
             \"model\":{model},\"choices\":["
        )
        .expect("a String takes all");
        event
    }

    fn put_usage_so_far(&self, answer: usize, generated: u32, event: &mut String) {
        if self.sampling.usage == UsageEvents::All {
            event.push_str(",\"usage\":");
            event.push_str(&so_far(self.prompt_of(answer).len, generated));
        }
    }

    /// The event that begins an answer of a chat.
    pub(super) fn role_event(&self, answer: usize) -> String {
        let mut event = self.start_event();
        write!(
            event,
            "{{\"index\":{answer},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\
             \"logprobs\":null,\"finish_reason\":null}}]"
        )
        .expect("a String takes all");
        self.put_usage_so_far(answer, 0, &mut event);
        let numbers = self.prompt_numbers(answer);
        write!(event, ",\"prompt_token_ids\":{numbers},\"prompt_text\":null}}\n\n")
            .expect("a String takes all");
        event
    }

    /// The event with these tokens of an answer.
    pub(super) fn tokens_event(&self, answer: usize, tokens: Range<u32>) -> String {
        let is_first = tokens.start == 0;
        let is_last = tokens.end == self.answers[answer].tokens;
        let generated = tokens.end;
        let mut event = self.start_event();
        let opening = if self.is_chat { "\"delta\":{\"content\":\"" } else { "\"text\":\"" };
        write!(event, "{{\"index\":{answer},{opening}").expect("a String takes all");
        // The words of answers need no escapes.
        self.answers[answer].write(tokens.clone(), &mut event);
        let closing = if self.is_chat { "\"}" } else { "\"" };
        event.push_str(closing);
        event.push_str(",\"logprobs\":null,\"finish_reason\":");
        if is_last {
            write!(event, "\"{}\"", self.answers[answer].finish_reason())
                .expect("a String takes all");
        } else {
            event.push_str("null");
        }
        if is_last || !self.is_chat {
            event.push_str(",\"stop_reason\":null");
        }
        if !self.is_chat {
            let numbers = if is_first { self.prompt_numbers(answer) } else { "null".to_owned() };
            write!(event, ",\"prompt_token_ids\":{numbers}").expect("a String takes all");
        }
        write!(event, ",\"token_ids\":{}}}]", self.numbers(answer, tokens))
            .expect("a String takes all");
        self.put_usage_so_far(answer, generated, &mut event);
        if is_last && self.sampling.usage == UsageEvents::None {
            write!(event, ",\"system_fingerprint\":\"{}\"", self.fingerprint)
                .expect("a String takes all");
        }
        event.push_str("}\n\n");
        event
    }

    /// The event with the usage of all answers.
    pub(super) fn usage_event(&self, usage: Usage) -> String {
        let mut event = self.start_event();
        write!(
            event,
            "],\"usage\":{},\"system_fingerprint\":\"{}\"}}\n\n",
            usage.last_event(self.is_chat),
            self.fingerprint
        )
        .expect("a String takes all");
        event
    }

    /// The whole answer in one.
    pub(super) fn whole(&self, usage: Usage) -> String {
        let Self { id, created, model, fingerprint, .. } = self;
        let object = if self.is_chat { "chat.completion" } else { "text_completion" };
        let choice = if self.is_chat { Self::chat_choice } else { Self::text_choice };
        let choices = (0..self.answers.len()).map(|answer| choice(self, answer));
        let choices = choices.collect::<Vec<_>>().join(",");
        let prompt = if self.is_chat {
            let numbers = self.prompt_numbers(0);
            format!(",\"prompt_logprobs\":null,\"prompt_token_ids\":{numbers},\"prompt_text\":null")
        } else {
            String::new()
        };
        format!(
            "{{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":{model},\
             \"choices\":[{choices}],\"service_tier\":null,\"system_fingerprint\":\
             \"{fingerprint}\",\"usage\":{}{prompt},\"kv_transfer_params\":null,\
             \"ec_transfer_params\":null,\"metrics\":null}}",
            usage.whole(self.is_chat)
        )
    }

    /// The text, its numbers and the reason of its end.
    fn choice(&self, answer: usize) -> (String, String, &'static str) {
        let all = self.answers[answer];
        let mut text = String::new();
        all.write(0..all.tokens, &mut text);
        (text, self.numbers(answer, 0..all.tokens), all.finish_reason())
    }

    fn chat_choice(&self, answer: usize) -> String {
        let (text, numbers, reason) = self.choice(answer);
        format!(
            "{{\"index\":{answer},\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\",\
             \"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\
             \"reasoning\":null}},\"logprobs\":null,\"finish_reason\":\"{reason}\",\
             \"stop_reason\":null,\"token_ids\":{numbers},\"routed_experts\":null}}"
        )
    }

    fn text_choice(&self, answer: usize) -> String {
        let (text, numbers, reason) = self.choice(answer);
        let prompt = self.prompt_numbers(answer);
        format!(
            "{{\"index\":{answer},\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":\
             \"{reason}\",\"stop_reason\":null,\"token_ids\":{numbers},\"prompt_logprobs\":null,\
             \"prompt_token_ids\":{prompt},\"routed_experts\":null}}"
        )
    }
}
