//! Says how clients take a refusal: whether they come back, and when.
//!
//! Only 503, 429 and 529 bring a client back; a 4xx of its own making or a broken worker does not.

use std::fmt;
use std::str::FromStr;

use forebay_core::{Refusal, Rng, Span};

/// How clients take a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// They go away for good.
    None,
    /// They try again at once, a millisecond later, up to [`NAIVE_ATTEMPTS_MAX`] times in all.
    Naive,
    /// They wait as the official SDKs do where no header tells them: twice, exponentially, with
    /// jitter.
    Backoff,
    /// They come back exactly when told, with their ticket, up to [`OBEDIENT_ATTEMPTS_MAX`] times
    /// in all.
    RetryAfter,
    /// The official `OpenAI` Python SDK of before mid 2026: obeys up to 60 s, else backs off.
    OpenAiPythonOld,
    /// The official `OpenAI` Python SDK since: obeys up to 120 s, gives up above, backs off without
    /// a header.
    OpenAiPython,
}

/// Attempts of a naive client, the first included. A loop without a bound would never end a run.
pub const NAIVE_ATTEMPTS_MAX: u32 = 10;
/// Attempts of an obedient client, the first included: ten minutes at the longest Retry-After.
pub const OBEDIENT_ATTEMPTS_MAX: u32 = 10;
/// Attempts of an official SDK, the first included (`max_retries=2` by default).
pub const SDK_ATTEMPTS_MAX: u32 = 3;

/// The pause of a naive client. At zero it would spend all its attempts in one instant, which none
/// can do.
const NAIVE_PAUSE: Span = Span::millis(1);
/// First and longest pause of the official SDKs' backoff, in seconds.
const BACKOFF_S: (f64, f64) = (0.5, 8.0);
/// How much of a backoff's pause the SDKs draw away at most.
const BACKOFF_JITTER: f64 = 0.25;
/// The longest Retry-After that the old SDK obeys.
const OLD_SDK_OBEYS_MAX: Span = Span::secs(60);
/// The longest Retry-After that the new SDK obeys; above it, it does not retry.
const SDK_OBEYS_MAX: Span = Span::secs(120);

/// When a refused client comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    /// After how long.
    pub(crate) after: Span,
    /// It comes exactly when the refusal told it to.
    pub(crate) told: bool,
    /// It shows the ticket that it was given.
    pub(crate) ticket: bool,
}

/// What a client heard instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The status; none where no answer began, or one in a single piece was lost on its way.
    pub(crate) status: Option<u16>,
    /// How long it was asked to wait.
    pub(crate) retry_after: Option<Span>,
    /// What `x-should-retry` says.
    pub(crate) should_retry: Option<bool>,
}

