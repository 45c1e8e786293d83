//! Writes settings, and the numbers that name things, as words.

use super::{fields, variants, wrapped};
use crate::{
    BlockHash, Bucket, ClassId, ClassSettings, GateSettings, HoldOrder, Knowledge, KvPreset,
    Limits, Mode, Moment, Overload, PoolId, RequestId, Settings, Span, TenantId, TenantSettings,
    Tokens, WorkerId,
};

wrapped!(Moment, Span, Tokens, BlockHash, RequestId, WorkerId, PoolId, ClassId, TenantId);

variants! {
    Mode, "a mode" {
        0 = RoundRobin, 1 = Random, 2 = PowerOfTwo, 3 = LeastLoaded, 4 = LeastWork, 5 = Session,
        6 = Kv(preset), 7 = Hold(order),
    }
    KvPreset, "a preset" { 0 = Dynamo12, 1 = Dynamo12Wspt, 2 = Dynamo16 }
    HoldOrder, "an order" { 0 = Aged, 1 = FirstCome }
    Knowledge, "a source of knowledge" { 0 = Events, 1 = Own }
    Overload, "an overload policy" { 0 = Queue, 1 = Shed, 2 = Spill(pool) }
}

fields! {
    Settings {
        accepting, mode, knowledge, block_size, expected_output, classes, tenant_default, tenants,
        gate, limits,
    }
    ClassSettings { overload, wait_max, queue_len_max, share, ageing, promise }
    TenantSettings { weight, rate, tokens, concurrency_max }
    Bucket { per_second, burst }
    GateSettings { fraction_start, fraction_min, fraction_max, backlog_steps_max }
    Limits {
        queue_len_max, running_max, workers_max, tenants_max, means_max, promises_max,
        attempts_max, retry_after_max, mark,
    }
}
