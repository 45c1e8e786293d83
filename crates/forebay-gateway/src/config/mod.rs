//! Reads what was configured.

mod worker_url;

pub use worker_url::WorkerUrl;
