//! Lets connections in, and refuses those for whom there is no room.
//!
//! Who comes when all places are taken hears so at once, and may come back. Leaving him in the
//! backlog would be cheaper, but he would hang until somebody else goes, a health check of the
//! gateway among them, and the kernel drops who comes after. To make room, connections on which
//! nothing is asked are closed early from [`super::PRESSED`] on (see `lane`), so that holding many
//! idle ones takes nothing from whoever has something to ask.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream as StdStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::io::AsyncReadExt;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::connection::Desk;
use super::counts::count;
use super::descriptors::{connections_for, raise_descriptors};
use super::lane::{Lane, Limits, Newcomer, start};
use super::reply::FULL;
use super::stop::{Phase, Stop, StopTimes};
use super::{ConnectionCounts, Handle, Listening, PRESSED};

/// Connections that the kernel completes before they are taken in: its own limit
/// (`net.core.somaxconn`) is 4,096 by default.
const BACKLOG: i32 = 4096;

/// A client that went away without a word is found after two minutes: idle for one, then asked
/// four times in another.
const ALIVE_AFTER: Duration = Duration::from_mins(1);
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const ALIVE_ASKED: u32 = 4;

/// Connections that are taken in before anything else gets its turn.
const AT_ONCE: usize = 64;

/// Pauses after connections could not be taken in, mostly for want of descriptors: the first, and
/// the longest.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Clients at once to whom it is said that there is no room; others find the connection closed.
/// Each holds a descriptor for as long as [`LOBBY_TIME`].
const LOBBY: usize = 64;
const LOBBY_TIME: Duration = Duration::from_millis(500);

/// How long lanes may take to end once everything was cut.
const LANES_END: Duration = Duration::from_secs(5);

/// A socket that listens, without anybody behind it yet.
#[derive(Debug)]
pub(crate) struct Bound {
    listening: Listening,
    pub(super) socket: Socket,
    addr: SocketAddr,
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Connections that were cut with a request on them.
    pub(crate) cut: u64,
}

impl Listening {
    /// Binds the address. Connections wait from here on, and are taken in by [`Bound::serve`].
    pub(crate) fn bind(self) -> io::Result<Bound> {
        let socket =
            Socket::new(Domain::for_address(self.addr), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if self.addr.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_nonblocking(true)?;
        // Accepted sockets inherit these, which saves calls for each of them.
        socket.set_tcp_nodelay(true)?;
        let alive = TcpKeepalive::new()
            .with_time(ALIVE_AFTER)
            .with_interval(ALIVE_EVERY)
            .with_retries(ALIVE_ASKED);
        socket.set_tcp_keepalive(&alive)?;
        socket.bind(&self.addr.into())?;
        socket.listen(BACKLOG)?;
        let addr = socket.local_addr()?.as_socket().unwrap_or(self.addr);
        Ok(Bound { listening: self, socket, addr })
    }
}

impl Bound {
    /// Where it listens; the port is the real one where 0 was asked for.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `stop` has gone through its stages. The runtime it is called on takes the
    /// connections in; the lanes that carry them are threads of their own.
    pub(crate) async fn serve<H: Handle>(
        self,
        handle: Arc<H>,
        counts: Arc<ConnectionCounts>,
        stop: Stop,
    ) -> io::Result<Served> {
        let times = self.listening.stop;
        let mut door = Door::open(self, &handle, counts, &stop)?;
        tokio::select! {
            () = door.let_in() => {}
            () = closing_time(&stop, &times) => {}
        }
        door.let_in_the_rest();
        let Door { lanes, counts, socket, .. } = door;
        // What is not taken out of the door would stay open until the last request is over.
        drop(socket);
        stop.advance(Phase::Draining);
        end(lanes, &stop, &times).await?;
        Ok(Served { cut: counts.cut_total.load(Ordering::Relaxed) })
    }
}

/// Ends when connections are no longer taken in.
async fn closing_time(stop: &Stop, times: &StopTimes) {
    stop.reached(Phase::Unready).await;
    tokio::select! {
        () = sleep(times.notice) => {}
        () = stop.hurried() => {}
    }
}

/// Takes the lanes through the last stages, and waits for them.
async fn end(
    lanes: Vec<(Lane, Arc<AtomicUsize>)>,
    stop: &Stop,
    times: &StopTimes,
) -> io::Result<()> {
    let mut threads = Vec::with_capacity(lanes.len());
    let mut ends = Vec::with_capacity(lanes.len());
    for (lane, _) in lanes {
        // With its sender goes the lane's reason to wait for more.
        threads.push(lane.thread);
        ends.push(lane.ended);
    }
    let mut ended = std::pin::pin!(async {
        for end in ends {
            // An error is a lane that panicked, which has ended too.
            let _ = end.await;
        }
    });
    let hurried = async {
        stop.hurried().await;
        sleep(times.hurried_max).await;
    };
    tokio::select! {
        () = &mut ended => return join(threads),
        () = sleep(times.drain_max) => {}
        () = hurried => {}
        () = stop.reached(Phase::Ended) => {}
    }
    stop.advance(Phase::Ending);
    tokio::select! {
        () = &mut ended => return join(threads),
        () = sleep(times.ending_max) => {}
        () = stop.reached(Phase::Ended) => {}
    }
    stop.advance(Phase::Ended);
    match timeout(LANES_END, ended).await {
        Ok(()) => join(threads),
        Err(_) => Err(io::Error::other("a lane did not end: something blocks its thread")),
    }
}

fn join(threads: Vec<std::thread::JoinHandle<()>>) -> io::Result<()> {
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a lane panicked"))?;
    }
    Ok(())
}

