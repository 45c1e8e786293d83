//! Finds the prefixes that many requests share, in bounded memory.
//!
//! A prefix is worth a name where requests *fork*: they have it in common and go on differently.
//! The id that ends a system prompt is forked by every conversation; an id inside one conversation
//! by its next turn only, or by a few turns while a block fills. Where the trace names sessions, a
//! second session settles it.

use std::hash::Hash;

use hashbrown::HashMap;

use super::TraceRequest;

/// Forks that make a prefix shared, where the trace names no sessions. A conversation's own block
/// is forked by one turn, or by a handful of short ones; regenerated answers add a few. A prefix
/// that fewer requests share is worth little as a common one.
pub const FORKS_MIN: u32 = 16;
/// Ids that are kept in mind, twice: those used since the last turnover, and those used before it.
/// Seven eighths of a power of two fill a hash table without a last doubling: 35 MB each.
pub const IDS_MAX: usize = (1 << 20) / 8 * 7;

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// A map that forgets what was not used for long: when the young half is full it becomes the old
/// half, and what the old half held is gone unless it was used since.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: Map<K, V>,
    old: Map<K, V>,
    max: usize,
    /// Whether anything was ever forgotten.
    pub(super) forgot: bool,
}

impl<K: Hash + Eq + Copy, V> Recent<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Self { young: Map::default(), old: Map::default(), max, forgot: false }
    }

    /// What is known about the key, which counts as used now.
    pub(super) fn get(&mut self, key: K) -> Option<&mut V> {
        if !self.young.contains_key(&key) {
            let value = self.old.remove(&key)?;
            self.insert(key, value);
        }
        self.young.get_mut(&key)
    }

    /// Keeps the value.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.max {
            self.forgot |= !self.old.is_empty();
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// All that is known, in no order.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        self.young.into_iter().chain(self.old)
    }
}

/// What is known about one id. Small, since there are many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Requests that hold it.
    pub(super) uses: u32,
    /// Requests that hold it and go on with an id that was new then, or end with it.
    forks: u32,
    /// Tokens of the prompt up to and including it.
    pub(super) tokens: u32,
    /// Requests of different sessions hold it.
    foreign: bool,
    /// The last request's session; 0 for none, and for the rare one of that name.
    session: u64,
}

impl Seen {
    /// Whether it is part of a prefix that belongs to nobody alone.
    pub(super) fn is_shared(&self) -> bool {
        self.foreign || self.forks >= FORKS_MIN
    }

    /// Whether it ends such a prefix: requests go on differently from here.
    pub(super) fn ends_shared(&self) -> bool {
        self.forks >= if self.foreign { 2 } else { FORKS_MIN }
    }
}

/// Learns from requests, in order, what they share.
#[derive(Debug)]
pub(super) struct Prefixes {
    pub(super) ids: Recent<u64, Seen>,
    /// Ids seen for the first time so far.
    pub(super) distinct: u64,
}

impl Prefixes {
    pub(super) fn new() -> Self {
        Self { ids: Recent::new(IDS_MAX), distinct: 0 }
    }

    /// Learns one request. Gives the tokens at its prompt's start that an earlier request had, too.
    pub(super) fn learn(&mut self, request: &TraceRequest) -> u64 {
        let session = request.session.unwrap_or(0);
        let mut known = 0;
        for (nth, id) in request.ids.iter().enumerate() {
            let Some(seen) = self.ids.get(*id) else { break };
            seen.uses = seen.uses.saturating_add(1);
            if session != 0 {
                seen.foreign |= seen.session != 0 && seen.session != session;
                seen.session = session;
            }
            known = nth + 1;
        }
        if let Some(last) = known.checked_sub(1)
            && let Some(seen) = self.ids.get(request.ids[last])
            && (session == 0 || seen.foreign)
        {
            seen.forks = seen.forks.saturating_add(1);
        }
        let tokens_to =
            |count: usize| request.prompt.0.min(count as u64 * u64::from(request.id_tokens));
        for (nth, id) in request.ids.iter().enumerate().skip(known) {
            let tokens = u32::try_from(tokens_to(nth + 1)).unwrap_or(u32::MAX);
            let seen = Seen { uses: 1, forks: 0, tokens, session, foreign: false };
            self.ids.insert(*id, seen);
            self.distinct += 1;
        }
        tokens_to(known)
    }
}
