//! Tests groups of NCCL calls that ran as one launch on the device: wait, traffic and cost count once.

use rankscope_analysis::ingest::part::Last;
use rankscope_analysis::{MergeOptions, merge, merge_last};
use rankscope_fixtures::logs::{START, SyntheticLog};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;
use rankscope_formats::session::{
    InstanceRow, InstanceState, OperationRow, Session, TableReader, part_path, rank_path,
};
use rankscope_ranklog::record::{
    DeviceWork, Enqueued, FLAG_CAPTURED, FLAG_CLOCK, FLAG_EVENTS, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
};
use rankscope_ranklog::{Library, Operation};
use std::path::Path;

const GROUPS: u32 = 20;
const EVERY_NS: u64 = 10_000_000;
const LATE_NS: i64 = 1_000_000;
const TRANSFER_NS: i64 = 500_000;
/// Difference between the device's clock and the host's, in nanoseconds.
const AHEAD_NS: u64 = 1_700_000_000_000_000_000;
const STREAM: u64 = 0x5000;

/// One call of a group.
#[derive(Clone, Copy)]
struct Called {
    operation: Operation,
    peer: i32,
    bytes: u64,
}

fn reduce(bytes: u64) -> Called {
    Called {
        operation: Operation::AllReduce,
        peer: -1,
        bytes,
    }
}

/// Source of the launch times.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Plugin,
    Events,
}

/// Merges a run of two ranks in which rank 1 arrives [`LATE_NS`] late in each group. `group` returns the calls of a
/// rank in a group.
fn run(directory: &Path, source: Source, flags: u8, group: impl Fn(u32) -> Vec<Called>) -> Session {
    run_as(directory, source, flags, group, |_, records| records)
}

/// Does the same, with the device records of a group replaced by `reported(rank, records)`.
fn run_as(
    directory: &Path,
    source: Source,
    flags: u8,
    group: impl Fn(u32) -> Vec<Called>,
    reported: impl Fn(u32, Vec<Record>) -> Vec<Record>,
) -> Session {
    for rank in 0..2u32 {
        let mut log = SyntheticLog::create(directory, rank, 2, "host-a").expect("create");
        let property = match source {
            Source::Plugin => ("source.nccl_plugin", "5"),
            Source::Events => ("source.nccl_events", "1"),
        };
        log.property(property.0, property.1).expect("property");
        log.communicator_of(Library::Nccl, 0, rank, 2, 9)
            .expect("communicator");
        let calls = group(rank);
        let mut numbers = [0u32; 64];
        for number in 0..GROUPS {
            let called = START + u64::from(number) * EVERY_NS + u64::from(rank) * LATE_NS as u64;
            let mut records = Vec::new();
            for (position, call) in calls.iter().enumerate() {
                // Messages are counted separately, collectives together.
                let counter = if call.peer >= 0 {
                    call.operation as usize
                } else {
                    0
                };
                let sequence = numbers[counter];
                numbers[counter] += 1;
                let enqueued = Enqueued {
                    group: number + 1,
                    parts: u8::from(source == Source::Plugin),
                    is_timed: source == Source::Events,
                    ..Enqueued::default()
                };
                records.push(Record {
                    operation: call.operation as u8,
                    flags,
                    peer: call.peer,
                    bytes: call.bytes,
                    element_bytes: 4,
                    communicator: 0,
                    sequence,
                    object: STREAM,
                    aux: enqueued.to_aux(),
                    enter_ticks: called + position as u64,
                    leave_ticks: called + position as u64 + 1,
                    ..Record::new(RecordKind::Enqueue)
                });
            }
            let ended = called + 1_000;
            for record in &records {
                log.push(0, *record);
            }
            log.push(
                0,
                Record {
                    object: u64::from(number) + 1,
                    bytes: calls.len() as u64,
                    aux: called,
                    enter_ticks: ended - 500,
                    leave_ticks: ended,
                    ..Record::new(RecordKind::Group)
                },
            );
            let last = START + u64::from(number) * EVERY_NS + LATE_NS as u64 + 2_000;
            let (start, stop) = (ended + 1_000, last + TRANSFER_NS as u64);
            if source == Source::Events {
                log.push(
                    0,
                    Record {
                        flags: FLAG_CLOCK | FLAG_SEQUENCE_UNKNOWN,
                        communicator: 0,
                        object: called + AHEAD_NS,
                        enter_ticks: called - 50,
                        leave_ticks: stop + 50,
                        ..Record::new(RecordKind::Device)
                    },
                );
            }
            let count = if source == Source::Events {
                1
            } else {
                records.len()
            };
            let mut of_device = Vec::new();
            for record in &records[..count] {
                let work = DeviceWork {
                    duration_ns: stop - start,
                    channels: 2,
                    ..DeviceWork::default()
                };
                of_device.push(Record {
                    flags: flags | if source == Source::Events { FLAG_EVENTS } else { 0 },
                    object: start + AHEAD_NS,
                    aux: work.to_aux(),
                    enter_ticks: start + 100,
                    leave_ticks: stop + 100,
                    kind: RecordKind::Device as u8,
                    ..*record
                });
            }
            for record in reported(rank, of_device) {
                log.push(0, record);
            }
        }
        log.end().expect("end");
    }
    merged(directory)
}

