//! Listens to KV events, as a router that follows caches does.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use forebay_lab::engine_server::Fault;
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use crate::client::Engines;

fn engines() -> Engines {
    Engines::start(|options| {
        options.host = Ipv4Addr::LOCALHOST.into();
        (options.kv_events_port, options.kv_replay_port) = (Some(0), Some(0));
    })
}

/// Sends a prompt of so many tokens that no other prompt begins with.
fn prompt(engines: &Engines, first: u32, tokens: u32) {
    let numbers: Vec<u32> = (first..first + tokens).collect();
    let body = format!(r#"{{"prompt": {numbers:?}, "max_tokens": 1}}"#);
    assert_eq!(engines.post("/v1/completions", &body).status, 200);
}

/// Everything that is kept from a number on: number and batch, in order.
async fn replay(engines: &Engines, from: u64) -> Vec<(u64, Vec<u8>)> {
    let at = engines.server().kv_addrs()[0].replay.expect("it is bound");
    let mut socket = DealerSocket::new();
    socket.connect(&format!("tcp://{at}")).await.expect("it listens");
    let asked = vec![Bytes::new(), Bytes::copy_from_slice(&from.to_be_bytes())];
    socket.send(ZmqMessage::try_from(asked).expect("it has frames")).await.expect("it is sent");
    let mut batches = Vec::new();
    loop {
        let frames = socket.recv().await.expect("it answers").into_vec();
        let number = u64::from_be_bytes(frames[2][..].try_into().expect("a number has 8 bytes"));
        if number == u64::MAX {
            assert_eq!((&frames[1][..], &frames[3][..]), (&b""[..], &b""[..]));
            return batches;
        }
        assert_eq!(&frames[1][..], b"kv-events");
        batches.push((number, frames[3].to_vec()));
    }
}

fn holds(batch: &[u8], text: &str) -> bool {
    batch.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn what_is_stored_is_published_and_can_be_asked_for_again() {
    let engines = engines();
    let at = engines.server().kv_addrs()[0].live.expect("it is bound");
    engines.runtime().block_on(async {
        let mut socket = SubSocket::new();
        socket.connect(&format!("tcp://{at}")).await.expect("it listens");
        socket.subscribe("").await.expect("it is sent");
        // A subscription takes its time, so prompts are sent until one is heard of.
        let mut first = 0;
        let heard = loop {
            prompt(&engines, first, 128);
            first += 128;
            if let Ok(heard) = tokio::time::timeout(Duration::from_millis(50), socket.recv()).await
            {
                break heard.expect("it is a message").into_vec();
            }
        };
        assert_eq!((heard.len(), &heard[0][..]), (3, &b"kv-events"[..]));
        assert!(holds(&heard[2], "BlockStored"));
        let kept = replay(&engines, 0).await;
        let numbers: Vec<u64> = kept.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
        let number = u64::from_be_bytes(heard[1][..].try_into().expect("it has 8 bytes"));
        assert_eq!(kept[number as usize].1, heard[2]);
        assert_eq!(replay(&engines, numbers.len() as u64).await, []);
    });
}

#[test]
fn a_cleared_cache_is_told_with_the_next_request_and_a_restart_counts_from_zero() {
    let engines = engines();
    prompt(&engines, 0, 128);
    assert_eq!(engines.post("/reset_prefix_cache", "").status, 200);
    let kept = engines.runtime().block_on(replay(&engines, 0));
    assert_eq!(kept.len(), 1);
    prompt(&engines, 0, 128);
    let kept = engines.runtime().block_on(replay(&engines, 0));
    assert!(kept.len() == 2 && holds(&kept[1].1, "AllBlocksCleared"));
    engines.fault(Fault { restart: true, ..Fault::default() });
    prompt(&engines, 0, 128);
    let kept = engines.runtime().block_on(replay(&engines, 0));
    assert!(kept.len() == 1 && !holds(&kept[0].1, "AllBlocksCleared"), "{kept:?}");
}

#[test]
fn lost_events_leave_a_gap_that_a_replay_fills() {
    let engines = engines();
    engines.fault(Fault { drop_kv_events: Some(true), ..Fault::default() });
    prompt(&engines, 0, 128);
    engines.fault(Fault { heal: true, ..Fault::default() });
    prompt(&engines, 500, 128);
    let kept = engines.runtime().block_on(replay(&engines, 0));
    assert_eq!(kept.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
}
