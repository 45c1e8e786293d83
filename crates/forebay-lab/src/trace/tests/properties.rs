//! Claims that hold for any bytes and any trace.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::super::*;
use super::{ROW, read};

prop_compose! {
    /// Any request that a trace can hold.
    fn any_request()(
        at: u32, sub in 0_u64..1_000_000, prompt in 1_u64..5000, output in 1_u64..1000,
        id_tokens in prop_oneof![Just(512_u32), Just(16), 1_u32..2000],
        with_ids: bool, base: u64, session: Option<u64>, delay in option::of(0_u64..1 << 50),
        class in option::of("\\PC{1,9}"), tenant in option::of("[a-z\"\\\\]{1,5}"),
    ) -> TraceRequest {
        let count = if with_ids { prompt.div_ceil(u64::from(id_tokens)) } else { 0 };
        TraceRequest {
            at: Span(u64::from(at) * 1_000_000 + sub),
            prompt: Tokens(prompt),
            output: Tokens(output),
            ids: (0..count).map(|nth| base.wrapping_add(nth)).collect(),
            id_tokens,
            session,
            delay: delay.map(Span),
            class: class.map(Arc::from),
            tenant: tenant.map(Arc::from),
        }
    }
}

/// A trace of conversations behind two common prefixes, in order of time.
fn conversations(turns: &[(u8, u8, bool)]) -> Vec<TraceRequest> {
    let mut lengths = [0_u64; 8];
    let turn = |(nth, (who, pause, named)): (usize, &(u8, u8, bool))| {
        let who = usize::from(who % 8);
        lengths[who] += 1;
        let own = 1000 * (who as u64 + 1);
        let prefix = (who % 2) as u64 * 100;
        let ids: Arc<[u64]> = (prefix..prefix + 3).chain(own..own + lengths[who]).collect();
        TraceRequest {
            at: Span::millis(nth as u64 * 50 + u64::from(*pause) / 8),
            prompt: Tokens(ids.len() as u64 * 512),
            output: Tokens(1),
            ids,
            id_tokens: 512,
            session: named.then_some(who as u64),
            delay: None,
            class: None,
            tenant: None,
        }
    };
    turns.iter().enumerate().map(turn).collect()
}

fn in_common(one: &TraceRequest, other: &TraceRequest) -> usize {
    one.ids.iter().zip(other.ids.iter()).take_while(|(one, other)| one == other).count()
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = read(bytes);
    }

    #[test]
    fn no_edit_of_a_trace_makes_the_reader_panic(
        start in 0_usize..4, at in 0_usize..150, cut in 0_usize..20,
        put in "[-0-9.eE\"{}\\[\\],:\n\\PC]{0,6}",
    ) {
        let starts = [
            ROW.repeat(2).replace("}{", "}\n{"),
            ROW.replace("\"timestamp\"", "\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\""),
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01.5+00:00,1,1\n".repeat(2),
            "Timestamp,Request tokens,Response tokens,Total tokens\n5.25,4,1,5\n".repeat(2),
        ];
        let mut bytes = starts[start].clone().into_bytes();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        let _ = read(bytes);
    }

    #[test]
    fn what_is_written_is_read_again(mut requests in vec(any_request(), 1..20)) {
        requests.sort_by_key(|request| request.at);
        let mut text = Vec::new();
        for request in &requests {
            write_request(&mut text, request).unwrap();
        }
        prop_assert_eq!(read(text).unwrap(), requests);
    }

    #[test]
    fn copies_of_a_trace_have_its_shape_each(
        turns in vec(any::<(u8, u8, bool)>(), 1..60), seed: u64, copies in 1_u32..4,
    ) {
        let before = conversations(&turns);
        let reopen = || -> Result<Requests, TraceError> {
            Ok(Box::new(conversations(&turns).into_iter().map(Ok)))
        };
        let scaling = Scaling { factor: f64::from(copies), seed, spread: Span::ZERO };
        let after: Vec<_> = scale(reopen, scaling).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(after.len(), before.len() * copies as usize);
        prop_assert!(after.is_sorted_by_key(|request| request.at));
        let copies = copies as usize;
        let copy = |copy: usize| after.iter().skip(copy).step_by(copies).collect::<Vec<_>>();
        for one in 0..copies {
            for (place, request) in copy(one).iter().enumerate() {
                let original = &before[place];
                prop_assert_eq!((request.prompt, request.at), (original.prompt, original.at));
                for (twin, other) in copy(one).iter().zip(&before) {
                    prop_assert_eq!(in_common(request, twin), in_common(original, other));
                }
                for stranger in (0..copies).filter(|other| *other != one).flat_map(copy) {
                    prop_assert!(in_common(request, stranger) <= 3, "a conversation has a double");
                    let apart = request.session != stranger.session;
                    prop_assert!(request.session.is_none() || apart);
                }
            }
        }
    }
}