fn merged(directory: &Path) -> Session {
    let options = MergeOptions {
        directories: vec![directory.to_path_buf()],
        output: directory.join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    merge(&options, &mut |_| {}).expect("merge")
}

fn instances(run: &Path) -> Vec<InstanceRow> {
    TableReader::read_all(&part_path::<InstanceRow>(&run.join("session"))).expect("instances")
}

fn rows(run: &Path, rank: u32) -> Vec<OperationRow> {
    TableReader::read_all(&rank_path::<OperationRow>(&run.join("session"), rank)).expect("operations")
}

fn expect_near(found: i64, expected: i64) {
    assert!(
        (found - expected).abs() <= expected / 50,
        "{found} instead of {expected}"
    );
}

#[test]
fn collectives_of_one_launch_wait_once_and_share_its_bandwidth() {
    for source in [Source::Plugin, Source::Events] {
        let folder = tempfile::tempdir().expect("a folder");
        let session = run(folder.path(), source, 0, |_| {
            vec![reduce(4_000), reduce(1 << 20), reduce(64_000)]
        });
        let groups = u64::from(GROUPS);
        assert_eq!(session.totals.operations, 6 * groups);
        assert_eq!(session.totals.enqueued, 0);
        assert_eq!(session.matching.complete, 3 * groups);
        assert_eq!(session.totals.instances, 3 * groups);
        expect_near(session.totals.exposed_wait_rank_ns, LATE_NS * i64::from(GROUPS));
        expect_near(session.blame.total_exposed_rank_ns, LATE_NS * i64::from(GROUPS));
        let own: Vec<_> = session
            .operations
            .iter()
            .filter(|class| !class.launches)
            .collect();
        assert_eq!(own.len(), 3);
        for class in own {
            assert_eq!(
                (class.operations, class.shared, class.instances),
                (2 * groups, 2 * groups, 0)
            );
            assert!(class.transfer_ns.value.is_none() && class.duration_ns.value.is_none());
        }
        let launches: Vec<_> = session.operations.iter().filter(|class| class.launches).collect();
        let [launches] = launches[..] else {
            panic!("{launches:?}");
        };
        assert_eq!((launches.operations, launches.instances), (2 * groups, groups));
        assert_eq!(launches.size_from_bytes, Some(1 << 20));
        let transfer = launches.transfer_ns.value.as_ref().expect("times");
        expect_near(transfer.p50 as i64, TRANSFER_NS);
        let mut instances = instances(folder.path());
        instances.sort_by_key(|row| row.instance);
        for of_launch in instances.chunk_by(|one, next| one.launch == next.launch) {
            let [first, others @ ..] = of_launch else {
                panic!("a first");
            };
            assert_eq!((others.len(), first.launch.is_some()), (2, true));
            assert_eq!(first.size_bytes, Some(4_000 + (1 << 20) + 64_000));
            expect_near(first.exposed_wait_rank_ns.expect("waits"), LATE_NS);
            assert_eq!(first.last_rank, Some(RankIndex(1)));
            for other in others {
                assert_eq!((other.exposed_wait_rank_ns, other.transfer_ns), (None, None));
                assert_eq!(other.state, InstanceState::Complete);
            }
        }
        let rows = rows(folder.path(), 0);
        assert!(rows.iter().all(|row| row.launch_operations == 3));
        let waited = rows.iter().filter(|row| row.exposed_wait_ns.is_some()).count();
        assert_eq!(waited as u64, groups);
    }
}

#[test]
fn a_step_contains_whole_launches() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let session = run(directory.path(), Source::Plugin, 0, |_| vec![reduce(4000); 4]);
    // Equal calls in a group repeat, too. They are no steps: one kernel executes all of them.
    assert_eq!(session.steps.source, "pattern");
    let pattern = session.steps.pattern.as_deref().expect("a pattern");
    assert!(pattern.starts_with("4 × all-reduce"), "{pattern}");
    assert_eq!(session.steps.count, u64::from(GROUPS) - 1);
    let median_ns = session.steps.median_ns.value.expect("steps");
    expect_near(median_ns, EVERY_NS as i64);
    for row in rows(directory.path(), 1) {
        // The first launch ends no whole step.
        let step = (row.sequence / 4).checked_sub(1);
        assert_eq!(row.step.map(|step| step.0), step);
    }
}

