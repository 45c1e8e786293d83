//! Says decisions in words: why a request went where it went, or why it was refused.
//!
//! Everything said here is in the [`Why`] or the [`Refusal`] itself, so a decision explains itself
//! wherever it is found: in a recording, in a log, in a ledger. Names of classes and tenants are
//! not known here.

use std::fmt;

use crate::refusal::{Refusal, RefusalReason};
use crate::units::{Span, Tokens};
use crate::why::{Candidate, Cause, GateView, Why};

impl fmt::Display for Cause {
    /// The end of a sentence that began with the decision.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pushed => "its mode chooses a worker at arrival",
            Self::Order => "it and its worker were the best pair by the order",
            Self::Promise => "it had waited past its promise and went first",
            Self::Reserved => "a worker had been reserved for it",
            Self::Again => "its worker had failed it before the first byte, and it ran again",
            Self::Spilled => "its predicted wait was above the limit of its class, which spills",
        })
    }
}

impl fmt::Display for Why {
    /// A paragraph without its subject's name: what decided, the wait, the candidates, the gate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mode {} decided, attempt {}: {}.", self.mode, self.attempt, self.cause)?;
        write!(f, " {}", Waited(self.waited))?;
        match self.predicted_wait {
            Some(wait) => write!(f, ", and first-come was predicted to cost it {wait}.")?,
            None => write!(f, "; nothing had been measured yet to predict a wait from.")?,
        }
        if let Some(behind) = self.behind {
            write!(f, " The last to go before it was {behind}.")?;
        }
        if self.passed > 0 {
            write!(f, " Of those that came before it, {} waited still.", self.passed)?;
        }
        match self.queue_len {
            0 => f.write_str(" Once it had gone, none waited in the pool.")?,
            waited => write!(f, " Once it had gone, {waited} waited in the pool.")?,
        }
        self.fmt_candidates(f)?;
        if let Some(gate) = &self.gate {
            write!(f, " {gate}")?;
        }
        write!(
            f,
            " Its prompt has {}, and {} of output {} reserved for it",
            self.prompt,
            self.expected_output,
            if self.expected_output.0 == 1 { "was" } else { "were" }
        )?;
        match self.occupancy {
            Tokens::ZERO => f.write_str("."),
            occupancy => write!(f, "; to hold its KV was weighed like {occupancy} of prefill."),
        }
    }
}

impl Why {
    fn fmt_candidates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.workers_open {
            0 => f.write_str(" No worker was open.")?,
            1 => f.write_str(" One worker was open.")?,
            n => write!(f, " {n} workers were open.")?,
        }
        let Some((chosen, others)) = self.candidates.split_first() else {
            return Ok(());
        };
        write!(f, " The choice was {}", Of(chosen, self.prompt))?;
        for (nth, other) in others.iter().enumerate() {
            let joint = if nth == 0 { "; next came" } else { "," };
            write!(f, "{joint} {}", Of(other, self.prompt))?;
        }
        f.write_str(".")
    }
}

/// The beginning of a sentence on a wait.
struct Waited(Span);

impl fmt::Display for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Span::ZERO => f.write_str("It had not waited"),
            span => write!(f, "It had waited {span}"),
        }
    }
}

/// A candidate for a prompt of this length.
struct Of<'a>(&'a Candidate, Tokens);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Candidate { worker, score, cached, backlog }, prompt) = self;
        write!(
            f,
            "{worker} with a score of {score:.3} ({} of {} prompt token{}",
            cached.0,
            prompt.0,
            if prompt.0 == 1 { "" } else { "s" }
        )?;
        write!(f, " cached, {backlog} of prefill before it)")
    }
}

impl fmt::Display for GateView {
    /// One sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.capacity.as_f64() * self.fraction;
        write!(
            f,
            "The gate saw {} of {} committed there, {allowed:.0} allowed (a fraction of {:.3}), \
             and {} more for it.",
            self.committed.0, self.capacity, self.fraction, self.need.0
        )
    }
}

