//! Knows which models a worker serves, as far as it says so.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Deserialize;

use super::Worker;
use super::fetch::{Question, ask};

/// Most models of one worker that are remembered: adapters count as models.
const MODELS_MAX: usize = 1024;
/// The longest name that is remembered.
const NAME_LEN_MAX: usize = 512;
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

/// Asks a worker for its models; whether it told. One that does not keeps what it told before.
pub(super) async fn refresh(worker: &Worker, path: &str, within: Duration) -> bool {
    let question = Question { path, body: None, within, bytes_max: BYTES_MAX };
    let answer = ask(worker, question).await.ok().filter(|answer| answer.status.is_success());
    let models = answer.and_then(|answer| read(&answer.body));
    let told = models.is_some();
    if let Some(models) = models {
        worker.models.set(models);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::{Model, read};

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
