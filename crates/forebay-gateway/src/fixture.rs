//! Makes small gateways for tests: two classes, no sockets.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{
    Arrival, ClassId, ClassSettings, GateSettings, HoldOrder, Knowledge, Limits, Mode, Observation,
    Overload, PoolId, RequestId, Settings, Span, TenantId, TenantSettings, Tokens, WorkerProfile,
};

use crate::clock::Clock;
use crate::config::WorkerUrl;
use crate::gateway::Gateway;
use crate::observe::Observe;
use crate::pool::{Diary, Pool, PoolParts};
use crate::rules::{Bodies, ClassRule, Identity, Keys, Rules, Timeouts};
use crate::workers::WorkerParts;
use crate::workers::connect::Manner;

/// A public class that queues, and a batch class that sheds.
pub(crate) fn settings() -> Settings {
    let class = |overload, wait_max| ClassSettings {
        overload,
        wait_max,
        queue_len_max: 1_000,
        share: 1,
        ageing: 3.0,
        promise: 2.0,
    };
    Settings {
        accepting: true,
        mode: Mode::Hold(HoldOrder::Aged),
        knowledge: Knowledge::Own,
        block_size: 16,
        expected_output: None,
        classes: vec![class(Overload::Queue, None), class(Overload::Shed, Some(Span::secs(1)))],
        tenant_default: TenantSettings {
            weight: 1,
            rate: None,
            tokens: None,
            concurrency_max: None,
        },
        tenants: Vec::new(),
        gate: GateSettings {
            fraction_start: 0.95,
            fraction_min: 0.8,
            fraction_max: 1.0,
            backlog_steps_max: 1.5,
        },
        limits: Limits {
            queue_len_max: 1_000,
            running_max: 1_000,
            workers_max: 10,
            tenants_max: 10,
            means_max: 10,
            promises_max: 10,
            attempts_max: 3,
            retry_after_max: Span::secs(60),
            mark: Span::millis(1),
        },
    }
}

/// Rules without keys for one pool, with classes of these names.
pub(crate) fn rules(classes: [&str; 2]) -> Rules {
    let second = Duration::from_secs(1);
    let class = |name: &str| ClassRule { name: name.to_owned() };
    Rules {
        keys: Keys::default(),
        anonymous: Some(Identity { tenant: TenantId(0), class: None, models: None, admin: true }),
        models: [("model/a".to_owned(), 0)].into_iter().collect(),
        sole_pool: None,
        classes: classes.map(class).into(),
        tenants: vec!["city".to_owned()],
        timeouts: Timeouts { connect: second, first_byte: second, idle: second, total: second },
        bodies: Bodies { bytes_max: 1 << 20, held_bytes_max: 1 << 24, time_max: second },
        ask_usage: vec![false],
        retry_share: 0.1,
        retry_floor: 3,
        progress: None,
        secret: b"secret".to_vec(),
    }
}

/// A pool without workers.
pub(crate) fn pool(name: &str, clock: Clock, diary: Option<Box<dyn Diary>>) -> Arc<Pool> {
    let parts = PoolParts {
        id: PoolId(0),
        name: name.to_owned(),
        settings: settings(),
        seed: 7,
        bytes_per_token: 4.0,
        lanes: 1,
        diary,
    };
    Arc::new(Pool::new(parts, clock))
}

/// A gateway with one pool of this name, and classes of these.
pub(crate) fn gateway(name: &str, classes: [&str; 2]) -> Arc<Gateway> {
    let clock = Clock::start();
    let rules = rules(classes);
    let observe = Observe::new([name], &rules);
    Arc::new(Gateway::new(clock, vec![pool(name, clock, None)], rules, observe))
}

/// Lists a worker at this port, and has it join its pool.
pub(crate) fn join(pool: &Pool, port: u16) -> forebay_core::WorkerId {
    let url = WorkerUrl {
        tls: false,
        host: "127.0.0.1".to_owned(),
        port,
        authority: format!("127.0.0.1:{port}"),
        path_prefix: String::new(),
    };
    let worker = pool.roster.join(WorkerParts { url, manner: Manner::default() });
    let profile = WorkerProfile {
        kv_capacity: Some(Tokens(1_000)),
        batch_tokens_max: Tokens(512),
        seqs_max: 4,
    };
    pool.observe(worker.id, Observation::Joined(profile));
    worker.id
}

/// A request of the first class, with a prompt of this length.
pub(crate) fn arrival(prompt: u64) -> Arrival {
    Arrival {
        request: RequestId(0),
        class: ClassId(0),
        tenant: TenantId(0),
        session: None,
        prompt: Tokens(prompt),
        output_max: Some(Tokens(64)),
        blocks: Arc::from([]),
        ticket: None,
    }
}
