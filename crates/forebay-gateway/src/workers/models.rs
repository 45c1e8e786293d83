//! Knows which models a worker serves, as far as it says so.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::Worker;
use super::fetch::{Question, ask};

/// Most models of one worker that are remembered: adapters count as models.
const MODELS_MAX: usize = 1024;
/// The longest name that is remembered.
const NAME_LEN_MAX: usize = 512;
/// Most models that a line of the log names.
const SAID_MAX: usize = 8;
/// The most bytes of a list of models.
const BYTES_MAX: usize = 4 << 20;

/// A model that a worker serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Model {
    /// Its name for clients.
    #[serde(rename = "id")]
    pub(crate) name: String,
    /// The most tokens of prompt and answer together, where the engine tells.
    #[serde(default)]
    pub(crate) max_model_len: Option<u64>,
    /// When it was made, in seconds since 1970, where the engine tells.
    #[serde(default)]
    pub(crate) created: Option<u64>,
}

/// The models of one worker: none before it has said.
#[derive(Debug, Default)]
pub(crate) struct Models(RwLock<Arc<[Model]>>);

impl Models {
    /// What the worker said last.
    pub(crate) fn get(&self) -> Arc<[Model]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, models: Vec<Model>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = models.into();
    }
}

/// Reads a list of models in OpenAI's form. An entry that can't be read is left out.
fn read(text: &[u8]) -> Option<Vec<Model>> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<serde_json::Value>,
    }
    let list: List = serde_json::from_slice(text).ok()?;
    let models = list.data.into_iter().filter_map(|entry| serde_json::from_value(entry).ok());
    let sound = |model: &Model| !model.name.is_empty() && model.name.len() <= NAME_LEN_MAX;
    Some(models.filter(sound).take(MODELS_MAX).collect())
}

/// Asks a worker for its models; what status it answered with. One that does not tell keeps what it
/// told before.
pub(super) async fn refresh(worker: &Worker, path: &str, within: Duration) -> Option<StatusCode> {
    let question = Question { path, body: None, within, bytes_max: BYTES_MAX };
    let answer = ask(worker, question).await.ok()?;
    if answer.status.is_success()
        && let Some(models) = read(&answer.body)
    {
        worker.models.set(models);
    }
    Some(answer.status)
}

/// What a worker serves and what its pool is asked for, if none of it is the same.
pub(super) fn mismatch(served: &[Model], asked: &[String]) -> Option<String> {
    if served.is_empty() || asked.is_empty() {
        return None;
    }
    if served.iter().any(|model| asked.contains(&model.name)) {
        return None;
    }
    let served: Vec<&str> = served.iter().take(SAID_MAX).map(|it| it.name.as_str()).collect();
    let asked: Vec<&str> = asked.iter().take(SAID_MAX).map(String::as_str).collect();
    let (served, asked) = (served.join(", "), asked.join(", "));
    Some(format!("worker serves {served}, none of this pool's models: {asked}"))
}

#[cfg(test)]
mod tests {
    use super::{Model, mismatch, read};

    #[test]
    fn models_that_no_client_of_the_pool_asks_for_are_a_mismatch() {
        let model = |name: &str| Model { name: name.into(), max_model_len: None, created: None };
        let asked = ["Qwen/Qwen3-8B".to_owned()];
        let other = model("qwen3-8b");
        let said = "worker serves qwen3-8b, none of this pool's models: Qwen/Qwen3-8B";
        assert_eq!(mismatch(std::slice::from_ref(&other), &asked).as_deref(), Some(said));
        assert_eq!(mismatch(&[other.clone(), model("Qwen/Qwen3-8B")], &asked), None);
        assert_eq!(mismatch(&[other], &[]), None, "whatever its workers say");
        assert_eq!(mismatch(&[], &asked), None, "it has not told");
    }

    #[test]
    fn models_are_read_with_what_is_told_of_them_and_odd_entries_are_left_out() {
        let text = br#"{"object":"list","data":[{"id":"tiny","max_model_len":2048,"created":5},
            {"id":7},{"id":""},{"id":"other"}]}"#;
        let tiny = Model { name: "tiny".into(), max_model_len: Some(2048), created: Some(5) };
        let other = Model { name: "other".into(), max_model_len: None, created: None };
        assert_eq!(read(text), Some(vec![tiny, other]));
        assert_eq!(read(b"<html>"), None);
        assert_eq!(read(br#"{"error":"no"}"#), None);
    }
}
