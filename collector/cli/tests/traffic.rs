//! Tests traffic between ranks, in sessions so small that every number is computed by hand.

use rankscope_analysis::{MergeOptions, merge};
use rankscope_fixtures::logs::{START, SyntheticLog, call};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    TableReader, TrafficRoute as Route, TrafficRow, TrafficSource as Source, part_path,
};
use rankscope_ranklog::record::{Algorithm, DeviceWork, Enqueued, FLAG_TRAFFIC, Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use std::path::Path;

fn merged(run: &Path) -> Vec<TrafficRow> {
    let options = MergeOptions {
        directories: vec![run.to_path_buf()],
        output: run.join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    let session = merge(&options, &mut |_| {}).expect("merge");
    let rows: Vec<TrafficRow> =
        TableReader::read_all(&part_path::<TrafficRow>(&run.join("session"))).expect("traffic");
    let reported = session.tables.iter().find(|table| table.name == "traffic");
    assert_eq!(reported.expect("the table is listed").rows, rows.len() as u64);
    rows
}

/// Returns source, route, bytes, timed bytes, transfer time and operations of a pair in an operation.
fn of(
    rows: &[TrafficRow],
    operation: Operation,
    from: u32,
    to: u32,
) -> Vec<(Source, Route, u64, u64, i64, u64)> {
    rows.iter()
        .filter(|row| {
            row.operation == operation
                && (row.from_rank, row.to_rank) == (Some(RankIndex(from)), Some(RankIndex(to)))
        })
        .map(|row| {
            (
                row.source,
                row.route,
                row.bytes,
                row.timed_bytes,
                row.transfer_ns,
                row.operations,
            )
        })
        .collect()
}

#[test]
fn traffic_of_gloo_is_from_calls_routes_and_recorded_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for rank in 0..3u32 {
        let mut log = SyntheticLog::create(&run, rank, 3, "host-a").expect("create");
        log.communicator(0, rank, 3, 7).expect("communicator");
        let late = u64::from(rank);
        // Two all-reduces of 3,000 bytes: all ranks arrive within 2 ns, and are done 100 µs after the last arrival.
        for number in 0..2 {
            let enter = START + 1_000_000 * u64::from(number) + late;
            let leave = START + 1_000_000 * u64::from(number) + 2 + 100_000;
            let record = call(Operation::AllReduce, enter, leave, 0, 3_000, 0);
            // Messages that rank 0 recorded inside the first all-reduce: one to rank 2 and one from rank 1.
            if rank == 0 && number == 0 {
                for (operation, peer) in [(Operation::Send, 2), (Operation::Receive, 1)] {
                    log.push(
                        0,
                        Record {
                            operation: operation as u8,
                            communicator: 0,
                            peer,
                            object: (Operation::AllReduce as u64) << 32,
                            enter_ticks: enter + 10,
                            leave_ticks: enter + 20,
                            ..Record::new(RecordKind::Evidence)
                        },
                    );
                }
            }
            log.push(
                0,
                Record {
                    sequence: number,
                    ..record
                },
            );
        }
        // A broadcast of 600 bytes from rank 1: all ranks arrive at once, and leave 50 µs later.
        let enter = START + 3_000_000;
        let mut record = call(Operation::Broadcast, enter, START + 3_050_000, 0, 600, 0);
        record.peer = 1;
        log.push(0, record);
        // An all-gather at which only rank 0 arrives.
        if rank == 0 {
            log.push(
                0,
                call(
                    Operation::AllGather,
                    START + 4_000_000,
                    START + 4_000_100,
                    0,
                    64,
                    0,
                ),
            );
        }
        // A message of 4,096 bytes from rank 0 to rank 2, which waits for it.
        let message = |kind, operation: Operation, enter: u64, leave: u64, peer| Record {
            operation: operation as u8,
            enter_ticks: enter,
            leave_ticks: leave,
            object: 0xA,
            bytes: 4_096,
            communicator: 0,
            peer,
            ..Record::new(kind)
        };
        let at = START + 5_000_000;
        let (operation, peer) = match rank {
            0 => (Operation::Send, 2),
            _ => (Operation::Receive, 0),
        };
        if rank != 1 {
            log.push(0, message(RecordKind::Post, operation, at, at + 1, peer));
            log.push(
                0,
                message(RecordKind::Complete, operation, at + 10, at + 20_000, peer),
            );
        }
        log.end().expect("end");
    }
    let rows = merged(&run);
    // Gloo's ring runs downwards. Each path carries 2 (n − 1) / n of 3,000 bytes, twice.
    for (from, to, source) in [
        (0, 2, Source::Nested),
        (1, 0, Source::Nested),
        (2, 1, Source::Modelled),
    ] {
        assert_eq!(
            of(&rows, Operation::AllReduce, from, to),
            [(source, Route::Ring, 8_000, 8_000, 200_000, 2)],
            "{from} → {to}"
        );
    }
    for to in [0, 2] {
        assert_eq!(
            of(&rows, Operation::Broadcast, 1, to),
            [(Source::Modelled, Route::BinomialTree, 600, 600, 50_000, 1)]
        );
    }
    assert_eq!(
        of(&rows, Operation::Send, 0, 2),
        [(Source::Called, Route::Direct, 4_096, 4_096, 20_000, 1)]
    );
    let left: Vec<_> = rows
        .iter()
        .filter(|row| row.source == Source::LeftOut)
        .map(|row| (row.operation, row.operations, row.from_rank))
        .collect();
    assert_eq!(left, [(Operation::AllGather, 1, None)]);
    assert_eq!(rows.len(), 7, "{rows:#?}");
}

#[test]
fn measurements_of_proxies_replace_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for rank in 0..2u32 {
        let mut log = SyntheticLog::create(&run, rank, 2, "host-a").expect("create");
        log.communicator_of(Library::Nccl, 0, rank, 2, 9)
            .expect("communicator");
        log.push(
            0,
            Record {
                operation: Operation::AllReduce as u8,
                bytes: 1 << 20,
                element_bytes: 4,
                communicator: 0,
                aux: Enqueued::default().to_aux(),
                enter_ticks: START + 10,
                leave_ticks: START + 20,
                ..Record::new(RecordKind::Enqueue)
            },
        );
        // Rank 0's proxies send 10,000 bytes twice. The second transfer starts half-way through the first.
        let proxy = |operation: Operation, enter: u64, bytes: u64| Record {
            operation: operation as u8,
            flags: FLAG_TRAFFIC,
            bytes,
            communicator: 0,
            peer: 1 - rank as i32,
            enter_ticks: START + enter,
            leave_ticks: START + enter + 2_000,
            ..Record::new(RecordKind::Device)
        };
        if rank == 0 {
            log.push(0, proxy(Operation::Send, 1_000, 10_000));
            log.push(0, proxy(Operation::Send, 2_000, 10_000));
        } else {
            // One of the receives was lost.
            log.push(0, proxy(Operation::Receive, 1_000, 10_000));
        }
        log.end().expect("end");
    }
    let rows = merged(&run);
    assert_eq!(
        of(&rows, Operation::Unknown, 0, 1),
        [(Source::Proxies, Route::Direct, 20_000, 20_000, 3_000, 2)]
    );
    // The completion time of the all-reduce is unknown: no bandwidth.
    let ring = |from, to| of(&rows, Operation::AllReduce, from, to);
    let reported = (Source::Modelled, Route::Ring, 1 << 20, 0, 0, 1);
    assert_eq!((ring(0, 1), ring(1, 0)), (vec![reported], vec![reported]));
    let superseded: Vec<_> = rows
        .iter()
        .filter(|row| row.superseded)
        .map(|row| (row.from_rank, row.to_rank, row.source))
        .collect();
    assert_eq!(
        superseded,
        [(Some(RankIndex(0)), Some(RankIndex(1)), Source::Modelled)]
    );
}

