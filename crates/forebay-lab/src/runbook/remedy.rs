//! Says for each refusal which keys change it, what to change, and what that costs; and which
//! metrics to look at, in which order.

use forebay_core::RefusalReason as Reason;

/// A key of the gateway's file: its table, without brackets, and its name.
pub(super) type KeyName = (&'static str, &'static str);

/// What can be done about one refusal.
pub(super) struct Remedy {
    /// The keys that set when it happens.
    pub(super) keys: &'static [KeyName],
    /// What to change.
    pub(super) change: &'static str,
    /// What that costs.
    pub(super) costs: &'static str,
}

/// A metric and how to read it.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) means: &'static str,
    pub(super) then: &'static str,
}

/// What to look at, first things first.
pub(super) const METRICS: [Metric; 9] = [
    Metric {
        name: "forebay_requests_refused_total",
        means: "refusals by class and reason",
        then: "read the reason's row below",
    },
    Metric {
        name: "forebay_requests_offered_total",
        means: "what came, retries included",
        then: "above normal: find the client that sends more",
    },
    Metric {
        name: "forebay_worker_usable",
        means: "0: the worker gets nothing",
        then: "`/admin/fleet` says why; bring it back before anything else",
    },
    Metric {
        name: "forebay_requests_waiting",
        means: "the queue, by class",
        then: "long and falling: wait. Long and growing: overload that lasts",
    },
    Metric {
        name: "forebay_queue_wait_seconds",
        means: "what those who are served wait",
        then: "near `wait_ms_max`: more will be refused soon",
    },
    Metric {
        name: "forebay_worker_kv_committed_tokens",
        means: "memory that is promised, beside `forebay_worker_kv_capacity_tokens`",
        then: "near capacity times gate: memory is the bottleneck, more workers help",
    },
    Metric {
        name: "forebay_worker_preemptions_total",
        means: "engines that took work back",
        then: "any lasting rate: lower `fraction_max`",
    },
    Metric {
        name: "forebay_retry_after_seconds",
        means: "when clients were told to come back",
        then: "at the cap: overload is sustained, capacity must grow or load must fall",
    },
    Metric {
        name: "forebay_requests_failed_total",
        means: "workers that broke",
        then: "not a storm but a fault: find the worker in the access log",
    },
];

const WAIT: KeyName = ("class", "wait_ms_max");

/// What can be done about a refusal.
#[expect(clippy::too_many_lines, reason = "it is one table, a row for each reason")]
pub(super) const fn of(reason: Reason) -> Remedy {
    let (keys, change, costs): (&'static [KeyName], _, _) = match reason {
        Reason::QueueFull => (
            &[("class", "queue_len_max"), ("limits", "queue_len_max")],
            "nothing at first: a full queue is minutes of work already. Then `queue_len_max`",
            "whoever is let in waits longer, and may give up after the work was done",
        ),
        Reason::Shed => (
            &[("class", "overload"), WAIT],
            "raise `wait_ms_max`, or let the class queue or spill in place of shedding",
            "those who are served wait up to that long; other classes do not pay, shares see to it",
        ),
        Reason::WaitedTooLong => (
            &[WAIT, ("timeouts", "total_ms_max")],
            "raise `wait_ms_max` if clients wait that long; else let the class shed at once",
            "longer waits; or earlier refusals, which cost nobody's time",
        ),
        Reason::TenantRate => (
            &[("tenant", "requests_per_s_max"), ("tenant", "requests_burst_max")],
            "the tenant's rate, after a word with the tenant",
            "what one tenant gets, the others may lack at the next peak",
        ),
        Reason::TenantTokens => (
            &[("tenant", "tokens_per_s_max"), ("tenant", "tokens_burst_max")],
            "the tenant's tokens, after a word with the tenant",
            "long prompts of one tenant take memory that many short ones need",
        ),
        Reason::TenantConcurrency => (
            &[("tenant", "concurrency_max")],
            "the tenant's concurrency; or shorter answers on its side",
            "as for its rate",
        ),
        Reason::WorkersBusy => (
            &[("pool", "mode")],
            "the mode `hold`, which waits for room in place of refusing",
            "a wait at the door, within the class's limit",
        ),
        Reason::TooLong => (
            &[("pool", "kv_capacity_tokens")],
            "nothing here: the prompt fits no worker. Send it to larger ones",
            "a larger context takes memory from everybody",
        ),
        Reason::NoWorker => (
            &[("health", "interval_ms"), ("health", "failures"), ("limits", "mark_ms")],
            "bring a worker back: `/admin/fleet` says what is wrong with each",
            "nothing",
        ),
        Reason::Draining => (
            &[("timeouts", "drain_ms_max")],
            "nothing: the gateway is stopping. See that another one takes its traffic",
            "nothing",
        ),
        Reason::UpstreamFailed => (
            &[("retries", "budget_share"), ("limits", "attempts_max")],
            "find the worker that breaks; drain it",
            "its capacity, until it is well",
        ),
        Reason::UpstreamTimeout => (
            &[("timeouts", "first_byte_ms_max"), ("timeouts", "idle_ms_max")],
            "find the worker that is silent; drain it",
            "its capacity, until it is well",
        ),
        Reason::GatewayFull => (
            &[("listen", "bodies_bytes_max")],
            "raise it where memory allows, or let less wait",
            "memory of the gateway: past the machine's, everything stops",
        ),
        Reason::BodyTooLarge => (
            &[("listen", "body_bytes_max")],
            "the bound, if such bodies are meant",
            "one client may then hold that much memory",
        ),
        Reason::BodyTimeout => (
            &[("listen", "body_ms_max")],
            "the bound, if clients are that far away",
            "slow clients hold connections longer",
        ),
        Reason::Unauthenticated | Reason::Forbidden => {
            (&[], "the client's key, or what it may ask for: no matter of load", "nothing")
        }
        Reason::InvalidRequest | Reason::UnknownModel | Reason::UnknownEndpoint => (
            &[],
            "the client: no matter of load. After a deployment, see that models are still named",
            "nothing",
        ),
    };
    Remedy { keys, change, costs }
}

#[cfg(test)]
mod tests {
    use forebay_core::RefusalReason;

    use super::{METRICS, of};

    #[test]
    fn every_metric_is_one_that_the_gateway_has() {
        let reference = include_str!("../../../../docs/reference/metrics.md");
        for metric in METRICS {
            assert!(reference.contains(&format!("`{}`", metric.name)), "{}", metric.name);
        }
    }

    #[test]
    fn every_key_is_one_that_the_gateways_file_has() {
        let references = [
            include_str!("../../../../docs/reference/config.md"),
            include_str!("../../../../docs/reference/service.md"),
        ];
        // Those that are no numbers stand in the concept's examples.
        let overload = include_str!("../../../../docs/concepts/overload.md");
        assert!(overload.contains("\noverload = "));
        let keys = RefusalReason::ALL.iter().flat_map(|reason| of(*reason).keys);
        for (table, key) in keys.filter(|key| **key != ("class", "overload")) {
            let known = references.iter().any(|text| {
                let mut sections = text.split("\n## ");
                sections.any(|section| {
                    let title = section.lines().next().unwrap_or("");
                    title.contains(&format!("`{table}`")) && section.contains(&format!("| `{key}`"))
                })
            });
            assert!(known, "[{table}] {key}");
        }
    }
}