impl Client {
    /// Every model, in the order of the reference.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Naive,
        Self::Backoff,
        Self::RetryAfter,
        Self::OpenAiPythonOld,
        Self::OpenAiPython,
    ];

    /// Its name in commands and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Naive => "naive",
            Self::Backoff => "backoff",
            Self::RetryAfter => "retry-after",
            Self::OpenAiPythonOld => "openai-python-old",
            Self::OpenAiPython => "openai-python",
        }
    }

    /// Whether, and when, the client comes back after this many attempts.
    pub(super) fn returns(self, refusal: &Refusal, attempts: u32, rng: &mut Rng) -> Option<Return> {
        // In a simulated run a request that failed at its worker is not sent again: what a fault
        // does to a fleet is told apart from what its clients make of it.
        let status = refusal.reason.status();
        if !matches!(status, 429 | 503) {
            return None;
        }
        let retry_after = refusal.retry_after;
        let heard = Heard { status: Some(status), retry_after, should_retry: None };
        self.returns_to(&heard, attempts, rng)
    }

    /// The same for whatever a client heard instead of an answer.
    pub(crate) fn returns_to(self, heard: &Heard, attempts: u32, rng: &mut Rng) -> Option<Return> {
        if !self.may_return(heard) || attempts >= self.attempts_max() {
            return None;
        }
        // A wait of nothing is none to the SDKs.
        let is_sdk = self.is_sdk();
        let retry_after = heard.retry_after.filter(|after| !is_sdk || *after > Span::ZERO);
        let told = |after| Return { after, told: true, ticket: false };
        let mut backoff =
            || Return { after: backoff_pause(attempts, rng), told: false, ticket: false };
        match self {
            Self::None => None,
            Self::Naive => Some(Return { after: NAIVE_PAUSE, told: false, ticket: false }),
            Self::Backoff => Some(backoff()),
            Self::RetryAfter => retry_after.map(|after| Return { ticket: true, ..told(after) }),
            Self::OpenAiPythonOld => match retry_after {
                Some(after) if after <= OLD_SDK_OBEYS_MAX => Some(told(after)),
                _ => Some(backoff()),
            },
            Self::OpenAiPython => match retry_after {
                Some(after) => (after <= SDK_OBEYS_MAX).then(|| told(after)),
                None => Some(backoff()),
            },
        }
    }

    /// Whether what was heard is worth another attempt to it: no answer at all, 408, 409, 429 and
    /// from 500 on, as the official SDKs have it (`_should_retry` of openai-python and
    /// `shouldRetry` of openai-node). The SDKs let a header of the server decide first.
    fn may_return(self, heard: &Heard) -> bool {
        let told = heard.should_retry.filter(|_| self.is_sdk());
        told.unwrap_or_else(|| heard.status.is_none_or(|it| matches!(it, 408 | 409 | 429 | 500..)))
    }

    /// Whether it does as an official SDK does.
    const fn is_sdk(self) -> bool {
        matches!(self, Self::Backoff | Self::OpenAiPythonOld | Self::OpenAiPython)
    }

    const fn attempts_max(self) -> u32 {
        match self {
            Self::None => 1,
            Self::Naive => NAIVE_ATTEMPTS_MAX,
            Self::RetryAfter => OBEDIENT_ATTEMPTS_MAX,
            Self::Backoff | Self::OpenAiPythonOld | Self::OpenAiPython => SDK_ATTEMPTS_MAX,
        }
    }
}

