//! Raises the limit on descriptors, and says how many connections fit into it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Where raising ends: a million, which is what Linux gives a process at most unless told
/// otherwise (`fs.nr_open`). Some hosts set the hard limit to a thousand times that.
const DESCRIPTORS_MAX: u64 = 1 << 20;

/// Descriptors for what is neither a client nor a worker: files, runtimes, names, probes.
const RESERVED: u64 = 128;

/// Raises the soft limit to the hard one, and returns what holds then.
pub(crate) fn raise_descriptors() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(DESCRIPTORS_MAX);
    let wanted = maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    if wanted <= current {
        return current;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    if raised.is_ok() { wanted } else { current }
}

/// Connections that fit into this many descriptors: half of what is not reserved, since a request
/// on a connection takes another one to a worker.
pub(crate) fn connections_for(descriptors: u64) -> usize {
    usize::try_from(descriptors.saturating_sub(RESERVED) / 2).unwrap_or(usize::MAX).max(8)
}

#[cfg(test)]
mod tests {
    use super::{connections_for, raise_descriptors};

    #[test]
    fn half_of_the_descriptors_are_for_clients() {
        assert_eq!(connections_for(20_128), 10_000);
        assert_eq!(connections_for(64), 8);
    }

    #[test]
    fn raising_twice_changes_nothing() {
        assert_eq!(raise_descriptors(), raise_descriptors());
    }
}
