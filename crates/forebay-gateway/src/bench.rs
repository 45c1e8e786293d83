//! temporary
#![allow(missing_docs)]
use std::sync::Arc;
use forebay_core::*;
use crate::*;
pub fn run(listen: &str, mode: &str, urls: &[String], lanes: usize) {
    let clock = clock::Clock::start();
    let settings = Settings { accepting: true, mode: mode.parse().unwrap(), knowledge: Knowledge::Own, block_size: 128, expected_output: None,
        classes: vec![ClassSettings { overload: Overload::Queue, wait_max: None, queue_len_max: 100_000, share: 1, ageing: 3.0, promise: 1.5 }],
        tenant_default: TenantSettings { weight: 1, rate: None, tokens: None, concurrency_max: None }, tenants: vec![],
        gate: GateSettings { fraction_start: 0.95, fraction_min: 0.6, fraction_max: 1.0, backlog_steps_max: 1.5 },
        limits: Limits { queue_len_max: 100_000, running_max: 100_000, workers_max: 100, tenants_max: 100, means_max: 1000, promises_max: 1000, attempts_max: 3, retry_after_max: Span::secs(60), mark: Span::secs(1) } };
    let pool = Arc::new(pool::Pool::new(pool::PoolParts { id: PoolId(0), name: "main".into(), settings, seed: 1, bytes_per_token: 4.0, lanes, diary: None }, clock));
    for url in urls {
        let (host, port) = url.split_once(':').unwrap();
        let w = pool.roster.join(workers::WorkerParts { url: config::WorkerUrl { tls: false, host: host.into(), port: port.parse().unwrap(), authority: url.clone(), path_prefix: String::new() }, headers: Default::default(), tls: None });
        pool.observe(w.id, Observation::Joined(WorkerProfile { kv_capacity: Some(Tokens(10_000_000)), batch_tokens_max: Tokens(1_000_000), seqs_max: 256 }));
    }
    let s = std::time::Duration::from_secs;
    let rules = rules::Rules { keys: Default::default(), models: Default::default(), sole_pool: Some(0), classes: vec![], tenants: vec![],
        timeouts: rules::Timeouts { connect: s(5), first_byte: s(600), idle: s(60), total: s(3600) }, bodies: rules::Bodies { bytes_max: 64 << 20, held_bytes_max: 1 << 30, time_max: s(60) },
        retry_share: 0.2, retry_floor: 10, progress: None, secret: vec![1] };
    let gateway = Arc::new(gateway::Gateway::new(clock, vec![Arc::clone(&pool)], rules, observe::Observe::default()));
    let mut senders = vec![];
    for lane in 0..lanes {
        let (tx, mut rx) = tokio::sync::mpsc::channel::<std::net::TcpStream>(1024);
        senders.push(tx);
        let gateway = Arc::clone(&gateway);
        std::thread::spawn(move || {
            let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            rt.block_on(async move {
                while let Some(s) = rx.recv().await {
                    let s = tokio::net::TcpStream::from_std(s).unwrap();
                    let gateway = Arc::clone(&gateway);
                    tokio::spawn(async move {
                        let peer = s.peer_addr().unwrap();
                        let service = hyper::service::service_fn(move |r| { let g = Arc::clone(&gateway); async move { Ok::<_, std::convert::Infallible>(request::serve(g, r, request::From { peer, lane }).await) } });
                        let _ = hyper::server::conn::http1::Builder::new().serve_connection(hyper_util::rt::TokioIo::new(s), service).await;
                    });
                }
            });
        });
    }
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async move {
        tokio::spawn(Arc::clone(&pool).keep_awake());
        let l = tokio::net::TcpListener::bind(listen).await.unwrap();
        let mut k = 0;
        loop {
            let (s, _) = l.accept().await.unwrap();
            s.set_nodelay(true).unwrap();
            let s = s.into_std().unwrap();
            k += 1;
            let _ = senders[k % lanes].send(s).await;
        }
    });
}