#[test]
fn an_algorithm_without_pairs_is_left_out_and_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for rank in 0..2u32 {
        let mut log = SyntheticLog::create(&run, rank, 2, "host-a").expect("create");
        log.property("source.nccl_plugin", "5").expect("property");
        log.communicator_of(Library::Nccl, 0, rank, 2, 9)
            .expect("communicator");
        let enqueued = Enqueued {
            parts: 1,
            ..Enqueued::default()
        };
        let record = Record {
            operation: Operation::AllReduce as u8,
            bytes: 4_096,
            element_bytes: 4,
            communicator: 0,
            aux: enqueued.to_aux(),
            enter_ticks: START + 10,
            leave_ticks: START + 20,
            ..Record::new(RecordKind::Enqueue)
        };
        let work = DeviceWork {
            duration_ns: 1_000,
            channels: 1,
            algorithm: Algorithm::Nvls,
            ..DeviceWork::default()
        };
        log.push(0, record);
        log.push(
            0,
            Record {
                object: START + 1_000,
                aux: work.to_aux(),
                enter_ticks: START + 1_100,
                leave_ticks: START + 2_100,
                kind: RecordKind::Device as u8,
                ..record
            },
        );
        log.end().expect("end");
    }
    let rows = merged(&run);
    let reported: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.source,
                row.operation,
                row.operations,
                row.bytes,
                row.from_rank,
            )
        })
        .collect();
    assert_eq!(
        reported,
        [(Source::LeftOut, Operation::AllReduce, 1, 4_096, None)]
    );
}

