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
        self.returns_to(refusal.reason.status(), refusal.retry_after, attempts, rng)
    }

    /// The same for an answer with this status that asked for so long a wait.
    pub(crate) fn returns_to(
        self,
        status: u16,
        retry_after: Option<Span>,
        attempts: u32,
        rng: &mut Rng,
    ) -> Option<Return> {
        if !matches!(status, 429 | 503 | 529) || attempts >= self.attempts_max() {
            return None;
        }
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

    use super::{Client, Return};

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

    #[test]
    fn names_and_models_are_one_to_one() {
        for client in Client::ALL {
            assert_eq!(client.name().parse(), Ok(client));
        }
        assert!("Retry-After".parse::<Client>().is_err());
    }
}
