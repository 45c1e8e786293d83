//! Takes in a body, within its bounds in bytes and time.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use forebay_core::RefusalReason;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::sleep;

use crate::gateway::{Held, Load};
use crate::refuse::Denial;
use crate::rules::Rules;

/// Room that is made for a body before its first byte has come, whatever length it claims.
const ROOM_AT_ONCE: usize = 256 << 10;

/// The whole body, and its bytes on the account of all bodies.
pub(super) async fn body(
    mut incoming: Incoming,
    headers: &HeaderMap,
    rules: &Rules,
    held: &Held,
) -> Result<(Bytes, Load), Denial> {
    let bounds = rules.bodies;
    let too_large =
        || Denial { limit: Some(bounds.bytes_max), ..Denial::plain(RefusalReason::BodyTooLarge) };
    let full = || Denial {
        retry_after: Some(forebay_core::Span::secs(1)),
        ..Denial::plain(RefusalReason::GatewayFull)
    };
    let claimed = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if claimed.is_some_and(|length: u64| length > bounds.bytes_max) {
        return Err(too_large());
    }
    let room = incoming.size_hint().lower().min(ROOM_AT_ONCE as u64) as usize;
    let mut body = BytesMut::with_capacity(room);
    let mut load = held.open();
    let mut time = pin!(sleep(bounds.time_max));
    loop {
        let frame = tokio::select! {
            biased;
            frame = incoming.frame() => frame,
            () = &mut time => return Err(Denial::plain(RefusalReason::BodyTimeout)),
        };
        let Some(frame) = frame else { break };
        // The connection is of no more use; nobody may read what is answered.
        let broken = |_| Denial::because(RefusalReason::InvalidRequest, "The body is broken off.");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if (body.len() + data.len()) as u64 > bounds.bytes_max {
            return Err(too_large());
        }
        if !load.grow(data.len() as u64, bounds.held_bytes_max) {
            return Err(full());
        }
        body.extend_from_slice(&data);
    }
    Ok((body.freeze(), load))
}
