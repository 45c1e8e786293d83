//! Reads the bodies of requests within bounds.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::problem::Problem;

/// The largest body: a prompt of 128,000 tokens is below 1 MB as text and as numbers.
pub(super) const BODY_MAX: usize = 16 << 20;
/// Bytes of all bodies that a worker reads at once.
pub(super) const BODIES_MAX: usize = 256 << 20;
/// How long a client may take to send a body.
const BODY_TIME_MAX: Duration = Duration::from_mins(1);

/// Bytes of the bodies that are being read.
#[derive(Clone, Debug, Default)]
pub(super) struct Door(Rc<Cell<usize>>);

/// Bytes that one body has taken of the bound, which are given back with it.
struct Taken {
    door: Door,
    bytes: usize,
}

impl Taken {
    /// Takes so many more, unless that is above a bound.
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        if self.bytes + bytes > BODY_MAX {
            return Err(Problem::too_large(BODY_MAX));
        }
        if self.door.0.get() + bytes > BODIES_MAX {
            return Err(Problem::busy());
        }
        self.bytes += bytes;
        self.door.0.set(self.door.0.get() + bytes);
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.door.0.set(self.door.0.get() - self.bytes);
    }
}

impl Door {
    /// Reads a body and makes something of it. The bytes are gone when that is made.
    pub(super) async fn read<T>(
        &self,
        body: Incoming,
        made: impl FnOnce(&[u8]) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut taken = Taken { door: self.clone(), bytes: 0 };
        let read = tokio::time::timeout(BODY_TIME_MAX, collect(body, &mut taken));
        let bytes = read.await.unwrap_or_else(|_| Err(Problem::not_text()))?;
        made(&bytes)
    }
}

/// All bytes of a body, refused as soon as it is known to be too large.
async fn collect(mut body: Incoming, taken: &mut Taken) -> Result<Bytes, Problem> {
    let told = body.size_hint().exact().unwrap_or(0);
    if told > BODY_MAX as u64 {
        return Err(Problem::too_large(BODY_MAX));
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::not_text())?;
        if let Some(data) = frame.data_ref() {
            taken.grow(data.len())?;
            if bytes.is_empty() {
                bytes.reserve(told as usize);
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::{BODIES_MAX, BODY_MAX, Door, Taken};

    #[test]
    fn all_bodies_together_are_bounded_and_give_back_what_they_took() {
        let door = Door::default();
        let mut taken = Vec::new();
        for _ in 0..BODIES_MAX / BODY_MAX {
            let mut body = Taken { door: door.clone(), bytes: 0 };
            body.grow(BODY_MAX).expect("there is room");
            assert_eq!(body.grow(1).map_err(|problem| problem.status.as_u16()), Err(413));
            taken.push(body);
        }
        let mut late = Taken { door: door.clone(), bytes: 0 };
        assert_eq!(late.grow(1).map_err(|problem| problem.status.as_u16()), Err(503));
        taken.pop();
        assert_eq!(late.grow(BODY_MAX), Ok(()));
        drop((taken, late));
        assert_eq!(door.0.get(), 0);
    }
}
