//! Finds the workers that are there: in the configuration, and behind DNS names.
//!
//! A name that can't be looked up has not lost its workers: what was there before stays.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::fleet::{Fleet, Source};
use crate::config::WorkerUrl;

/// Most addresses of one name that are used.
const ADDRESSES_MAX: usize = 256;
/// The longest that a name is looked up. A lookup that hangs would hide all later changes.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// The longest that an address may take to show that its family is reachable.
const REACH_MAX: Duration = Duration::from_secs(1);
/// Addresses of a family that are tried before it is taken to be unreachable.
const TRIED_MAX: usize = 3;

/// Workers by name.
pub(crate) type Urls = BTreeMap<String, WorkerUrl>;

/// Workers by name.
pub(crate) fn by_name(urls: impl IntoIterator<Item = WorkerUrl>) -> Urls {
    urls.into_iter().map(|url| (url.to_string(), url)).collect()
}

impl Fleet {
    /// Follows a DNS name: every address behind it is a worker. Ends with the handle's abort, after
    /// which its workers stay.
    pub(crate) fn follow_name(&self, pool: usize, url: WorkerUrl, every: Duration) -> AbortHandle {
        let fleet = self.clone();
        let follow = async move {
            let source = Source::Name(url.to_string());
            let mut family = Family::default();
            let mut log = Log::default();
            let mut before = Urls::new();
            loop {
                match addresses(&url, &mut family).await {
                    Ok(addresses) => {
                        log.is_well();
                        let found = by_name(addresses.into_iter().map(|address| url.at(address)));
                        fleet.list(pool, &source, &before, &found);
                        before = found;
                    }
                    Err(error) => log.fails(&url.to_string(), &error),
                }
                sleep(every).await;
            }
        };
        self.house().spawn(follow).abort_handle()
    }
}

/// Says once that a source can't be read, and once that it can again.
#[derive(Default)]
struct Log {
    failing: bool,
}

impl Log {
    fn fails(&mut self, source: &str, error: &io::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(source, %error, "workers can't be listed: those known so far stay");
        }
    }

    fn is_well(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!("workers can be listed again");
        }
    }
}

/// The family of addresses that is used of a name that has both: a worker that listens on both is
/// one worker, and would be counted twice.
#[derive(Debug, Default)]
struct Family {
    is_ipv6: Option<bool>,
}

impl Family {
    /// Those of the addresses that are used.
    async fn choose(&mut self, found: &[SocketAddr]) -> Vec<IpAddr> {
        let Some(first) = found.first().map(SocketAddr::is_ipv6) else { return Vec::new() };
        let of = |is_ipv6: bool| found.iter().filter(move |address| address.is_ipv6() == is_ipv6);
        let has_both = of(!first).next().is_some();
        let mut chosen = self.is_ipv6.filter(|is_ipv6| of(*is_ipv6).next().is_some());
        if has_both && chosen.is_none() {
            for is_ipv6 in [first, !first] {
                if chosen.is_none() && any_is_reachable(of(is_ipv6).take(TRIED_MAX)).await {
                    chosen = Some(is_ipv6);
                }
            }
            // Where neither is reachable the next lookup tries again.
            self.is_ipv6 = chosen;
        }
        let used = chosen.unwrap_or(first);
        of(used).map(SocketAddr::ip).take(ADDRESSES_MAX).collect()
    }
}

async fn any_is_reachable(addresses: impl Iterator<Item = &SocketAddr>) -> bool {
    for address in addresses {
        if matches!(timeout(REACH_MAX, TcpStream::connect(address)).await, Ok(Ok(_))) {
            return true;
        }
    }
    false
}

async fn addresses(url: &WorkerUrl, family: &mut Family) -> io::Result<Vec<IpAddr>> {
    let lookup = tokio::net::lookup_host((url.host.as_str(), url.port));
    let too_late = |_| io::Error::new(io::ErrorKind::TimedOut, "the lookup takes too long");
    let mut found: Vec<SocketAddr> =
        timeout(LOOKUP_MAX, lookup).await.map_err(too_late)??.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no address behind it"));
    }
    // Resolvers turn the order with each answer; the first family stays first.
    let first = found[0].is_ipv6();
    found.sort_by_key(|address| (address.is_ipv6() != first, *address));
    found.dedup();
    Ok(family.choose(&found).await)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::Family;

    #[tokio::test]
    async fn of_a_name_with_two_families_the_reachable_one_is_used_and_kept() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let v4 = listener.local_addr().unwrap();
        let v6: SocketAddr = format!("[::1]:{}", v4.port()).parse().unwrap();
        let mut family = Family::default();
        assert_eq!(family.choose(&[v6, v4]).await, [v4.ip()]);
        drop(listener);
        assert_eq!(family.choose(&[v6, v4]).await, [v4.ip()], "one worker is not moved by a fault");
        assert_eq!(family.choose(&[v6]).await, [v6.ip()], "unless its family is gone");
        let mut nobody = Family::default();
        assert_eq!(nobody.choose(&[v6, v4]).await, [v6.ip()], "the resolver's first");
    }
}
