//! Says what is to go wrong with a worker, and when.

use serde::Deserialize;

/// How an engine dies while it streams, as both were captured of vLLM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Death {
    /// The engine's core dies, the server before it doesn't: streams end in an error event and
    /// `[DONE]`, `/health` says 503, and two seconds later the server is gone as well.
    ErrorFrame,
    /// The whole process dies: connections are cut without a last chunk.
    Cut,
}

/// What is to go wrong. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// Lifts all that can be lifted before the rest of this is done.
    pub heal: bool,
    /// Refuses with vLLM's 503 what would be more than so many requests inside.
    pub refuse_above: Option<u32>,
    /// Makes steps take so many times as long as the preset says.
    pub slowdown: Option<f64>,
    /// Makes no more tokens, keeps connections and takes new ones.
    pub stall: Option<bool>,
    /// Sends no KV events; their sequence numbers pass, and they can be asked for again.
    pub drop_kv_events: Option<bool>,
    /// Dies.
    pub die: Option<Death>,
    /// Restarts in place: all connections are cut, and the cache and the counters are empty.
    pub restart: bool,
    /// Lets all this happen only once the worker has generated so many further tokens.
    pub after_tokens: Option<u64>,
    /// Comes back so many milliseconds after it died; without it, a restart comes back at once and
    /// what died stays away until it is told to restart.
    pub back_after_ms: Option<u64>,
}

impl Fault {
    /// Reads what `POST /faults` takes.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let fault: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        fault.check()?;
        Ok(fault)
    }

    /// Refuses what can't be done.
    pub fn check(&self) -> Result<(), String> {
        match self.slowdown {
            Some(factor) if !(1e-3..=1e6).contains(&factor) => {
                Err(format!("slowdown is {factor}, and must be from 0.001 to 1000000"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the worker's life ends by it.
    pub(super) fn ends_life(&self) -> bool {
        self.restart || self.die.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{Death, Fault};

    #[test]
    fn a_fault_is_read_and_what_is_unknown_or_absurd_is_refused() {
        let fault = Fault::read(br#"{"die": "error-frame", "after_tokens": 7}"#);
        let expected =
            Fault { die: Some(Death::ErrorFrame), after_tokens: Some(7), ..Fault::default() };
        assert_eq!(fault, Ok(expected));
        assert_eq!(Fault::read(b"{}"), Ok(Fault::default()));
        for wrong in [r#"{"stal": true}"#, r#"{"slowdown": 0}"#, r#"{"die": "softly"}"#, "", "[1"] {
            assert!(Fault::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
