//! The calls in progress of a live area, read without the rest of it: also of damaged areas.

use proptest::prelude::*;
use rankscope_ranklog::layout::{HEADER_BYTES, LANE_BYTES, LIVE_MAGIC, header};
use rankscope_ranklog::peek::{self, CallIdentity};
use rankscope_ranklog::place;
use rankscope_ranklog::sequence_lock;
use std::fs;

#[test]
fn calls_are_identified_by_slot_and_generation() {
    let folder = tempfile::tempdir().expect("a folder");
    let placed = place::place_area(1 << 20, 7, Some(folder.path()), folder.path()).expect("an area");
    let path = placed.path.expect("a file");
    let area = placed.area;
    area.initialise(7, 1, 2, 1);
    assert_eq!(peek::calls(&path).expect("readable"), []);
    // More lanes than are read at once.
    for lane in 0..20 {
        area.own_lane(lane, 100 + lane);
    }
    let put = |lane, slot, generation: u64| {
        let [first, rest @ ..] = area.call_slot(lane, slot);
        sequence_lock::put(first, rest, 1 << 32 | generation, [5; 7]);
    };
    put(0, 1, 3);
    put(19, 0, 4);
    let call = |slot, generation: u64| CallIdentity {
        slot,
        commit_word: 1 << 32 | generation,
    };
    assert_eq!(peek::calls(&path).expect("readable"), [call(1, 3), call(76, 4)]);
    // The next call in the same slot is another one.
    put(0, 1, 5);
    assert_eq!(peek::calls(&path).expect("readable"), [call(1, 5), call(76, 4)]);
    let [first, ..] = area.call_slot(19, 0);
    sequence_lock::clear(first);
    assert_eq!(peek::calls(&path).expect("readable"), [call(1, 5)]);
}

proptest! {
    #[test]
    fn damaged_areas_are_errors_or_calls(
        offset in prop_oneof![Just(HEADER_BYTES as u64), any::<u64>(), 0..20_000u64],
        lanes in prop_oneof![0..64u64, any::<u64>()],
        body in proptest::collection::vec(any::<u8>(), 0..4 * LANE_BYTES),
        has_magic in proptest::bool::weighted(0.9),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one.rslive");
        let mut bytes = vec![0u8; HEADER_BYTES];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(header::MAGIC, if has_magic { LIVE_MAGIC } else { 1 });
        put(header::LANES_OFFSET, offset);
        put(header::LANE_COUNT, lanes);
        bytes.extend(&body);
        fs::write(&path, &bytes).expect("written");
        let calls = peek::calls(&path);
        prop_assert!(has_magic || calls.is_err());
        prop_assert!(calls.map_or(0, |calls| calls.len()) <= bytes.len() / 64);
    }
}
