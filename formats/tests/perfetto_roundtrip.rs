//! Round trips of random traces. They are decoded by prost and assembled as the engine does it: starts and ends are
//! sorted by time, and by the order of the file at equal times. An end closes the innermost slice of its track.

use std::collections::HashMap;

use proptest::prelude::*;
use prost::Message;
use rankscope_formats::perfetto::proto::{Trace, TracePacket, event_type, sequence_flags};
use rankscope_formats::perfetto::{
    ArgValue, ClockAnchor, CounterUnit, CounterValue, Error, FlowId, LaneStyle, Lanes, Options, ProcessTrack,
    Slice, TraceWriter, TrackId, TrackOptions,
};

const ANCHOR: ClockAnchor = ClockAnchor {
    trace_ns: 0,
    realtime_ns: 1_735_689_600_000_000_000,
};

fn writer(options: Options) -> (TraceWriter<Vec<u8>>, TrackId) {
    let mut writer = TraceWriter::new(Vec::new(), ANCHOR, options).expect("begins");
    let process = ProcessTrack {
        pid: 7,
        name: "rank 0",
        ..Default::default()
    };
    let process = writer.process(&process).expect("a process");
    (writer, process)
}

/// Slice as the reader of a trace sees it. The argument "i" identifies it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    i: u64,
    start: u64,
    end: u64,
    name: String,
}

/// Interned texts of one sequence, by InternedData field and number.
type Texts = HashMap<(u32, u64), String>;

/// Decodes and assembles a trace. Panics on everything that the engine would drop.
fn read(bytes: &[u8]) -> Vec<Seen> {
    let trace = Trace::decode(bytes).expect("decodes");
    let mut texts: HashMap<u32, Texts> = HashMap::new();
    let mut events = Vec::new();
    for packet in &trace.packet {
        let Some(sequence) = packet.trusted_packet_sequence_id else {
            assert!(packet.track_event.is_none(), "an event without sequence");
            continue;
        };
        let flags = packet.sequence_flags.unwrap_or(0);
        if flags & sequence_flags::INCREMENTAL_STATE_CLEARED != 0 {
            texts.insert(sequence, Texts::new());
        }
        if let Some(data) = &packet.interned_data {
            let known = texts.get_mut(&sequence).expect("state was cleared once");
            let fields = [
                (2, &data.event_names),
                (3, &data.debug_annotation_names),
                (29, &data.debug_annotation_string_values),
            ];
            for (field, strings) in fields {
                for string in strings {
                    let text = string.name.clone().expect("a text");
                    known.insert((field, string.iid.expect("a number")), text);
                }
            }
        }
        if packet.track_event.is_some() {
            events.push((
                packet.timestamp.expect("a time"),
                resolve(packet, &texts[&sequence]),
            ));
        }
    }
    events.sort_by_key(|&(time, _)| time);
    let mut open: HashMap<u64, Vec<(u64, u64, String)>> = HashMap::new();
    let mut slices = Vec::new();
    for (time, (kind, track, begin)) in events {
        let stack = open.entry(track).or_default();
        match kind {
            event_type::SLICE_BEGIN => {
                let (i, name) = begin.expect("a begin has a name and an index");
                stack.push((time, i, name));
            }
            event_type::SLICE_END => {
                let (start, i, name) = stack.pop().expect("an end has a begin");
                slices.push(Seen {
                    i,
                    start,
                    end: time,
                    name,
                });
            }
            _ => {}
        }
    }
    assert!(
        open.into_values().all(|stack| stack.is_empty()),
        "a begin has an end"
    );
    slices.sort();
    slices
}

/// Returns type and track, and for starts the index and name.
fn resolve(packet: &TracePacket, texts: &Texts) -> (i32, u64, Option<(u64, String)>) {
    let event = packet.track_event.as_ref().expect("asked before");
    let begin = event.name_iid.map(|name| {
        let index = event
            .debug_annotations
            .iter()
            .find(|arg| texts[&(3, arg.name_iid.expect("interned"))] == "i")
            .and_then(|arg| arg.uint_value);
        for arg in &event.debug_annotations {
            assert!(
                arg.string_value_iid
                    .is_none_or(|iid| texts.contains_key(&(29, iid)))
            );
        }
        (index.expect("the index"), texts[&(2, name)].clone())
    });
    (
        event.r#type.expect("a type"),
        event.track_uuid.expect("a track"),
        begin,
    )
}