/// Connections at once: as many as are wanted, and as descriptors allow. Those used up by idle
/// clients would be missing for workers.
fn connections_max(wanted: Option<usize>) -> usize {
    let fitting = connections_for(raise_descriptors());
    if let Some(wanted) = wanted.filter(|wanted| *wanted > fitting) {
        tracing::warn!(
            wanted,
            fitting,
            "too few descriptors for all connections: raise the hard limit (`ulimit -Hn`, or \
             LimitNOFILE of the systemd unit), or lower `connections_max`"
        );
    }
    wanted.unwrap_or(fitting).min(fitting)
}

/// Takes connections in.
struct Door {
    socket: AsyncFd<Socket>,
    /// Each with the number of its connections.
    lanes: Vec<(Lane, Arc<AtomicUsize>)>,
    /// The lane that was given the last one.
    last: usize,
    connections_max: usize,
    peers: Option<(Arc<Peers>, usize)>,
    lobby: Arc<Semaphore>,
    speaks_tls: bool,
    counts: Arc<ConnectionCounts>,
}

impl Door {
    fn open<H: Handle>(
        bound: Bound,
        handle: &Arc<H>,
        counts: Arc<ConnectionCounts>,
        stop: &Stop,
    ) -> io::Result<Self> {
        let Bound { listening, socket, .. } = bound;
        let connections_max = connections_max(listening.connections_max);
        let limits = Limits::new(&listening, (connections_max * PRESSED.0 / PRESSED.1).max(1));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let lanes = (0..listening.lanes.unwrap_or(cores).max(1)).map(|index| {
            let desk = Desk::new(&listening, index, Arc::clone(handle), Arc::clone(&counts));
            Ok((start(desk, limits, stop.clone(), index)?, Arc::default()))
        });
        #[expect(
            deprecated,
            reason = "its successor is unsafe because a type could lend its descriptor without \
                      owning it; a socket owns its own. A `TcpListener` would register each \
                      connection with this runtime before it goes to its lane"
        )]
        let socket = AsyncFd::new(socket)?;
        Ok(Self {
            socket,
            lanes: lanes.collect::<io::Result<_>>()?,
            last: 0,
            connections_max,
            peers: listening.connections_per_peer_max.map(|max| (Arc::default(), max)),
            lobby: Arc::new(Semaphore::new(LOBBY)),
            speaks_tls: listening.tls.is_some(),
            counts,
        })
    }

    /// Takes connections in, for ever.
    async fn let_in(&mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.socket.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => return tracing::error!(%error, "the listening socket is gone"),
            }
            loop {
                match self.take(AT_ONCE) {
                    Ok(true) => pause = PAUSE_MIN,
                    Ok(false) => break,
                    Err(error) => {
                        count(&self.counts.accept_failed_total);
                        if pause == PAUSE_MIN {
                            tracing::warn!(%error, "no connection can be taken in for now");
                        }
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                }
                yield_now().await;
            }
        }
    }

    /// Takes in what waits in the backlog, which closing the socket would reset.
    fn let_in_the_rest(&mut self) {
        // An error means that there is no way to take them in.
        let _ = self.take(BACKLOG as usize);
    }

    /// Takes in what waits, at most so many. False says that nobody waits any more.
    fn take(&mut self, at_once: usize) -> io::Result<bool> {
        for _ in 0..at_once {
            match self.socket.get_ref().accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) {
                Ok((socket, addr)) => {
                    if let Some(addr) = addr.as_socket() {
                        self.admit(socket.into(), addr);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn admit(&mut self, socket: StdStream, addr: SocketAddr) {
        let Some(peer) = self.peer(addr.ip()) else { return self.refuse(socket) };
        if self.counts.open.load(Ordering::Relaxed) >= self.connections_max {
            return self.refuse(socket);
        }
        let index = self.emptiest();
        self.last = index;
        let (lane, load) = &self.lanes[index];
        let place = Place::take(Arc::clone(&self.counts), Arc::clone(load), peer);
        match lane.sender.try_send(Newcomer { socket, addr, place }) {
            Ok(()) => count(&self.counts.accepted_total),
            Err(back) => self.refuse(back.into_inner().socket),
        }
    }

    /// The lane with the fewest connections; among equals the one after the last.
    fn emptiest(&self) -> usize {
        let lanes = self.lanes.len();
        (1..=lanes)
            .map(|step| (self.last + step) % lanes)
            .min_by_key(|index| self.lanes[*index].1.load(Ordering::Relaxed))
            .expect("there is at least one lane")
    }

    /// Counts a peer's connection, if there is a bound and it is within.
    #[expect(clippy::option_option, reason = "no bound, and no room, are different answers")]
    fn peer(&self, ip: IpAddr) -> Option<Option<PeerPlace>> {
        match &self.peers {
            None => Some(None),
            Some((peers, max)) => PeerPlace::take(peers, ip, *max).map(Some),
        }
    }

    /// Says that there is no room. It takes a write that cannot block, and a short wait for the
    /// client to have read it, for a few at a time. Over TLS it would take a handshake.
    fn refuse(&self, mut socket: StdStream) {
        count(&self.counts.refused_total);
        if self.speaks_tls {
            return;
        }
        let Ok(seat) = Arc::clone(&self.lobby).try_acquire_owned() else { return };
        let said = socket.write_all(FULL).and_then(|()| socket.shutdown(Shutdown::Write));
        let Ok(mut socket) = said.and_then(|()| TcpStream::from_std(socket)) else { return };
        tokio::spawn(async move {
            let mut heard = [0; 1024];
            let until_gone = async { while socket.read(&mut heard).await.is_ok_and(|n| n > 0) {} };
            // Either way the connection ends here.
            let _ = timeout(LOBBY_TIME, until_gone).await;
            drop(seat);
        });
    }
}

/// Whether an error of accept says something of the one connection only, as accept(2) lists them.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable, PermissionDenied,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | PermissionDenied
    ) || error.raw_os_error() == Some(libc::EPROTO)
}

/// One connection's place among all, on its lane, and among its peer's. It is free again when this
/// is dropped.
pub(super) struct Place {
    counts: Arc<ConnectionCounts>,
    load: Arc<AtomicUsize>,
    _peer: Option<PeerPlace>,
}

impl Place {
    fn take(
        counts: Arc<ConnectionCounts>,
        load: Arc<AtomicUsize>,
        peer: Option<PeerPlace>,
    ) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        load.fetch_add(1, Ordering::Relaxed);
        Self { counts, load, _peer: peer }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
        self.load.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections of each peer. It holds no more entries than there are connections.
type Peers = Mutex<BTreeMap<IpAddr, usize>>;

/// One connection's place among its peer's.
struct PeerPlace {
    peers: Arc<Peers>,
    peer: IpAddr,
}

impl PeerPlace {
    fn take(peers: &Arc<Peers>, ip: IpAddr, max: usize) -> Option<Self> {
        let peer = network(ip);
        let mut open = peers.lock().unwrap_or_else(PoisonError::into_inner);
        let its = open.entry(peer).or_default();
        if *its >= max {
            return None;
        }
        *its += 1;
        drop(open);
        Some(Self { peers: Arc::clone(peers), peer })
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut open = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(its) = open.get_mut(&self.peer) {
            *its -= 1;
            if *its == 0 {
                open.remove(&self.peer);
            }
        }
    }
}

/// Whom an address stands for: itself in IPv4, its network of 64 bits in IPv6, since that is what
/// one customer is given at least.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{PeerPlace, Peers, network};

    #[test]
    fn a_peer_is_an_ipv4_address_or_an_ipv6_network() {
        let network = |ip: &str| network(ip.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn a_peers_place_is_free_again_once_left() {
        let peers: Arc<Peers> = Arc::default();
        let ip = "192.0.2.7".parse().unwrap();
        let first = PeerPlace::take(&peers, ip, 1);
        assert!(first.is_some());
        assert!(PeerPlace::take(&peers, ip, 1).is_none());
        drop(first);
        assert!(peers.lock().unwrap().is_empty());
        assert!(PeerPlace::take(&peers, ip, 1).is_some());
    }
}