/// Merges a run of three ranks with one all-reduce of 3,000 bytes, in which rank 0 recorded messages to and from these
/// ranks.
fn seen_inside(run: &Path, sent_to: &[i32], received_from: &[i32]) -> Vec<(u32, u32, Source, Route, u64)> {
    for rank in 0..3u32 {
        let mut log = SyntheticLog::create(run, rank, 3, "host-a").expect("create");
        log.communicator(0, rank, 3, 7).expect("communicator");
        let enter = START + 1_000_000;
        if rank == 0 {
            let ways = [(Operation::Send, sent_to), (Operation::Receive, received_from)];
            for (operation, peer) in ways
                .iter()
                .flat_map(|(operation, peers)| peers.iter().map(move |peer| (*operation, *peer)))
            {
                log.push(
                    0,
                    Record {
                        operation: operation as u8,
                        communicator: 0,
                        peer,
                        object: (Operation::AllReduce as u64) << 32,
                        enter_ticks: enter + 10,
                        leave_ticks: enter + 20,
                        ..Record::new(RecordKind::Evidence)
                    },
                );
            }
        }
        log.push(0, call(Operation::AllReduce, enter, enter + 100_000, 0, 3_000, 0));
        log.end().expect("end");
    }
    merged(run)
        .iter()
        .filter_map(|row| Some((row.from_rank?.0, row.to_rank?.0, row.source, row.route, row.bytes)))
        .collect()
}

#[test]
fn recorded_messages_take_precedence_over_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    // The messages go in the other direction: the ring is reversed.
    assert_eq!(
        seen_inside(&folder.path().join("turned"), &[1], &[]),
        [
            (0, 1, Source::Nested, Route::Ring, 4_000),
            (1, 2, Source::Modelled, Route::Ring, 4_000),
            (2, 0, Source::Modelled, Route::Ring, 4_000),
        ]
    );
    // The messages form no ring: three paths share the bytes that a ring would carry.
    assert_eq!(
        seen_inside(&folder.path().join("star"), &[1, 2], &[1]),
        [
            (0, 1, Source::Nested, Route::AsSeen, 4_000),
            (0, 2, Source::Nested, Route::AsSeen, 4_000),
            (1, 0, Source::Nested, Route::AsSeen, 4_000),
        ]
    );
}