/// The official SDKs' pause: doubled at each attempt up to a bound, less up to a quarter by a draw.
fn backoff_pause(attempts: u32, rng: &mut Rng) -> Span {
    let (first, longest) = BACKOFF_S;
    let doubled = first * f64::from(1_u32 << (attempts - 1).min(16));
    Span::secs_f64(doubled.min(longest) * (1.0 - BACKOFF_JITTER * rng.unit()))
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no model of clients has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown client `{0}`; they are {names}", names = Client::ALL.map(Client::name).join(", "))]
pub struct UnknownClient(pub String);

impl FromStr for Client {
    type Err = UnknownClient;
    fn from_str(name: &str) -> Result<Self, UnknownClient> {
        Self::ALL
            .into_iter()
            .find(|client| client.name() == name)
            .ok_or_else(|| UnknownClient(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{ClassId, Refusal, RefusalReason, Rng, Span};

    use super::{Client, Heard, Return};

    fn refusal(reason: RefusalReason, retry_after_s: Option<u64>) -> Refusal {
        Refusal {
            reason,
            class: ClassId(0),
            retry_after: retry_after_s.map(Span::secs),
            predicted_wait: None,
            waited: Span::ZERO,
            limit: 0,
            sustained: false,
        }
    }

    #[track_caller]
    fn returns(client: Client, retry_after_s: Option<u64>, attempts: u32) -> Option<Return> {
        let refusal = refusal(RefusalReason::Shed, retry_after_s);
        client.returns(&refusal, attempts, &mut Rng::new(1))
    }

    fn pause(client: Client, retry_after_s: Option<u64>, attempts: u32) -> Option<f64> {
        returns(client, retry_after_s, attempts).map(|back| back.after.as_secs_f64())
    }

    #[test]
    fn the_two_official_sdks_differ_at_30_61_and_121_seconds() {
        let [old, new] = [Client::OpenAiPythonOld, Client::OpenAiPython];
        assert_eq!(pause(old, Some(30), 1), Some(30.0));
        assert_eq!(pause(new, Some(30), 1), Some(30.0));
        assert!(pause(old, Some(61), 1).is_some_and(|secs| (0.375..=0.5).contains(&secs)));
        assert_eq!(pause(new, Some(61), 1), Some(61.0));
        assert!(pause(old, Some(121), 2).is_some_and(|secs| (0.75..=1.0).contains(&secs)));
        assert_eq!(pause(new, Some(121), 2), None);
        assert_eq!(pause(new, Some(30), 3), None);
    }

    #[test]
    fn a_backoff_doubles_with_jitter_and_ends_after_two_retries() {
        for (attempts, most) in [(1, 0.5), (2, 1.0)] {
            let secs = pause(Client::Backoff, Some(30), attempts).unwrap();
            assert!((0.75 * most..=most).contains(&secs), "{secs} s after attempt {attempts}");
        }
        assert_eq!(pause(Client::Backoff, Some(30), 3), None);
    }

    #[test]
    fn only_an_obedient_client_shows_its_ticket() {
        let back = returns(Client::RetryAfter, Some(7), 1).unwrap();
        assert_eq!(back, Return { after: Span::secs(7), told: true, ticket: true });
        assert_eq!(returns(Client::RetryAfter, None, 1), None);
        assert!(!returns(Client::OpenAiPython, Some(7), 1).unwrap().ticket);
    }

    #[test]
    fn nobody_comes_back_after_a_failure_or_a_fault_of_its_own() {
        for reason in [RefusalReason::TooLong, RefusalReason::UpstreamFailed] {
            for client in Client::ALL {
                let refusal = refusal(reason, Some(1));
                assert_eq!(client.returns(&refusal, 1, &mut Rng::new(1)), None);
            }
        }
    }

    fn again(client: Client, status: Option<u16>, should_retry: Option<bool>) -> bool {
        let heard = Heard { status, retry_after: Some(Span::secs(1)), should_retry };
        client.returns_to(&heard, 1, &mut Rng::new(1)).is_some()
    }

    #[test]
    fn clients_come_back_after_the_statuses_that_the_official_sdks_retry() {
        for client in Client::ALL.into_iter().filter(|client| *client != Client::None) {
            for status in [408, 409, 429, 500, 502, 503, 504, 529, 599] {
                assert!(again(client, Some(status), None), "{client} after {status}");
            }
            for status in [200, 302, 400, 401, 403, 404, 413, 422, 499] {
                assert!(!again(client, Some(status), None), "{client} after {status}");
            }
            assert!(again(client, None, None), "{client} after a lost connection");
        }
        assert!(!again(Client::None, None, Some(true)));
    }

    #[test]
    fn the_sdks_let_the_server_say_whether_they_come_back() {
        for client in [Client::Backoff, Client::OpenAiPython, Client::OpenAiPythonOld] {
            assert!(again(client, Some(400), Some(true)) && !again(client, Some(503), Some(false)));
        }
        assert!(again(Client::Naive, Some(503), Some(false)));
        // A wait above what the SDK obeys is final all the same.
        let long = Heard {
            status: Some(503),
            retry_after: Some(Span::secs(121)),
            should_retry: Some(true),
        };
        assert_eq!(Client::OpenAiPython.returns_to(&long, 1, &mut Rng::new(1)), None);
        // A wait of nothing is none.
        let now = Heard { retry_after: Some(Span::ZERO), ..long };
        let back = Client::OpenAiPython.returns_to(&now, 1, &mut Rng::new(1)).unwrap();
        assert!(!back.told && back.after > Span::millis(300));
    }

    #[test]
    fn names_and_models_are_one_to_one() {
        for client in Client::ALL {
            assert_eq!(client.name().parse(), Ok(client));
        }
        assert!("Retry-After".parse::<Client>().is_err());
    }
}