fn put(
    writer: &mut TraceWriter<Vec<u8>>,
    track: TrackId,
    i: u64,
    start: u64,
    end: u64,
) -> Result<Seen, Error> {
    let name = format!("name {}", i % 13);
    let text = format!("text {}", i % 31);
    let args = [("i", ArgValue::Uint(i)), ("text", ArgValue::Str(&text))];
    let slice = Slice {
        start_ns: start,
        duration_ns: end - start,
        name: &name,
        args: &args,
        ..Slice::default()
    };
    writer.slice(track, &slice)?;
    Ok(Seen { i, start, end, name })
}

/// Generates intervals with few distinct times, so that ties of every kind are common.
fn intervals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0u64..40, 0u64..12), 0..200).prop_map(|drawn| {
        let mut intervals: Vec<_> = drawn
            .into_iter()
            .map(|(start, length)| (start, start + length))
            .collect();
        intervals.sort_unstable_by_key(|&(start, end)| (start, u64::MAX - end));
        intervals
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// On one track, accepted slices are read back exactly, and slices that stick out are rejected.
    #[test]
    fn accepted_slices_come_back(intervals in intervals(), interned_bytes in 200usize..4000) {
        let (mut writer, track) = writer(Options { interned_bytes, ..Options::default() });
        let mut expected = Vec::new();
        for (i, &(start, end)) in intervals.iter().enumerate() {
            match put(&mut writer, track, i as u64, start, end) {
                Ok(seen) => expected.push(seen),
                Err(Error::Overlap { open_end_ns, .. }) => prop_assert!(start < open_end_ns && open_end_ns < end),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
        let (bytes, written) = writer.finish().expect("finishes");
        prop_assert_eq!(written.bytes, bytes.len() as u64);
        prop_assert_eq!(written.slices, expected.len() as u64);
        prop_assert_eq!(read(&bytes), expected);
    }

    /// In lanes, all slices are accepted and read back exactly.
    #[test]
    fn lanes_take_everything(intervals in intervals(), numbered: bool) {
        let (mut writer, process) = writer(Options::default());
        let style = if numbered { LaneStyle::Numbered } else { LaneStyle::Merged };
        let mut lanes = Lanes::new(Some(process), &TrackOptions { name: "ops", ..Default::default() }, style);
        let mut expected = Vec::new();
        for (i, &(start, end)) in intervals.iter().enumerate() {
            let track = lanes.place(&mut writer, start, end - start).expect("a lane");
            expected.push(put(&mut writer, track, i as u64, start, end).expect("fits"));
        }
        prop_assert_eq!(read(&writer.finish().expect("finishes").0), expected);
    }

    /// The hand-written encoding decodes to the values of every type, at every magnitude.
    #[test]
    fn arguments_come_back(int: i64, uint: u64, double: f64, pointer: u64, text in ".{0,200}") {
        let (mut writer, track) = writer(Options::default());
        let list = [ArgValue::Int(int), ArgValue::Text(&text)];
        let args = [
            ("i", ArgValue::Uint(uint)), ("int", ArgValue::Int(int)), ("double", ArgValue::Double(double)),
            ("pointer", ArgValue::Pointer(pointer)), ("text", ArgValue::Text(&text)),
            ("str", ArgValue::Str(&text)), ("list", ArgValue::List(&list)),
            ("dict", ArgValue::Dict(&[("list", ArgValue::List(&list))])), ("bool", ArgValue::Bool(true)),
        ];
        writer.slice(track, &Slice { name: "op", args: &args, ..Slice::default() }).expect("a slice");
        let (bytes, written) = writer.finish().expect("finishes");
        prop_assert_eq!(written.args, 11);
        let trace = Trace::decode(&bytes[..]).expect("decodes");
        let begin = trace.packet.iter().find(|packet| packet.interned_data.is_some()).expect("the begin");
        let found = &begin.track_event.as_ref().expect("an event").debug_annotations;
        prop_assert_eq!(found[0].uint_value, Some(uint));
        prop_assert_eq!(found[1].int_value, Some(int));
        if double.is_finite() {
            prop_assert_eq!(found[2].double_value.map(f64::to_bits), Some(double.to_bits()));
        } else {
            prop_assert_eq!(found[2].string_value.clone(), Some(double.to_string()));
        }
        prop_assert_eq!(found[3].pointer_value, Some(pointer));
        prop_assert_eq!(found[4].string_value.as_ref(), Some(&text));
        prop_assert_eq!(found[5].string_value_iid.is_some(), !text.is_empty());
        prop_assert_eq!(found[6].array_values[0].int_value, Some(int));
        prop_assert_eq!(found[7].dict_entries[0].array_values[1].string_value.as_ref(), Some(&text));
        prop_assert_eq!(found[8].bool_value, Some(true));
    }
}

#[test]
fn slices_that_the_engine_would_spoil_are_refused() {
    let (mut writer, process) = writer(Options {
        check_flows: true,
        ..Options::default()
    });
    let slice = Slice {
        start_ns: 10,
        duration_ns: 10,
        name: "op",
        ..Slice::default()
    };
    writer.slice(process, &slice).expect("a slice");
    let refused = |result: Result<(), Error>| result.expect_err("refused").to_string();
    let late = writer.slice(process, &Slice { start_ns: 9, ..slice });
    assert_eq!(
        refused(late),
        "track rank 0: slice starts at 9 ns, after one that started at 10 ns"
    );
    let beyond = writer.slice(
        process,
        &Slice {
            start_ns: 15,
            ..slice
        },
    );
    assert_eq!(
        refused(beyond),
        "track rank 0: slice 15..25 ns sticks out of the open one, which ends at 20 ns"
    );
    let nameless = writer.slice(process, &Slice { name: "", ..slice });
    assert!(matches!(nameless, Err(Error::EmptyName("slice"))));
    let nameless = writer.slice(
        process,
        &Slice {
            args: &[("", ArgValue::Int(1))],
            ..slice
        },
    );
    assert!(matches!(nameless, Err(Error::EmptyName("argument"))));
    let endless = writer.slice(
        process,
        &Slice {
            duration_ns: 1 << 63,
            ..slice
        },
    );
    assert!(matches!(endless, Err(Error::TimeRange(_))));
    let sink = writer.slice(
        process,
        &Slice {
            start_ns: 20,
            ends: &[FlowId::MIN],
            ..slice
        },
    );
    sink.expect("its source may follow in the file");
    let source = writer.slice(
        process,
        &Slice {
            start_ns: 30,
            flows: &[FlowId::MIN],
            ..slice
        },
    );
    assert!(matches!(
        source,
        Err(Error::FlowOrder {
            flow: 1,
            end_ns: 20,
            source_ns: 30
        })
    ));
    let counter = writer
        .counter(Some(process), "bytes", CounterUnit::Bytes)
        .expect("a counter");
    let nan = writer.counter_value(counter, 1, CounterValue::Double(f64::NAN));
    assert!(matches!(nan, Err(Error::NotFinite { .. })));
    let idle = writer.process(&ProcessTrack {
        pid: 0,
        name: "idle",
        ..Default::default()
    });
    assert!(matches!(idle, Err(Error::ZeroId("pid"))));
    // Rejected items have not changed the counts.
    let written = writer.written();
    assert_eq!(
        (written.slices, written.counter_values, written.tracks),
        (2, 0, 2)
    );
    assert!(matches!(writer.finish(), Err(Error::FlowWithoutSource(1))));
}

#[test]
fn a_failed_output_stays_failed() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = TraceWriter::new(Full, ANCHOR, Options::default()).expect("nothing is written yet");
    let process = ProcessTrack {
        pid: 7,
        name: "rank 0",
        ..Default::default()
    };
    let process = writer.process(&process).expect("nothing is written yet");
    let slice = Slice {
        name: "op",
        ..Slice::default()
    };
    let failure = (0..10_000).find_map(|_| writer.slice(process, &slice).err());
    assert!(matches!(failure, Some(Error::Io(_))));
    assert!(matches!(writer.finish(), Err(Error::Failed)));
}
