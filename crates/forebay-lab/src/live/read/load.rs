//! Reads what a drill sends, and how.

use std::time::Duration;

use forebay_core::Span;
use forebay_service::reader::{At, Section};
use http::{HeaderMap, HeaderName};
use serde_json::Map;

use super::super::design::Load;
use super::super::keys;
use super::super::sending::{self, Sending};
use super::Reader;
use crate::drill::stage::Source;
use crate::load::arrivals::Think;
use crate::load::{Ask, Form, Http, Retry};
use crate::simulate::Client;

/// The header that says a class where the file names none: ours.
const CLASS_HEADER: HeaderName = HeaderName::from_static("x-forebay-class");

impl Reader<'_> {
    pub(super) fn load(&mut self, mut table: Section<'_>) -> Option<Load> {
        let line = table.line;
        let trace = table.text("trace", self.found);
        let synth = table.text("synth", self.found);
        let requests = self.number(&mut table, &keys::REQUESTS);
        let prompt_max = table.number(&keys::PROMPT_TOKENS_MAX, self.found);
        let loads: Vec<f64> = self.loads(&mut table);
        let capacity = table.number(&keys::CAPACITY_PER_S, self.found);
        let speed = self.number(&mut table, &keys::SPEED);
        let model = table.text("model", self.found);
        let tokenizer = table.text("tokenizer", self.found);
        let warmup = self.number(&mut table, &keys::WARMUP);
        let sending = self.sending(&mut table);
        table.finish(self.found);
        let source = match (trace, synth) {
            (Some(trace), None) => {
                let file = self.path(&trace.value);
                if !file.is_file() {
                    let what = format!("there is no trace {}", file.display());
                    self.found.add(trace.line, what, "paths begin at the folder of this file");
                }
                Some(Source::File(file))
            }
            (None, Some(synth)) => self.synthetic(&synth),
            (Some(_), Some(both)) => {
                let what = "`trace` and `synth` are both given";
                self.found.add(both.line, what, "requests come from one of them");
                None
            }
            (None, None) => {
                let what = "`[load]` does not say which requests are sent";
                self.found.add(line, what, "give `trace = \"FILE\"` or `synth = \"evidence\"`");
                None
            }
        };
        if model.is_none() {
            self.found.add(line, "`[load]` has no `model`", "name the model that is asked for");
        }
        Some(Load {
            source: source?,
            requests: requests as u64,
            prompt_max: prompt_max.map(|at| at.value as u64),
            loads: if loads.is_empty() { vec![1.0] } else { loads },
            capacity_per_s: capacity.map(|at| at.value),
            speed,
            model: model?.value,
            tokenizer: tokenizer.map(|at| self.path(&at.value)),
            warmup: warmup as u64,
            sending,
        })
    }

    fn synthetic(&mut self, name: &At<String>) -> Option<Source> {
        let here = self.path(&name.value);
        let wanted =
            if here.is_file() { here.to_string_lossy().into_owned() } else { name.value.clone() };
        match Source::synthetic(&wanted) {
            Ok(source) => Some(source),
            Err(error) => {
                self.told(name.line, &error.to_string());
                None
            }
        }
    }

    fn loads(&mut self, table: &mut Section<'_>) -> Vec<f64> {
        let mut loads: Vec<f64> = Vec::new();
        for at in table.numbers(&keys::LOADS, self.found) {
            if loads.iter().any(|load| load.to_bits() == at.value.to_bits()) {
                let what = format!("load {} is named twice", at.value);
                self.found.add(at.line, what, "name each once: it names a folder");
            }
            loads.push(at.value);
        }
        loads
    }

    /// How requests are sent. The names of keys are those of `forebay load`'s options.
    fn sending(&mut self, table: &mut Section<'_>) -> Sending {
        let endpoint = table.text("endpoint", self.found);
        let form = self.form(endpoint.as_ref());
        let is_true = |at: Option<At<bool>>| at.is_some_and(|at| at.value);
        let stream = table.flag("stream", self.found).is_none_or(|at| at.value);
        let ask = Ask {
            is_plain: is_true(table.flag("plain", self.found)),
            bounds_completion: is_true(table.flag("max_completion_tokens", self.found)),
            extra: self.extra(table),
            ..Ask::new("", form, stream)
        };
        let client = table.text("retry", self.found);
        let budget = table.number(&keys::RETRY_BUDGET, self.found).map(|at| at.value);
        let timeout = self.number(table, &keys::TIMEOUT_S);
        Sending {
            ask,
            http: self.http(table),
            ca_file: table.text("ca_file", self.found).map(|at| self.path(&at.value)),
            is_insecure: is_true(table.flag("insecure", self.found)),
            headers: self.headers(table),
            key_env: table.text("key_env", self.found).map(|at| at.value),
            class_header: self.header_name(table, "class_header").unwrap_or(CLASS_HEADER),
            tenant_header: self.header_name(table, "tenant_header"),
            tenant_keys: self.tenant_keys(table),
            leaves: self.leaves(table),
            retry: Retry { client: self.client(client), budget },
            timeout: Duration::from_secs_f64(timeout),
            in_flight_max: self.number(table, &keys::IN_FLIGHT_MAX) as usize,
            lag_max: Span::secs_f64(self.number(table, &keys::LAG_MS_MAX) / 1e3),
        }
    }

    fn extra(&mut self, table: &mut Section<'_>) -> Map<String, serde_json::Value> {
        let Some(at) = table.text("extra_body", self.found) else { return Map::new() };
        Ask::read_extra(&at.value).unwrap_or_else(|error| {
            self.told(at.line, &error.to_string());
            Map::new()
        })
    }

    fn http(&mut self, table: &mut Section<'_>) -> Http {
        match table.text("http", self.found) {
            Some(at) if at.value == "2" => Http::Two,
            Some(at) if at.value != "1.1" => {
                let what = format!("there is no HTTP {:?}", at.value);
                self.found.add(at.line, what, "there are \"1.1\" and \"2\"");
                Http::One
            }
            _ => Http::One,
        }
    }

    /// Headers of every request, or of an arm's.
    pub(super) fn headers(&mut self, table: &mut Section<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for at in table.texts("headers", self.found) {
            match sending::header(&at.value) {
                Ok((name, value)) => drop(headers.append(name, value)),
                Err(why) => {
                    // The text is not repeated: it may be a key.
                    let remedy = "write it as \"name: value\"; a key is named by `key_env`";
                    self.found.add(at.line, format!("a header can't be sent: {why}"), remedy);
                }
            }
        }
        headers
    }

    fn header_name(&mut self, table: &mut Section<'_>, key: &'static str) -> Option<HeaderName> {
        let at = table.text(key, self.found)?;
        at.value
            .parse()
            .map_err(|_| {
                let what = format!("{:?} is no name of a header", at.value);
                self.found.add(at.line, what, "letters, digits and dashes");
            })
            .ok()
    }

    fn tenant_keys(&mut self, table: &mut Section<'_>) -> Vec<(String, String)> {
        let mut keys = Vec::new();
        for at in table.texts("tenant_keys", self.found) {
            match at.value.split_once('=') {
                Some((tenant, variable)) if !tenant.is_empty() && !variable.is_empty() => {
                    keys.push((tenant.to_owned(), variable.to_owned()));
                }
                _ => {
                    let what = "a tenant's key names no tenant, or no variable";
                    self.found.add(at.line, what, "write it as \"TENANT=VARIABLE\"");
                }
            }
        }
        keys
    }

    fn leaves(&mut self, table: &mut Section<'_>) -> Option<(f64, Think)> {
        let share = table.number(&keys::CANCEL_SHARE, self.found);
        let after = table.text("cancel_after", self.found);
        let line = share.as_ref().map(|at| at.line).or(after.as_ref().map(|at| at.line))?;
        let Some((share, after)) = share.zip(after) else {
            let what = "clients that go away need both `cancel_share` and `cancel_after`";
            self.found.add(line, what, "such as 0.05 and \"exponential:2\", in seconds");
            return None;
        };
        match after.value.parse() {
            Ok(pause) => Some((share.value, pause)),
            Err(error) => {
                self.told(after.line, &format!("{error}"));
                None
            }
        }
    }

    fn form(&mut self, endpoint: Option<&At<String>>) -> Form {
        match endpoint.map(|at| at.value.as_str()) {
            None | Some("chat") => Form::Chat,
            Some("completions") => Form::Completion,
            Some(other) => {
                let line = endpoint.map_or(1, |at| at.line);
                let what = format!("there is no endpoint `{other}`");
                self.found.add(line, what, "there are `chat` and `completions`");
                Form::Chat
            }
        }
    }

    fn client(&mut self, name: Option<At<String>>) -> Client {
        let Some(name) = name else { return Client::None };
        name.value.parse().unwrap_or_else(|error: crate::simulate::UnknownClient| {
            self.found.add(name.line, error.to_string(), "choose one of them");
            Client::None
        })
    }
}
