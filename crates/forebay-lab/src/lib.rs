//! Asks what if: traces, an engine model, simulation, statistics and reports.
//!
//! | module | answers |
//! |---|---|
//! | [`trace`] | which requests come, when, and what do they share? |
//! | [`engine`] | how would a vLLM-like engine run them? |
//! | [`engine_server`] | how does such an engine look to a client? |
//! | [`presets`] | which engines are known? |
//! | [`simulate`] | what does a fleet of those engines do under one way of routing? |
//! | [`recording`] | what was decided in a run, why, and would it be decided so again? |
//! | [`scenario`] | does a claim about the whole hold, whatever happens? |
//! | [`load`] | what does a live endpoint do with requests that come when they are due? |
//! | [`live`] | which of several endpoints meets its criteria, and which does not? |
//! | [`results`] | what did a live run leave behind, request by request? |
//! | [`slo`] | which criteria follow from objectives that somebody has already? |
//! | [`capacity`] | up to which rate does a live endpoint meet its criteria? |
//! | [`compare`] | which of two endpoints serves more of what is offered, and is it fit? |
//! | [`stats`] | how sure is a figure, and how many more runs would decide? |
//! | [`demo`] | how does a gateway under load look to a newcomer? |
//! | [`drill`] | which way of routing meets its criteria, and which does not? |
//! | [`report`] | what does that look like on paper? |
//! | [`runbook`] | what does whoever is on call do when requests are refused in a storm? |
//! | [`whole_file`] | how does a file appear whole or not at all? |

pub mod capacity;
pub mod compare;
pub mod demo;
pub mod drill;
pub mod engine;
pub mod engine_server;
pub mod live;
pub mod load;
pub mod presets;
pub mod recording;
pub mod report;
pub mod results;
pub mod runbook;
pub mod scenario;
pub mod simulate;
pub mod slo;
pub mod stats;
pub mod trace;
pub mod whole_file;
