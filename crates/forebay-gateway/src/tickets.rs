//! Keeps the places of clients who were refused and told when to come back.
//!
//! A refusal that carries a Retry-After also carries a ticket: when the request was first offered
//! and when it was told to return, signed. Most clients know nothing of tickets: the official ones
//! wait as told and send the same request again. So a place is also kept under the request itself,
//! by tenant and by a fingerprint of its prompt, and is found again without any ticket.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::FixedState;
use forebay_core::{TenantId, Ticket};
use hashbrown::{HashMap, HashSet};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::clock::Clock;

/// Most places that are kept, and most tickets that are known to be used.
const PLACES_MAX: usize = 65_536;
/// The bytes of a ticket: two times, a number, and the first half of the signature.
const BYTES: usize = 8 + 8 + 8 + 16;
/// The header that carries a ticket, both ways.
pub(crate) const HEADER: &str = "x-forebay-ticket";

/// What a returning request is recognized by: its tenant, its pool, and its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint {
    /// Whom it is accounted to.
    pub(crate) tenant: TenantId,
    /// The pool that refused it.
    pub(crate) pool: u16,
    /// A hash of its whole body.
    pub(crate) body: u128,
}

/// The places that are kept.
pub(crate) struct Tickets {
    mac: Hmac<Sha256>,
    state: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    issued: u64,
    kept: HashMap<Fingerprint, (u64, Ticket), FixedState>,
    order: VecDeque<(u64, Fingerprint)>,
    used: HashSet<u64, FixedState>,
    used_order: VecDeque<u64>,
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets")
    }
}

impl Tickets {
    /// Signs with this secret.
    pub(crate) fn new(secret: &[u8]) -> Self {
        // Any length will do for this kind of signature.
        let mac = Hmac::new_from_slice(secret).expect("a key of any length");
        Self { mac, state: Mutex::default() }
    }

    /// Keeps a place for a request that was refused, and writes the ticket for it.
    pub(crate) fn issue(&self, ticket: Ticket, who: Fingerprint, clock: &Clock) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.issued += 1;
        let number = state.issued;
        if state.kept.insert(who, (number, ticket)).is_none() {
            state.order.push_back((number, who));
        }
        while state.order.len() > PLACES_MAX
            && let Some((_, oldest)) = state.order.pop_front()
        {
            state.kept.remove(&oldest);
        }
        drop(state);
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&clock.unix_nanos(ticket.first_arrived).to_be_bytes());
        bytes[8..16].copy_from_slice(&clock.unix_nanos(ticket.promised).to_be_bytes());
        bytes[16..24].copy_from_slice(&number.to_be_bytes());
        let signature = self.signature(&bytes[..24], who);
        bytes[24..].copy_from_slice(&signature);
        bytes.iter().fold(String::with_capacity(2 * BYTES), |mut hex, byte| {
            use std::fmt::Write as _;
            let written = write!(hex, "{byte:02x}");
            debug_assert!(written.is_ok(), "a string takes anything");
            hex
        })
    }

    /// The place that was kept for this request, by its ticket or by itself. A place is used once.
    pub(crate) fn redeem(
        &self,
        header: Option<&[u8]>,
        who: Fingerprint,
        clock: &Clock,
    ) -> Option<Ticket> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = if state.kept.is_empty() { None } else { state.kept.remove(&who) };
        if state.kept.is_empty() {
            state.order.clear();
        }
        let shown = header.and_then(|header| self.read(header, who, clock));
        let (number, ticket) = shown.or(kept)?;
        if !state.used.insert(number) {
            return None;
        }
        state.used_order.push_back(number);
        while state.used_order.len() > PLACES_MAX
            && let Some(oldest) = state.used_order.pop_front()
        {
            state.used.remove(&oldest);
        }
        Some(ticket)
    }

    /// Whether anybody's place is kept, so that it is worth looking.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).kept.is_empty()
    }

    fn read(&self, hex: &[u8], who: Fingerprint, clock: &Clock) -> Option<(u64, Ticket)> {
        use subtle::ConstantTimeEq as _;
        if hex.len() != 2 * BYTES {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_chunks::<2>().0) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        if !bool::from(self.signature(&bytes[..24], who).ct_eq(&bytes[24..])) {
            return None;
        }
        let number = |from: usize| {
            bytes[from..from + 8].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let first_arrived = clock.moment(number(0));
        Some((number(16), Ticket { first_arrived, promised: clock.moment(number(8)) }))
    }

    /// Signs what the ticket says together with whose it is. The body is left out: a client may
    /// shorten its prompt when it comes back.
    fn signature(&self, said: &[u8], who: Fingerprint) -> [u8; 16] {
        let mut mac = self.mac.clone();
        mac.update(said);
        mac.update(&who.tenant.0.to_be_bytes());
        mac.update(&who.pool.to_be_bytes());
        let whole = mac.finalize().into_bytes();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        half
    }
}

/// A secret from the system's random source, for a gateway that was given none.
pub(crate) fn random_secret() -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut secret = vec![0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use forebay_core::{Moment, TenantId, Ticket};

    use super::{Fingerprint, Tickets};
    use crate::clock::Clock;

    const WHO: Fingerprint = Fingerprint { tenant: TenantId(3), pool: 1, body: 77 };

    fn ticket() -> Ticket {
        Ticket { first_arrived: Moment(5_000_000_000), promised: Moment(9_000_000_000) }
    }

    #[test]
    fn a_place_is_found_by_the_request_itself_and_is_used_once() {
        let (tickets, clock) = (Tickets::new(b"secret"), Clock::start());
        tickets.issue(ticket(), WHO, &clock);
        assert_eq!(tickets.redeem(None, Fingerprint { body: 78, ..WHO }, &clock), None);
        assert_eq!(tickets.redeem(None, WHO, &clock), Some(ticket()));
        assert_eq!(tickets.redeem(None, WHO, &clock), None);
        assert!(tickets.is_empty());
    }

    #[test]
    fn a_ticket_is_good_once_for_its_tenant_only_and_only_as_it_was_written() {
        let (tickets, clock) = (Tickets::new(b"secret"), Clock::start());
        let written = tickets.issue(ticket(), WHO, &clock);
        let other = Fingerprint { body: 1, ..WHO };
        let redeem = |header: &str, who| tickets.redeem(Some(header.as_bytes()), who, &clock);
        assert_eq!(redeem(&written, Fingerprint { tenant: TenantId(4), ..other }), None);
        let forged = format!("f{}", &written[1..]);
        assert_eq!(redeem(&forged, other), None);
        assert_eq!(redeem(&written[..78], other), None);
        assert_eq!(redeem("é", other), None);
        let found = redeem(&written, other).expect("it is good");
        assert_eq!(found, ticket(), "to the nanosecond: promises are found by their moment");
        assert_eq!(redeem(&written, other), None);
        assert_eq!(tickets.redeem(None, WHO, &clock), None, "the same place, by the other way");
    }

    #[test]
    fn no_more_places_are_kept_than_the_bound() {
        let (tickets, clock) = (Tickets::new(b""), Clock::start());
        for body in 0..70_000 {
            tickets.issue(ticket(), Fingerprint { body, ..WHO }, &clock);
        }
        let state = tickets.state.lock().unwrap();
        assert_eq!((state.kept.len(), state.order.len()), (65_536, 65_536));
    }
}