#[test]
fn messages_of_one_launch_wait_once_for_all_their_peers() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = run(folder.path(), Source::Plugin, 0, |rank| {
        let peer = 1 - rank as i32;
        [Operation::Send, Operation::Receive]
            .map(|operation| Called {
                operation,
                peer,
                bytes: 4096,
            })
            .to_vec()
    });
    let groups = u64::from(GROUPS);
    assert_eq!(session.totals.operations, 4 * groups);
    assert_eq!(session.matching.complete, 2 * groups);
    // Rank 0 waits for rank 1, whether rank 1 sends or receives.
    expect_near(session.totals.exposed_wait_rank_ns, LATE_NS * i64::from(GROUPS));
    let caused = |rank: u32| {
        let of = session
            .blame
            .ranks
            .iter()
            .find(|of| of.rank == rank)
            .expect("a rank");
        of.caused_rank_ns
    };
    expect_near(caused(1), LATE_NS * i64::from(GROUPS));
    assert_eq!(caused(0), 0);
    for row in instances(folder.path()) {
        assert_eq!((row.bus_bytes_per_s, row.transfer_ns), (None, None));
    }
}

#[test]
fn a_replay_is_a_launch_like_its_template() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = run(folder.path(), Source::Plugin, FLAG_CAPTURED, |_| {
        vec![reduce(4_000), reduce(8_000)]
    });
    let groups = u64::from(GROUPS);
    assert_eq!(session.totals.captured, 4 * groups);
    assert_eq!(session.totals.operations, 4 * groups);
    assert_eq!(session.devices[0].replays, 2 * groups);
    let launches: Vec<_> = session.operations.iter().filter(|class| class.launches).collect();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].instances, groups);
    let replays = rows(folder.path(), 0);
    assert!(replays.iter().all(|row| row.launch_operations == 2));
}

#[test]
fn replays_that_one_rank_lacks_are_a_finding() {
    let replays = |lacks: Option<u32>| {
        let folder = tempfile::tempdir().expect("a folder");
        let reported_groups = std::cell::Cell::new(0);
        let session = run_as(
            folder.path(),
            Source::Plugin,
            FLAG_CAPTURED,
            |_| vec![reduce(4_000)],
            |rank, records| {
                let group = reported_groups.get() % GROUPS;
                reported_groups.set(reported_groups.get() + 1);
                if rank == 1 && lacks == Some(group) {
                    Vec::new()
                } else {
                    records
                }
            },
        );
        let found = session
            .findings
            .iter()
            .find(|finding| finding.kind == "replay-counts");
        found.map(|finding| finding.severity)
    };
    assert_eq!(replays(None), None);
    assert_eq!(replays(Some(GROUPS - 1)), Some(Severity::Critical));
}

