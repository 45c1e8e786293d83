//! Writes what goes into the core, and what comes out of it, as words.

use super::{fields, variants};
use crate::words::{BadWords, Cursor, Words};
use crate::{
    Alarm, Arrival, Candidate, Cause, GateView, Input, Load, Mode, Observation, Outcome, Output,
    Refusal, RefusalReason, Ticket, Why, WorkerProfile,
};

variants! {
    Input, "an input" {
        0 = Arrived(arrival), 1 = FirstToken(request), 2 = Progress(request, tokens),
        3 = Finished(request, outcome), 4 = Abandoned(request), 5 = Observed(worker, what),
        6 = Reconfigured(settings), 7 = Elapsed, 8 = Prefilled(request),
    }
    Observation, "an observation" {
        0 = Joined(profile), 1 = Left, 2 = Draining(yes), 3 = Healthy(yes), 4 = Capacity(tokens),
        5 = Load(load), 6 = Stored(blocks), 7 = Removed(blocks), 8 = Cleared,
        9 = Lost,
    }
    Output, "an output" {
        0 = Dispatch(request, worker, why), 1 = Spill(request, pool, why),
        2 = Refuse(request, refusal), 3 = Cancel(request, worker), 4 = Sleep(until),
    }
    Alarm, "an alarm" { 0 = WaitedTooLong, 1 = Mark }
    Cause, "a cause" { 0 = Pushed, 1 = Order, 2 = Promise, 3 = Reserved, 4 = Again, 5 = Spilled }
    RefusalReason, "a reason" {
        0 = QueueFull, 1 = Shed, 2 = WaitedTooLong, 3 = TenantRate, 4 = TenantTokens,
        5 = TenantConcurrency, 6 = TooLong, 7 = NoWorker, 8 = Draining, 9 = UpstreamFailed,
        10 = UpstreamTimeout, 11 = Unauthenticated, 12 = Forbidden,
        13 = WorkersBusy, 14 = GatewayFull, 15 = InvalidRequest, 16 = UnknownModel,
        17 = UnknownEndpoint, 18 = BodyTooLarge, 19 = BodyTimeout,
    }
}

fields! {
    Arrival { request, class, tenant, session, prompt, output_max, blocks, ticket }
    Ticket { first_arrived, promised }
    WorkerProfile { kv_capacity, batch_tokens_max, seqs_max }
    Load { running, waiting, preemptions_total }
    Refusal { reason, class, retry_after, predicted_wait, waited, limit, sustained }
    GateView { committed, need, capacity, fraction }
    Candidate { worker, score, cached, backlog }
    Why {
        cause, mode, prompt, expected_output, occupancy, waited, predicted_wait, candidates,
        workers_open, gate, queue_len, passed, behind, attempt,
    }
}

impl Words for Outcome {
    fn put(&self, out: &mut Vec<u64>) {
        match self {
            Self::Completed { output } => {
                out.push(0);
                output.put(out);
            }
            Self::Backpressure => out.push(1),
            Self::Broke => out.push(2),
            Self::BrokeMidStream => out.push(3),
            Self::ClientFault => out.push(4),
        }
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        let at = from.at;
        match from.word("an outcome")? {
            0 => Ok(Self::Completed { output: Words::read(from)? }),
            1 => Ok(Self::Backpressure),
            2 => Ok(Self::Broke),
            3 => Ok(Self::BrokeMidStream),
            4 => Ok(Self::ClientFault),
            word => Err(BadWords::Range { at, of: "an outcome", word }),
        }
    }
}

/// A mode's name goes as the mode. A name outside the catalogue, which no mode has, is read back as
/// `unknown`.
impl Words for &'static str {
    fn put(&self, out: &mut Vec<u64>) {
        self.parse::<Mode>().ok().put(out);
    }
    fn read(from: &mut Cursor<'_>) -> Result<Self, BadWords> {
        Ok(Option::<Mode>::read(from)?.map_or("unknown", Mode::name))
    }
}
