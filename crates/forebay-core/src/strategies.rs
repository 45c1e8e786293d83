//! Draws any input, output or settings, for property tests.
//!
//! Values are drawn over their whole range, sense or none: what must hold for every value must hold
//! for these. Tests that need a sensible script narrow them.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::num::f64::{INFINITE, NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
use proptest::option;
use proptest::prelude::*;

use crate::{
    Alarm, Arrival, BlockHash, Bucket, Candidate, Cause, ClassId, ClassSettings, GateSettings,
    GateView, Input, Knowledge, Limits, Load, Mode, Moment, Observation, Outcome, Output, Overload,
    PoolId, Refusal, RefusalReason, RequestId, Settings, Span, TenantId, TenantSettings, Ticket,
    Tokens, Why, WorkerId, WorkerProfile,
};

/// Any float that equals itself.
fn float() -> impl Strategy<Value = f64> {
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO | INFINITE
}

fn tokens() -> impl Strategy<Value = Tokens> {
    any::<u64>().prop_map(Tokens)
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span)
}

fn request() -> impl Strategy<Value = RequestId> {
    any::<u64>().prop_map(RequestId)
}

fn worker() -> impl Strategy<Value = WorkerId> {
    any::<u32>().prop_map(WorkerId)
}

fn blocks() -> impl Strategy<Value = Arc<[BlockHash]>> {
    vec(any::<u64>().prop_map(BlockHash), 0..8).prop_map(Arc::from)
}

/// Any arrival.
pub(crate) fn arrival() -> impl Strategy<Value = Arrival> {
    let ticket = any::<(u64, u64)>().prop_map(|(first, promised)| Ticket {
        first_arrived: Moment(first),
        promised: Moment(promised),
    });
    (
        (request(), any::<u16>(), any::<u32>(), any::<Option<u64>>()),
        (tokens(), option::of(tokens()), blocks(), option::of(ticket)),
    )
        .prop_map(
            |((request, class, tenant, session), (prompt, output_max, blocks, ticket))| {
                let (class, tenant) = (ClassId(class), TenantId(tenant));
                Arrival { request, class, tenant, session, prompt, output_max, blocks, ticket }
            },
        )
}

/// Any outcome.
pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        tokens().prop_map(|output| Outcome::Completed { output }),
        Just(Outcome::Backpressure),
        Just(Outcome::Broke),
        Just(Outcome::BrokeMidStream),
        Just(Outcome::ClientFault),
    ]
}

/// Any profile of a worker.
pub(crate) fn profile() -> impl Strategy<Value = WorkerProfile> {
    (option::of(tokens()), tokens(), any::<u32>()).prop_map(
        |(kv_capacity, batch_tokens_max, seqs_max)| WorkerProfile {
            kv_capacity,
            batch_tokens_max,
            seqs_max,
        },
    )
}

/// Any observation.
pub(crate) fn observation() -> impl Strategy<Value = Observation> {
    prop_oneof![
        profile().prop_map(Observation::Joined),
        Just(Observation::Left),
        Just(Observation::Lost),
        any::<bool>().prop_map(Observation::Draining),
        any::<bool>().prop_map(Observation::Healthy),
        tokens().prop_map(Observation::Capacity),
        any::<(u32, u32, u64)>().prop_map(|(running, waiting, preemptions_total)| {
            Observation::Load(Load { running, waiting, preemptions_total })
        }),
        blocks().prop_map(Observation::Stored),
        blocks().prop_map(Observation::Removed),
        Just(Observation::Cleared),
    ]
}

/// Any input.
pub(crate) fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        arrival().prop_map(Input::Arrived),
        request().prop_map(Input::FirstToken),
        request().prop_map(Input::Prefilled),
        (request(), tokens()).prop_map(|(request, tokens)| Input::Progress(request, tokens)),
        (request(), outcome()).prop_map(|(request, outcome)| Input::Finished(request, outcome)),
        request().prop_map(Input::Abandoned),
        (worker(), observation()).prop_map(|(worker, what)| Input::Observed(worker, what)),
        settings().prop_map(|settings| Input::Reconfigured(Box::new(settings))),
        Just(Input::Elapsed),
    ]
}

fn class() -> impl Strategy<Value = ClassSettings> {
    let overload = prop_oneof![
        Just(Overload::Queue),
        Just(Overload::Shed),
        any::<u16>().prop_map(|pool| Overload::Spill(PoolId(pool))),
    ];
    (overload, option::of(span()), any::<(u32, u32)>(), float(), float()).prop_map(
        |(overload, wait_max, (queue_len_max, share), ageing, promise)| ClassSettings {
            overload,
            wait_max,
            queue_len_max,
            share,
            ageing,
            promise,
        },
    )
}