#[test]
fn members_that_group_differently_share_no_launch() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = run(folder.path(), Source::Plugin, 0, |rank| {
        // Rank 1 also calls a message in each group: its launches have three calls.
        let mut calls = vec![reduce(4_000), reduce(8_000)];
        if rank == 1 {
            calls.push(Called {
                operation: Operation::Send,
                peer: 0,
                bytes: 4,
            });
        }
        calls
    });
    assert_eq!(session.matching.complete, 2 * u64::from(GROUPS));
    // The collectives are the same on both ranks. Their wait is known, but the concurrent traffic on the wire is not.
    expect_near(session.totals.exposed_wait_rank_ns, LATE_NS * i64::from(GROUPS));
    assert!(
        instances(folder.path())
            .iter()
            .all(|row| row.bus_bytes_per_s.is_none())
    );
    assert_eq!(session.matching.shared_without_figures, 0);

    let folder = tempfile::tempdir().expect("a folder");
    let session = run(folder.path(), Source::Plugin, 0, |rank| {
        let mut calls = vec![reduce(4_000); 2];
        calls.extend((rank == 1).then(|| reduce(4_000)));
        calls
    });
    assert_eq!(session.totals.exposed_wait_rank_ns, 0);
    let matching = &session.matching;
    assert_eq!(
        (matching.complete, matching.shared_without_figures),
        (2 * 20, 2 * 20)
    );
    let rows = instances(folder.path());
    assert!(rows.iter().all(|row| row.exposed_wait_rank_ns.is_none()));
    assert!(
        session.waits.reason.is_some(),
        "zeros would say that nobody waited"
    );
}

#[test]
fn a_launch_waits_for_every_root_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    // Uneven all-gathers are made this way: a broadcast from each member. The late rank is the root of the second one.
    let session = run(folder.path(), Source::Plugin, 0, |_| {
        [0, 1]
            .map(|peer| Called {
                operation: Operation::Broadcast,
                peer,
                bytes: 4_000,
            })
            .to_vec()
    });
    expect_near(session.totals.exposed_wait_rank_ns, LATE_NS * i64::from(GROUPS));
    let rows = instances(folder.path());
    let transfers: Vec<i64> = rows.iter().filter_map(|row| row.transfer_ns).collect();
    assert_eq!(transfers.len() as u32, GROUPS);
    for transfer in transfers {
        expect_near(transfer, TRANSFER_NS);
    }
}

#[test]
fn replays_are_reported_in_any_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = |_| vec![reduce(1 << 20), reduce(4_000)];
    let session = run_as(
        folder.path(),
        Source::Plugin,
        FLAG_CAPTURED,
        calls,
        |_, mut records| {
            records.reverse();
            records
        },
    );
    let launches: Vec<_> = session.operations.iter().filter(|class| class.launches).collect();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].instances, u64::from(GROUPS));
    expect_near(session.totals.exposed_wait_rank_ns, LATE_NS * i64::from(GROUPS));
}

/// Replays are numbered by the count of earlier replays, which a part of a run does not contain. No replay is matched
/// with another rank's.
#[test]
fn replays_in_a_part_of_a_run_are_counted_and_not_matched() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = |_| vec![reduce(1 << 20), reduce(4_000)];
    let whole = run_as(
        folder.path(),
        Source::Plugin,
        FLAG_CAPTURED,
        calls,
        |_, records| records,
    );
    assert!(whole.matching.complete > 0);
    let last = Last {
        time_ns: Some((whole.axis.end_ns - whole.axis.start_ns) / 2),
        ..Last::default()
    };
    let options = MergeOptions {
        directories: vec![folder.path().to_path_buf()],
        output: folder.path().join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    let part = merge_last(&options, last, &mut |_| {}).expect("merge");
    let reported = part.part.as_ref().expect("a part");
    assert!(reported.left_out.replays > 0, "{reported:?}");
    let matching = &part.matching;
    assert_eq!(
        (matching.complete, matching.incomplete, matching.mismatched),
        (0, 0, 0)
    );
    assert_eq!(part.totals.exposed_wait_rank_ns, 0);
}

