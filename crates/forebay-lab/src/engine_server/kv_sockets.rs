//! Publishes KV events over `ZeroMQ` as vLLM does: a PUB socket for what happens, a ROUTER socket
//! for whoever missed something.
//!
//! A message is the topic, a sequence number from 0 at each start in 8 bytes, big-endian, and the
//! batch. The replay of what is kept from a number on ends with a number of all ones.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use zeromq::{Endpoint, PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

/// The topic that every message begins with.
const TOPIC: &str = "kv-events";
/// Batches kept for a replay: vLLM's `buffer_steps`.
const KEPT_MAX: usize = 10_000;
/// Batches on their way to the publisher.
pub(super) const UNSENT_MAX: usize = 10_000;
/// How often a socket is tried that another life of the worker may hold still.
const BIND_TRIES: u32 = 50;

/// Batches with their numbers, the oldest first.
type Kept = Rc<RefCell<VecDeque<(u64, Bytes)>>>;

/// The bound sockets of one worker.
pub(super) struct KvSockets {
    live: PubSocket,
    replay: Option<RouterSocket>,
}

impl KvSockets {
    /// Binds the sockets, and says where: a port of 0 is any.
    pub(super) async fn bind(
        live: SocketAddr,
        replay: Option<SocketAddr>,
    ) -> io::Result<(Self, SocketAddr, Option<SocketAddr>)> {
        let (live, live_at) = bound::<PubSocket>(live).await?;
        let (replay, replay_at) = match replay {
            Some(at) => bound::<RouterSocket>(at).await.map(|(it, at)| (Some(it), Some(at)))?,
            None => (None, None),
        };
        Ok((Self { live, replay }, live_at, replay_at))
    }

    /// Publishes batches, for ever; while `dropping`, they are only kept.
    pub(super) fn spawn(self, batches: mpsc::Receiver<Bytes>, dropping: Rc<Cell<bool>>) {
        let kept = Kept::default();
        if let Some(socket) = self.replay {
            tokio::task::spawn_local(replay(socket, kept.clone()));
        }
        tokio::task::spawn_local(publish(self.live, batches, dropping, kept));
    }
}

async fn bound<S: Socket>(at: SocketAddr) -> io::Result<(S, SocketAddr)> {
    let mut tries = 0;
    loop {
        let mut socket = S::new();
        match socket.bind(&format!("tcp://{at}")).await {
            Ok(Endpoint::Tcp(_, port)) => return Ok((socket, SocketAddr::new(at.ip(), port))),
            Ok(_) => return Err(io::Error::other("a TCP socket was bound to something else")),
            Err(_) if tries < BIND_TRIES && at.port() != 0 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return Err(io::Error::other(format!("{at}: {error}"))),
        }
    }
}

async fn publish(
    mut socket: PubSocket,
    mut batches: mpsc::Receiver<Bytes>,
    dropping: Rc<Cell<bool>>,
    kept: Kept,
) {
    let mut next = 0_u64;
    while let Some(batch) = batches.recv().await {
        {
            let mut kept = kept.borrow_mut();
            if kept.len() == KEPT_MAX {
                kept.pop_front();
            }
            kept.push_back((next, batch.clone()));
        }
        if !dropping.get() {
            let number = Bytes::copy_from_slice(&next.to_be_bytes());
            let frames = vec![Bytes::from_static(TOPIC.as_bytes()), number, batch];
            // Whoever does not take it in time asks for a replay.
            let _ = socket.send(message(frames)).await;
        }
        next += 1;
    }
}

async fn replay(mut socket: RouterSocket, kept: Kept) {
    while let Ok(asked) = socket.recv().await {
        let frames = asked.into_vec();
        let [who, empty, start] = &frames[..] else { continue };
        let Ok(start) = <[u8; 8]>::try_from(&start[..]).map(u64::from_be_bytes) else { continue };
        let to = |frames: [Bytes; 3]| {
            message([who.clone(), empty.clone()].into_iter().chain(frames).collect())
        };
        let rest: Vec<_> =
            kept.borrow().iter().filter(|(number, _)| *number >= start).cloned().collect();
        for (number, batch) in rest {
            let number = Bytes::copy_from_slice(&number.to_be_bytes());
            let _ = socket.send(to([Bytes::from_static(TOPIC.as_bytes()), number, batch])).await;
        }
        let end = Bytes::copy_from_slice(&u64::MAX.to_be_bytes());
        let _ = socket.send(to([Bytes::new(), end, Bytes::new()])).await;
    }
}

fn message(frames: Vec<Bytes>) -> ZmqMessage {
    ZmqMessage::try_from(frames).expect("a message has frames")
}
