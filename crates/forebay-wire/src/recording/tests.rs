//! Checks that a recording survives being written and read, and that no bytes do harm.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::bytes::Checksum;
use super::{Ending, Header, Kind, Reader, Record, RecordingError, Writer};

fn header() -> Header {
    Header {
        words_version: 1,
        program: "forebay 0.1.0".into(),
        seed: 7,
        settings: vec![7, 0, u64::MAX],
        classes: vec!["public".into()],
        tenants: vec!["stadtwerke".into()],
    }
}

fn written(records: &[Record], bytes_max: u64) -> (Vec<u8>, Ending) {
    let mut writer = Writer::new(Vec::new(), &header(), bytes_max).expect("the header fits");
    for record in records {
        writer.write(record.kind, record.at, &record.words).expect("moments grow");
    }
    writer.finish().expect("a vector takes all bytes")
}

/// Everything that can be read, and how it ends.
fn read(bytes: &[u8]) -> (Vec<Record>, Result<Ending, RecordingError>) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let mut records = Vec::new();
    while let Some(record) = reader.next() {
        match record {
            Ok(record) => records.push(record),
            Err(error) => {
                assert!(reader.next().is_none(), "nothing is read after an error");
                return (records, Err(error));
            }
        }
    }
    let ending = reader.ending().expect("a recording that was read to its end has an ending");
    (records, Ok(ending))
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let record = (any::<bool>(), any::<u32>(), vec(any::<u64>(), 0..6));
    vec(record, 0..8).prop_map(|drawn| {
        let mut at = 0;
        drawn
            .into_iter()
            .map(|(input, delta, words)| {
                at += u64::from(delta);
                Record { kind: if input { Kind::Input } else { Kind::Output }, at, words }
            })
            .collect()
    })
}

fn three() -> Vec<Record> {
    vec![
        Record { kind: Kind::Input, at: 5, words: vec![7] },
        Record { kind: Kind::Output, at: 5, words: vec![4, 1, 300, 2] },
        Record { kind: Kind::Input, at: 1_000_005, words: vec![u64::MAX] },
    ]
}

proptest! {
    #[test]
    fn records_come_back_as_they_were_written(records in records()) {
        let (bytes, _) = written(&records, u64::MAX);
        let (read, ending) = read(&bytes);
        prop_assert_eq!(read, records);
        prop_assert_eq!(ending.unwrap(), Ending::Complete);
    }

    #[test]
    fn any_bytes_give_records_or_an_error_and_never_a_panic(
        tail in vec(any::<u8>(), 0..200), whole_header in any::<bool>(),
    ) {
        let (mut bytes, _) = written(&[], u64::MAX);
        bytes.truncate(bytes.len() - 8);
        if !whole_header {
            bytes.truncate(8);
        }
        bytes.extend(tail);
        let _ = read(&bytes);
    }

    #[test]
    fn bodies_that_no_writer_writes_give_an_error_and_never_a_panic(
        bodies in vec(vec(prop_oneof![0_u8..3, any::<u8>()], 0..16), 0..4),
    ) {
        let (mut bytes, _) = written(&[], u64::MAX);
        bytes.truncate(bytes.len() - 8);
        let json = &bytes[10..bytes.len() - 4];
        let mut checksum = Checksum::START.with(json);
        for body in &bodies {
            checksum = checksum.with(body);
            bytes.push(body.len() as u8);
            bytes.extend(body);
            bytes.extend(checksum.bytes());
        }
        let (records, ending) = read(&bytes);
        prop_assert!(records.len() < bodies.len() || matches!(ending, Ok(Ending::Torn)));
    }

    #[test]
    fn a_recording_that_lost_its_tail_gives_all_that_is_whole(
        records in records(), cut in any::<Index>(),
    ) {
        let (bytes, _) = written(&records, u64::MAX);
        let (empty, _) = written(&[], u64::MAX);
        let head = empty.len() - 8;
        let kept = head + cut.index(bytes.len() - head);
        let (read, ending) = read(&bytes[..kept]);
        prop_assert_eq!(ending.unwrap(), Ending::Torn);
        prop_assert!(read.len() <= records.len());
        prop_assert_eq!(&read[..], &records[..read.len()]);
    }

    #[test]
    fn one_flipped_bit_never_passes_as_a_complete_recording(
        records in records(), at in any::<Index>(), bit in 0_u32..8,
    ) {
        let (mut bytes, _) = written(&records, u64::MAX);
        let place = at.index(bytes.len());
        bytes[place] ^= 1 << bit;
        let (_, ending) = read(&bytes);
        prop_assert!(!matches!(ending, Ok(Ending::Complete | Ending::Cut)), "{:?}", ending);
    }

    #[test]
    fn no_recording_is_longer_than_its_bound(records in records(), room in 0_u64..200) {
        let (empty, _) = written(&[], u64::MAX);
        let bytes_max = empty.len() as u64 + room;
        let (bytes, ending) = written(&records, bytes_max);
        prop_assert!(bytes.len() as u64 <= bytes_max);
        let (read, read_ending) = read(&bytes);
        prop_assert_eq!(read_ending.unwrap(), ending);
        prop_assert_eq!(&read[..], &records[..read.len()]);
        prop_assert_eq!(ending == Ending::Complete, read.len() == records.len());
    }
}