/// If completion times of operations are unknown, the host's activity during them is unknown too.
#[test]
fn own_time_next_to_operations_without_times_is_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = |_| vec![reduce(1 << 20)];
    let session = run_as(folder.path(), Source::Plugin, 0, calls, |_, _| Vec::new());
    assert!(session.operations_without_times(0) > 0);
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_rankscope"))
        .args(["report", "--range", "0s..1h", "--json"])
        .arg(folder.path())
        .output()
        .expect("the program");
    let window: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let parts = &window["parts"][0];
    assert_eq!(parts["level"], "host", "{parts}");
    assert!(parts["parts"]["value"].is_null(), "{parts}");
    let reason = parts["parts"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("put on a device's stream"), "{reason}");
}

#[test]
fn operations_keep_their_waits_if_another_of_the_launch_was_not_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = |_| vec![reduce(1 << 20), reduce(4_000), reduce(8_000)];
    let session = run_as(folder.path(), Source::Plugin, 0, calls, |rank, mut records| {
        if rank == 1 {
            records.remove(1);
        }
        records
    });
    assert_eq!(session.matching.enqueued + session.matching.complete, 3 * 20);
    // Records of the last groups may still be pending: nearly all are known.
    let waited = session.totals.exposed_wait_rank_ns;
    assert!(waited > LATE_NS * 15 && waited <= LATE_NS * 21, "{waited}");
    assert!(
        instances(folder.path())
            .iter()
            .all(|row| row.bus_bytes_per_s.is_none())
    );
}

#[test]
fn a_message_arrives_with_its_launch_and_not_with_its_own_first_channel() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = |rank: u32| {
        let peer = 1 - rank as i32;
        [Operation::Send, Operation::Receive]
            .map(|operation| Called {
                operation,
                peer,
                bytes: 4096,
            })
            .to_vec()
    };
    // On rank 0 the second message starts when rank 1 has long arrived: nobody waits for rank 0.
    let session = run_as(folder.path(), Source::Plugin, 0, calls, |rank, mut records| {
        if rank == 0 {
            let later = LATE_NS as u64 + 300_000;
            let work = DeviceWork::from_aux(records[1].aux);
            records[1].object += later;
            records[1].enter_ticks += later;
            records[1].aux = DeviceWork {
                duration_ns: work.duration_ns - later,
                ..work
            }
            .to_aux();
        }
        records
    });
    let caused = |rank: u32| {
        let of = session
            .blame
            .ranks
            .iter()
            .find(|of| of.rank == rank)
            .expect("a rank");
        of.caused_rank_ns
    };
    assert_eq!(caused(0), 0);
    expect_near(caused(1), LATE_NS * i64::from(GROUPS));
    let launches: u64 = session.blame.ranks.iter().map(|of| of.launches).sum();
    assert_eq!(launches, 2 * u64::from(GROUPS), "two messages are one launch");
    for of in &session.blame.ranks {
        assert!(of.last_arrivals <= of.launches, "{of:?}");
    }
}

