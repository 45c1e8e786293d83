//! Says which trace a request belongs to, and what its worker is told of that.
//!
//! The header is that of W3C's "Trace Context": version, trace, parent and flags in hexadecimal
//! digits of lower case. What does not keep to that is as good as no header, and the trace then
//! begins here.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::tickets;

/// Carries the trace, the parent and the flags.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Carries what systems of the trace tell each other.
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The flag of traces that are kept.
const SAMPLED: u8 = 1;
/// The flags that are passed on: that one, and that the trace's name was drawn at random.
const FLAGS: u8 = SAMPLED | 2;
/// Length of the header in the version that is known.
const HEADER_LEN: usize = 55;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// The trace.
    pub(super) trace: [u8; 16],
    /// The span.
    pub(super) span: [u8; 8],
    /// What was decided about it.
    pub(super) flags: u8,
}

impl Context {
    /// Where the sender of these headers stands, if it says so.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(&TRACEPARENT).iter();
        let (line, None) = (lines.next()?, lines.next()) else { return None };
        Self::parse(line.as_bytes())
    }

    /// A later version may say more behind what is known (W3C, 4.3).
    fn parse(line: &[u8]) -> Option<Self> {
        let (known, more) = line.split_at_checked(HEADER_LEN)?;
        let [version] = bytes(&known[..2])?;
        let goes_on = more.first() == Some(&b'-') && version > 0;
        let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        if version == 0xff || !dashes || !(more.is_empty() || goes_on) {
            return None;
        }
        let [flags] = bytes(&known[53..])?;
        let (trace, span) = (bytes(&known[3..35])?, bytes(&known[36..52])?);
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags: flags & FLAGS })
    }

    /// Whether the trace is kept.
    pub(super) fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The same trace, at the nth span below this one. Its name follows from this one's, which was
    /// drawn: that is as good as another draw, and needs nothing to draw from.
    pub(super) fn child(&self, nth: usize) -> Self {
        let mut from = [0; 16];
        from[..8].copy_from_slice(&self.span);
        from[8..].copy_from_slice(&(nth as u64).to_le_bytes());
        Self { span: xxh3_64(&from).max(1).to_be_bytes(), ..*self }
    }

    /// The header that says so.
    pub(super) fn header(&self) -> HeaderValue {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        let text = format!("00-{trace:032x}-{span:016x}-{:02x}", self.flags);
        HeaderValue::from_str(&text).expect("digits and dashes are a header's value")
    }
}

/// So many bytes from twice as many hexadecimal digits of lower case.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? * 16 + digit(pair[1])?;
    }
    Some(bytes)
}

/// Names new traces and spans, and says which of them are kept.
#[derive(Debug)]
pub(super) struct Ids {
    /// Drawn at the start, so that no two gateways give the same names.
    seed: [u8; 16],
    next: AtomicU64,
    /// Traces whose last 63 bits are below this are kept: the rule of OpenTelemetry's SDKs, so that
    /// several programs with one ratio keep the same ones.
    kept_below: u64,
}

impl Ids {
    /// Names, of which this share is kept.
    pub(super) fn drawn(sample_ratio: f64) -> io::Result<Self> {
        let secret = tickets::random_secret()?;
        let mut seed = [0; 16];
        seed.copy_from_slice(&secret[..16]);
        let kept_below = (sample_ratio * (1_u64 << 63) as f64) as u64;
        Ok(Self { seed, next: AtomicU64::new(0), kept_below })
    }

    /// A span of a trace that begins here.
    pub(super) fn root(&self) -> Context {
        let drawn = self.draw().max(1);
        let is_kept = drawn as u64 >> 1 < self.kept_below;
        Context { trace: drawn.to_be_bytes(), span: self.span(), flags: u8::from(is_kept) }
    }

    /// A span in a trace that began elsewhere.
    pub(super) fn below(&self, parent: &Context) -> Context {
        Context { span: self.span(), ..*parent }
    }

    fn span(&self) -> [u8; 8] {
        (self.draw() as u64).max(1).to_be_bytes()
    }

    fn draw(&self) -> u128 {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        xxh3_128_with_seed(&self.seed, nth)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::{Context, Ids, TRACEPARENT};

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(lines: &[&str]) -> Option<Context> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(TRACEPARENT, line.parse().unwrap());
        }
        Context::of(&headers)
    }

    #[test]
    fn a_header_that_keeps_to_the_rules_is_read_and_written_as_it_was() {
        let context = of(&[GOOD]).unwrap();
        assert!(context.is_sampled());
        assert_eq!(context.header(), GOOD);
        assert!(!of(&[&GOOD.replace("-01", "-00")]).unwrap().is_sampled());
        // Flags that nobody knows yet are not passed on; a later version may say more.
        assert_eq!(of(&[&GOOD.replace("-01", "-ff")]).unwrap().flags, 3);
        let later = format!("cc{}-what-comes", &GOOD[2..]);
        assert_eq!(of(&[&later]).unwrap().header(), GOOD);
    }

    #[test]
    fn a_header_that_breaks_a_rule_is_none() {
        let cases = [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-"),
            &format!("{GOOD}0"),
            &format!("ff{}", &GOOD[2..]),
            &format!("cc{}x", &GOOD[2..]),
            &GOOD.to_uppercase(),
            &GOOD.replacen('-', "_", 2),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            &GOOD.replace("b7ad", "b7ag"),
            &GOOD.replace("-01", "-0x"),
        ];
        for case in cases {
            assert_eq!(of(&[case]), None, "{case}");
        }
        assert_eq!(of(&[GOOD, GOOD]), None, "two are none");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn names_are_new_each_time_and_the_share_that_is_kept_is_the_ratio() {
        for (ratio, kept) in [(0.0, 0..=0), (0.25, 800..=1_200), (1.0, 4_000..=4_000)] {
            let ids = Ids::drawn(ratio).unwrap();
            let mut roots: Vec<Context> = (0..4_000).map(|_| ids.root()).collect();
            let sampled = roots.iter().filter(|root| root.is_sampled()).count();
            assert!(kept.contains(&sampled), "{ratio}: {sampled}");
            roots.sort_by_key(|root| root.trace);
            roots.dedup_by_key(|root| root.trace);
            assert_eq!(roots.len(), 4_000);
        }
        let (one, other) = (Ids::drawn(1.0).unwrap().root(), Ids::drawn(1.0).unwrap().root());
        assert_ne!(one.trace, other.trace, "gateways do not share their names");
        assert_ne!(one.child(0), one.child(1));
    }
}