#[test]
fn the_bytes_are_those_of_format_1() {
    let (bytes, _) = written(&three(), u64::MAX);
    let json = concat!(
        r#"{"words_version":1,"program":"forebay 0.1.0","seed":7,"#,
        r#""settings":[7,0,18446744073709551615],"classes":["public"],"tenants":["stadtwerke"]}"#
    );
    let mut expected = b"FBYRE\r\n\x01".to_vec();
    expected.push(0x80 | (json.len() as u8 & 0x7f));
    expected.push((json.len() >> 7) as u8);
    expected.extend(json.as_bytes());
    expected.extend([254, 137, 36, 151]);
    // Length, kind, nanoseconds since the record before, words, checksum.
    expected.extend([3, 0, 5, 7, 106, 33, 74, 117]);
    expected.extend([7, 1, 0, 4, 1, 172, 2, 2, 187, 103, 233, 215]);
    expected.extend([14, 0, 192, 132, 61]);
    expected.extend([255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 50, 19, 77, 29]);
    expected.extend([3, 2, 0, 0, 32, 64, 168, 178]);
    assert_eq!(bytes, expected);
}

#[test]
fn a_swapped_pair_of_records_is_noticed() {
    let same_length = [
        Record { kind: Kind::Input, at: 0, words: vec![1] },
        Record { kind: Kind::Input, at: 0, words: vec![2] },
    ];
    let (mut bytes, _) = written(&same_length, u64::MAX);
    let records_at = bytes.len() - 3 * 8;
    let (first, second) = bytes[records_at..records_at + 16].split_at_mut(8);
    first.swap_with_slice(second);
    let (read, ending) = read(&bytes);
    assert!(read.is_empty());
    assert_eq!(ending.unwrap_err().to_string(), "record 1 is damaged: its checksum is wrong");
}

#[test]
fn a_foreign_file_and_another_version_are_told_apart() {
    assert!(matches!(read(b"{\"timestamp\": 0}\n").1, Err(RecordingError::Foreign)));
    assert!(matches!(read(b"").1, Err(RecordingError::Foreign)));
    let error = read(b"FBYRE\r\n\x02rest").1.unwrap_err();
    assert_eq!(error.to_string(), "the recording has format 2, and this program reads format 1");
    // What a transfer in text mode makes of it.
    assert!(matches!(read(b"FBYRE\n\x01rest").1, Err(RecordingError::Foreign)));
}

#[test]
fn a_length_above_the_bound_is_refused_and_reserves_nothing() {
    let (mut bytes, _) = written(&[], u64::MAX);
    bytes.truncate(bytes.len() - 8);
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    let error = read(&bytes).1.unwrap_err();
    assert_eq!(error.to_string(), "record 1 is damaged: its length is above the bound");
}

#[test]
fn a_record_before_the_last_one_is_refused() {
    let mut writer = Writer::new(Vec::new(), &header(), u64::MAX).unwrap();
    writer.write(Kind::Input, 9, &[]).unwrap();
    let error = writer.write(Kind::Input, 8, &[]).unwrap_err();
    assert_eq!(error.to_string(), "a record at 8 ns can't follow one at 9 ns");
}

#[test]
fn a_bound_that_the_header_exceeds_is_refused() {
    let error = Writer::new(Vec::new(), &header(), 20).unwrap_err();
    assert!(matches!(error, RecordingError::TooLong { what: "the header", bytes_max: 20, .. }));
}

#[test]
fn unknown_fields_of_the_header_are_passed_over() {
    let (bytes, _) = written(&[], u64::MAX);
    let text = String::from_utf8_lossy(&bytes[10..bytes.len() - 12]).into_owned();
    let more = text.replacen('{', r#"{"host":"a","#, 1);
    let parsed: Header = serde_json::from_str(&more).unwrap();
    assert_eq!(parsed, header());
}

#[test]
fn bytes_after_the_end_are_an_error() {
    let (bytes, _) = written(&three(), u64::MAX);
    for more in [&[0][..], &bytes[..]] {
        let (records, ending) = read(&[&bytes, more].concat());
        assert_eq!(records, three());
        assert!(matches!(ending, Err(RecordingError::Trailing)), "{ending:?}");
    }
}