#[test]
fn each_device_of_one_process_has_its_own_clock() {
    let folder = tempfile::tempdir().expect("a folder");
    // One process has both members. Their devices' clocks are seconds apart and are recorded in turn.
    let mut log = SyntheticLog::create(folder.path(), 0, 2, "host-a").expect("create");
    log.property("source.nccl_plugin", "5").expect("property");
    for member in 0..2 {
        log.communicator_of(Library::Nccl, member, member, 2, 9)
            .expect("communicator");
    }
    for call in 0..GROUPS {
        for member in 0..2u32 {
            let called = START + u64::from(call) * EVERY_NS + u64::from(member) * 10_000;
            let enqueue = Record {
                operation: Operation::AllReduce as u8,
                bytes: 4_000,
                element_bytes: 4,
                communicator: member,
                sequence: call,
                aux: Enqueued {
                    parts: 1,
                    ..Enqueued::default()
                }
                .to_aux(),
                enter_ticks: called,
                leave_ticks: called + 100,
                ..Record::new(RecordKind::Enqueue)
            };
            log.push(0, enqueue);
            let start = called + 1_000;
            let work = DeviceWork {
                duration_ns: TRANSFER_NS as u64,
                channels: 1,
                ..DeviceWork::default()
            };
            log.push(
                0,
                Record {
                    kind: RecordKind::Device as u8,
                    object: start + AHEAD_NS + u64::from(member) * 5_000_000_000,
                    aux: work.to_aux(),
                    enter_ticks: start + 500,
                    leave_ticks: start + TRANSFER_NS as u64 + 500,
                    ..enqueue
                },
            );
        }
    }
    log.end().expect("end");
    let session = merged(folder.path());
    let device = &session.devices[0];
    assert_eq!(
        (device.operations, device.contradictions),
        (2 * u64::from(GROUPS), 0)
    );
    let rows = rows(folder.path(), 0);
    for row in &rows {
        let after_call = row.enter_ns - row.called_ns.expect("a call");
        assert!((500..5_000).contains(&after_call), "{after_call}: {row:?}");
    }
}

/// A launch with any call before the part is left out as a whole. The others are the same as in the whole run.
#[test]
fn a_part_of_a_run_has_only_complete_launches() {
    for source in [Source::Plugin, Source::Events] {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = run(folder.path(), source, 0, |_| {
            vec![reduce(4_000), reduce(1 << 20), reduce(64_000)]
        });
        let known = instances(folder.path());
        let kinds = |session: &Session| -> Vec<String> {
            let findings = session.findings.iter();
            findings.map(|finding| finding.kind.clone()).collect()
        };
        // The axis starts with the logs' first calibration.
        let begin = |group: u32| i64::from(group) * EVERY_NS as i64;
        // Between groups, between the calls of one rank, between the ranks, and while the device works.
        for (after_ns, group) in [
            (-1_000_000, 4),
            (2, 7),
            (500_000, 9),
            (1_000_001, 11),
            (1_200_000, 13),
        ] {
            let from_ns = begin(group) + after_ns;
            let options = MergeOptions {
                directories: vec![folder.path().to_path_buf()],
                output: folder.path().join("session"),
                threads: Some(2),
                most_pending: None,
                origins: Vec::new(),
            };
            let last = Last {
                time_ns: Some(whole.axis.end_ns + 1 - from_ns),
                ..Last::default()
            };
            let part = merge_last(&options, last, &mut |_| {}).expect("merge");
            let reported = part.part.as_ref().expect("a part");
            assert!(
                (reported.from_ns - from_ns).abs() <= 2,
                "{reported:?}, not {from_ns}"
            );
            let first = if after_ns < 0 { group } else { group + 1 };
            let groups = u64::from(GROUPS - first);
            assert_eq!(part.matching.complete, 3 * groups, "{:?}", part.matching);
            let counts = [
                part.matching.incomplete,
                part.matching.mismatched,
                part.matching.without_key,
                part.matching.shared_without_figures,
            ];
            assert_eq!(counts, [0; 4]);
            let cut = if after_ns < 0 { 0 } else { 3 };
            assert_eq!(
                reported.left_out.instances, cut,
                "{:?} at {after_ns}",
                reported.left_out
            );
            assert_eq!(part.totals.operations, 6 * groups);
            for row in instances(folder.path()) {
                let same = known.iter().find(|other| other.sequence == row.sequence);
                let same = same.expect("an instance of the whole");
                let waited = |row: &InstanceRow| row.exposed_wait_rank_ns.unwrap_or(0);
                expect_near(waited(&row) + 1, waited(same) + 1);
                assert_eq!(row.launch.is_some(), same.launch.is_some());
            }
            let new = kinds(&part)
                .into_iter()
                .find(|kind| !kinds(&whole).contains(kind));
            assert_eq!(new, None);
        }
    }
}