fn tenant() -> impl Strategy<Value = TenantSettings> {
    let bucket = || {
        option::of((float(), float()).prop_map(|(per_second, burst)| Bucket { per_second, burst }))
    };
    (any::<u32>(), bucket(), bucket(), any::<Option<u32>>()).prop_map(
        |(weight, rate, tokens, concurrency_max)| TenantSettings {
            weight,
            rate,
            tokens,
            concurrency_max,
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    (any::<[u32; 7]>(), span(), span()).prop_map(|(counts, retry_after_max, mark)| Limits {
        queue_len_max: counts[0],
        running_max: counts[1],
        workers_max: counts[2],
        tenants_max: counts[3],
        means_max: counts[4],
        promises_max: counts[5],
        attempts_max: counts[6],
        retry_after_max,
        mark,
    })
}

/// Any mode of the catalogue.
pub(crate) fn mode() -> impl Strategy<Value = Mode> {
    proptest::sample::select(Mode::ALL.to_vec())
}

/// Any settings.
pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let knowledge = prop_oneof![Just(Knowledge::Events), Just(Knowledge::Own)];
    let gate =
        [float(), float(), float(), float()].prop_map(|[start, min, max, steps]| GateSettings {
            fraction_start: start,
            fraction_min: min,
            fraction_max: max,
            backlog_steps_max: steps,
        });
    let tenants = vec((any::<u32>().prop_map(TenantId), tenant()), 0..3);
    (
        (any::<bool>(), mode(), knowledge, any::<u32>(), option::of(tokens())),
        (vec(class(), 0..3), tenant(), tenants),
        (gate, limits()),
    )
        .prop_map(
            |(
                (accepting, mode, knowledge, block_size, expected_output),
                (classes, tenant_default, tenants),
                (gate, limits),
            )| Settings {
                accepting,
                mode,
                knowledge,
                block_size,
                expected_output,
                classes,
                tenant_default,
                tenants,
                gate,
                limits,
            },
        )
}

/// Any refusal.
pub(crate) fn refusal() -> impl Strategy<Value = Refusal> {
    (
        proptest::sample::select(RefusalReason::ALL.to_vec()),
        any::<(u16, u64, bool)>(),
        (option::of(span()), option::of(span()), span()),
    )
        .prop_map(
            |(reason, (class, limit, sustained), (retry_after, predicted_wait, waited))| Refusal {
                reason,
                class: ClassId(class),
                retry_after,
                predicted_wait,
                waited,
                limit,
                sustained,
            },
        )
}

fn gate_view() -> impl Strategy<Value = GateView> {
    (tokens(), tokens(), tokens(), float()).prop_map(|(committed, need, capacity, fraction)| {
        GateView { committed, need, capacity, fraction }
    })
}

fn candidate() -> impl Strategy<Value = Candidate> {
    (worker(), float(), tokens(), tokens()).prop_map(|(worker, score, cached, backlog)| Candidate {
        worker,
        score,
        cached,
        backlog,
    })
}

/// Any reason for a dispatch or a spill.
pub(crate) fn why() -> impl Strategy<Value = Why> {
    let cause = proptest::sample::select(vec![
        Cause::Pushed,
        Cause::Order,
        Cause::Promise,
        Cause::Reserved,
        Cause::Again,
        Cause::Spilled,
    ]);
    (
        (cause, mode(), tokens(), (tokens(), tokens()), span(), option::of(span())),
        (vec(candidate(), 0..4), option::of(gate_view()), option::of(request())),
        any::<[u32; 4]>(),
    )
        .prop_map(
            |(
                (cause, mode, prompt, (expected_output, occupancy), waited, predicted_wait),
                (candidates, gate, behind),
                [workers_open, queue_len, passed, attempt],
            )| Why {
                cause,
                mode: mode.name(),
                prompt,
                expected_output,
                occupancy,
                waited,
                predicted_wait,
                candidates,
                workers_open,
                gate,
                queue_len,
                passed,
                behind,
                attempt,
            },
        )
}

/// Any output.
pub(crate) fn output() -> impl Strategy<Value = Output> {
    let alarm = prop_oneof![Just(Alarm::WaitedTooLong), Just(Alarm::Mark),];
    prop_oneof![
        (request(), worker(), why()).prop_map(|(request, worker, why)| Output::Dispatch(
            request,
            worker,
            Box::new(why)
        )),
        (request(), any::<u16>(), why()).prop_map(|(request, pool, why)| Output::Spill(
            request,
            PoolId(pool),
            Box::new(why)
        )),
        (request(), refusal()).prop_map(|(request, refusal)| Output::Refuse(request, refusal)),
        (request(), worker()).prop_map(|(request, worker)| Output::Cancel(request, worker)),
        option::of((any::<u64>().prop_map(Moment), alarm)).prop_map(Output::Sleep),
    ]
}