impl fmt::Display for Refusal {
    /// A paragraph without its subject's name: the reason, the limit, the waits, the advice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (HTTP {}): ", self.reason, self.reason.status())?;
        self.fmt_reason(f)?;
        write!(f, ". {}", Waited(self.waited))?;
        if let Some(wait) = self.predicted_wait {
            write!(f, "; the predicted wait was {wait}")?;
        }
        f.write_str(". ")?;
        match self.retry_after {
            Some(span) if self.sustained => write!(
                f,
                "Overload is sustained: it was told to come back after {span}, but that is the cap."
            ),
            Some(span) => write!(f, "It was told to come back after {span}."),
            None => f.write_str("It was given no Retry-After."),
        }
    }
}

impl Refusal {
    fn fmt_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        match self.reason {
            RefusalReason::QueueFull => {
                write!(f, "as many requests waited as may wait: {limit}")
            }
            RefusalReason::Shed => write!(
                f,
                "its class sheds, and the predicted wait was above the class's limit of {limit} ms"
            ),
            RefusalReason::WaitedTooLong => {
                write!(f, "it waited as long as its class lets it: {limit} ms")
            }
            RefusalReason::TenantRate => {
                write!(f, "its tenant sent more requests than agreed: {limit} a second")
            }
            RefusalReason::TenantTokens => {
                write!(f, "its tenant sent more prompt tokens than agreed: {limit} a second")
            }
            RefusalReason::TenantConcurrency => {
                write!(f, "its tenant had as many requests open as agreed: {limit}")
            }
            RefusalReason::WorkersBusy => f.write_str(
                "every worker was above its mode's own threshold, or would not take it, and the \
                 mode holds nothing",
            ),
            RefusalReason::TooLong => {
                write!(f, "it can never fit any worker; the largest has room for {limit} tokens")
            }
            RefusalReason::NoWorker => {
                f.write_str("there was no worker to run it, and its class does not wait for one")
            }
            RefusalReason::Draining => f.write_str("the pool was being shut down"),
            RefusalReason::UpstreamFailed => {
                f.write_str("its worker broke, and no other attempt was allowed")
            }
            RefusalReason::UpstreamTimeout => f.write_str("its worker fell silent"),
            RefusalReason::Unauthenticated => f.write_str("its client presented no valid key"),
            RefusalReason::Forbidden => f.write_str("its client's key is not for this"),
            RefusalReason::GatewayFull => {
                write!(f, "the gateway itself was full; its limit is {limit}")
            }
            RefusalReason::InvalidRequest => f.write_str("it was no request of its endpoint"),
            RefusalReason::UnknownModel => f.write_str("no pool serves the model it asked for"),
            RefusalReason::UnknownEndpoint => f.write_str("there is no such endpoint"),
            RefusalReason::BodyTooLarge => {
                write!(f, "its body was longer than the limit of {limit} bytes")
            }
            RefusalReason::BodyTimeout => f.write_str("its body did not come in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Candidate, Cause, ClassId, GateView, Refusal, RefusalReason, RequestId, Span, Tokens, Why,
        WorkerId,
    };

    fn why() -> Why {
        let candidate = |worker, score, cached, backlog| Candidate {
            worker: WorkerId(worker),
            score,
            cached: Tokens(cached),
            backlog: Tokens(backlog),
        };
        Why {
            cause: Cause::Order,
            mode: "hold",
            prompt: Tokens(9120),
            expected_output: Tokens(182),
            occupancy: Tokens(640),
            waited: Span::millis(1662),
            predicted_wait: Some(Span::millis(5120)),
            candidates: vec![candidate(1, -0.25, 8704, 1024), candidate(0, 1.5, 512, 0)],
            workers_open: 2,
            gate: Some(GateView {
                committed: Tokens(82_000),
                need: Tokens(598),
                capacity: Tokens(126_155),
                fraction: 0.95,
            }),
            queue_len: 41,
            passed: 3,
            behind: Some(RequestId(12)),
            attempt: 1,
        }
    }

    #[test]
    fn a_dispatch_says_who_waited_and_what_the_gate_saw() {
        assert_eq!(
            why().to_string(),
            "Mode hold decided, attempt 1: it and its worker were the best pair by the order. \
             It had waited 1.662 s, and first-come was predicted to cost it 5.120 s. \
             The last to go before it was request 12. Of those that came before it, 3 waited \
             still. Once it had gone, 41 waited in the pool. 2 workers were open. \
             The choice was worker 1 with a score of -0.250 (8704 of 9120 prompt tokens cached, \
             1024 tokens of prefill before it); next came worker 0 with a score of 1.500 (512 of \
             9120 prompt tokens cached, 0 tokens of prefill before it). \
             The gate saw 82000 of 126155 tokens committed there, 119847 allowed (a fraction of \
             0.950), and 598 more for it. \
             Its prompt has 9120 tokens, and 182 tokens of output were reserved for it; to hold \
             its KV was weighed like 640 tokens of prefill."
        );
    }

    #[test]
    fn one_is_one_and_none_is_none() {
        let (expected_output, occupancy) = (Tokens(1), Tokens::ZERO);
        let told = Why { prompt: Tokens(1), expected_output, occupancy, queue_len: 0, ..why() };
        let told = told.to_string();
        assert!(told.contains(" none waited in the pool."), "{told}");
        assert!(told.contains(" of 1 prompt token cached"), "{told}");
        let end = " Its prompt has 1 token, and 1 token of output was reserved for it.";
        assert!(told.ends_with(end), "{told}");
    }

    #[test]
    fn a_push_that_found_nothing_open_leaves_out_what_is_not_known() {
        let pushed = Why {
            cause: Cause::Pushed,
            occupancy: Tokens::ZERO,
            mode: "round-robin",
            candidates: Vec::new(),
            workers_open: 0,
            gate: None,
            passed: 0,
            behind: None,
            waited: Span::ZERO,
            ..why()
        };
        assert_eq!(
            pushed.to_string(),
            "Mode round-robin decided, attempt 1: its mode chooses a worker at arrival. \
             It had not waited, and first-come was predicted to cost it 5.120 s. \
             Once it had gone, 41 waited in the pool. No worker was open. \
             Its prompt has 9120 tokens, and 182 tokens of output were reserved for it."
        );
    }

    fn refusal(reason: RefusalReason, limit: u64) -> Refusal {
        Refusal {
            reason,
            class: ClassId(0),
            retry_after: Some(Span::secs(7)),
            predicted_wait: Some(Span::millis(6400)),
            waited: Span::ZERO,
            limit,
            sustained: false,
        }
    }

    #[test]
    fn a_refusal_says_the_limit_the_predicted_wait_and_when_to_come_back() {
        assert_eq!(
            refusal(RefusalReason::Shed, 2000).to_string(),
            "shed (HTTP 503): its class sheds, and the predicted wait was above the class's limit \
             of 2000 ms. It had not waited; the predicted wait was 6.400 s. \
             It was told to come back after 7.000 s."
        );
    }

    #[test]
    fn a_refusal_whose_advice_is_only_the_cap_says_so() {
        let capped = Refusal { sustained: true, ..refusal(RefusalReason::QueueFull, 2000) };
        assert_eq!(
            capped.to_string(),
            "queue_full (HTTP 503): as many requests waited as may wait: 2000. \
             It had not waited; the predicted wait was 6.400 s. \
             Overload is sustained: it was told to come back after 7.000 s, but that is the cap."
        );
    }

    #[test]
    fn every_reason_begins_with_its_label_and_status_and_gives_no_advice_it_does_not_have() {
        for reason in RefusalReason::ALL {
            let bare = Refusal { retry_after: None, ..refusal(reason, 8) }.to_string();
            let start = format!("{} (HTTP {}): ", reason.label(), reason.status());
            assert!(bare.starts_with(&start), "{bare}");
            assert!(bare.ends_with("It was given no Retry-After."), "{bare}");
        }
    }
}
