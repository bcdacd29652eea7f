//! Tests that the recording of Gloo programs agrees with their own reports.
//!
//! Every operation has the right size, root, tag, element size and peers, on communicators with the same identity on
//! all members.

use std::collections::{BTreeMap, BTreeSet};

use rankscope_ranklog::Operation;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::record::{
    CONTINUATION_COUNTS, FLAG_BYTES_UNKNOWN, FLAG_DIRECT, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, RecordKind,
};
use rankscope_tests::compile;
use rankscope_tests::job::Job;
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::truth::{self, bytes_per_member, member, number};
use rankscope_tests::turn;
use serde_json::Value;

/// One operation, as the program reports it and as it was recorded.
#[derive(Debug, PartialEq)]
struct Done {
    operation: Operation,
    tag: u64,
    element_bytes: u64,
    root: i32,
    bytes: u64,
    /// Bytes per member of the v-variants.
    per_member: Vec<u64>,
}

/// Returns the expected record of this operation. The rank is `rank` of `size`.
fn reported(line: &Value, rank: usize, size: usize) -> Done {
    let operation = truth::operation(line);
    let element_bytes = number(line, "element_size");
    let (to, from) = (bytes_per_member(line, "to"), bytes_per_member(line, "from"));
    let (bytes, per_member) = match operation {
        // Bytes of each member. The list is the same on every member, although in a gather only the root receives.
        Operation::AllGatherV => (from[rank], from),
        Operation::GatherV => {
            let all = (0..size as u64).map(|peer| (3 * peer + 1) * element_bytes);
            let root = member(line, "root") as usize;
            (to[root], all.collect())
        }
        Operation::AllToAllV => (to.iter().sum(), to),
        _ => (number(line, "bytes"), Vec::new()),
    };
    Done {
        operation,
        tag: number(line, "tag"),
        element_bytes,
        root: member(line, "root"),
        bytes,
        per_member,
    }
}

/// Returns the collectives of a log in order, each with the continuation records before it in its lane.
fn collectives(recorded: &Recorded) -> Vec<Done> {
    let mut waiting: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut done = Vec::new();
    let mut in_lane: Vec<_> = recorded.records.iter().collect();
    // Continuations have the enter time of their call. In the order of leaves other records may come between them, but
    // not within their lane.
    in_lane.sort_by_key(|held| (held.lane, held.record.enter_ticks));
    for held in in_lane {
        let record = &held.record;
        if record.kind == RecordKind::Continuation as u8 {
            waiting
                .entry(held.lane)
                .or_default()
                .extend(record.continuation_counts());
        } else if record.kind == RecordKind::Call as u8 && record.operation != Operation::Connect as u8 {
            let size = recorded.communicator(record).size as usize;
            let mut per_member = waiting.remove(&held.lane).unwrap_or_default();
            if !per_member.is_empty() {
                assert_eq!(per_member.len(), size.next_multiple_of(CONTINUATION_COUNTS));
                assert!(per_member[size..].iter().all(|&count| count == 0));
                per_member.truncate(size);
            }
            assert_eq!(record.flags, FLAG_DIRECT, "{record:?}");
            assert!(record.enter_ticks <= record.leave_ticks, "{record:?}");
            done.push(Done {
                operation: Operation::from_u8(record.operation).expect("a known operation"),
                tag: u64::from(record.tag),
                element_bytes: u64::from(record.element_bytes),
                root: record.peer,
                bytes: record.bytes,
                per_member,
            });
        }
    }
    assert!(waiting.is_empty(), "counts that belong to no call: {waiting:?}");
    done
}

/// Checks the communicators by name: all members have the same identity, and no two communicators share one.
fn expect_identities(logs: &[Recorded], sizes: &[(&str, usize)]) {
    let mut identities = BTreeMap::new();
    for &(name, size) in sizes {
        let members: Vec<_> = logs
            .iter()
            .flat_map(|recorded| recorded.log.communicators.values())
            .filter(|communicator| communicator.name == name)
            .collect();
        assert_eq!(members.len(), size, "members of {name}");
        let ranks: BTreeSet<u32> = members.iter().map(|member| member.rank).collect();
        assert_eq!(ranks, (0..size as u32).collect(), "ranks in {name}");
        for member in &members {
            assert_eq!(member.identity, members[0].identity, "identity of {name}");
            assert_eq!(member.size as usize, size, "size of {name}");
            let source = if size == 1 {
                IdentitySource::SelfOnly
            } else {
                IdentitySource::KeyAndBlob
            };
            assert_eq!(member.identity_source, source, "{name}");
        }
        if let Some(other) = identities.insert(members[0].identity, name) {
            panic!("{name} and {other} have the same identity");
        }
    }
    let all: usize = logs.iter().map(|recorded| recorded.log.communicators.len()).sum();
    assert_eq!(all, sizes.iter().map(|(_, size)| size).sum::<usize>());
}

#[test]
fn every_operation_is_recorded_as_it_happened() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_all.cc") else {
        return;
    };
    // With seven members the counts need two continuation records.
    for size in [2, 3, 5, 7] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let finished = Job::program(&program, size)
            .record_into(directory.path())
            .run(&turn);
        finished.expect_status(0);
        let logs = recorded::read_ranks(directory.path(), &finished.pids);
        for (rank, recorded) in logs.iter().enumerate() {
            recorded.expect_whole();
            let lines = finished.truth(rank);
            let expected: Vec<Done> = lines
                .iter()
                .filter(|line| !truth::is_message(line))
                .map(|line| reported(line, rank, size))
                .collect();
            assert_eq!(expected.len(), 13);
            let got = collectives(recorded);
            for (got, expected) in got.iter().zip(&expected) {
                assert_eq!(got, expected, "rank {rank} of {size}");
            }
            assert_eq!(got.len(), expected.len(), "rank {rank} of {size}");

            assert_eq!(
                recorded.messages(),
                truth::messages(&lines),
                "rank {rank} of {size}"
            );
            for call in recorded.calls() {
                assert_eq!(recorded.communicator(call).rank as usize, rank);
            }
            // The creation of the communicator is recorded too, but is no operation.
            let built = recorded.of_kind(RecordKind::Call).count() - recorded.calls().count();
            assert_eq!(built, 1);
            recorded.expect_durations_below(finished.duration);
        }
        expect_identities(&logs, &[("all", size)]);
    }
}

#[test]
fn two_threads_in_swapped_order_are_paired_correctly() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_async.cc") else {
        return;
    };
    for size in [2, 3, 5] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let finished = Job::program(&program, size)
            .record_into(directory.path())
            .run(&turn);
        finished.expect_status(0);
        let logs = recorded::read_ranks(directory.path(), &finished.pids);
        // Key -> size that each member recorded.
        let mut instances: BTreeMap<([u8; 16], u8, u32, u32), Vec<u64>> = BTreeMap::new();
        let mut sizes = BTreeMap::new();
        for (rank, recorded) in logs.iter().enumerate() {
            recorded.expect_whole();
            let mut got: Vec<(String, u64, u64)> = Vec::new();
            for call in recorded.calls() {
                assert_eq!(
                    call.flags & (FLAG_FAILED | FLAG_SEQUENCE_UNKNOWN | FLAG_BYTES_UNKNOWN),
                    0
                );
                let communicator = recorded.communicator(call);
                let key = (communicator.identity, call.operation, call.tag, call.sequence);
                instances.entry(key).or_default().push(call.bytes);
                sizes.insert(communicator.identity, communicator.size as usize);
                got.push((communicator.name.clone(), u64::from(call.tag), call.bytes));
            }
            let mut expected: Vec<(String, u64, u64)> = finished
                .truth(rank)
                .iter()
                .map(|line| {
                    (
                        truth::communicator(line),
                        number(line, "tag"),
                        number(line, "bytes"),
                    )
                })
                .collect();
            got.sort();
            expected.sort();
            assert_eq!(got, expected, "rank {rank} of {size}");
            // Two threads of the program, in any starting order.
            let threads: BTreeSet<u32> = recorded
                .records
                .iter()
                .filter(|held| held.record.operation == Operation::AllReduce as u8)
                .map(|held| held.thread)
                .collect();
            assert_eq!(threads.len(), 2);
        }
        // 60 pairs, distributed over three communicators.
        assert_eq!(instances.len(), 120, "{size} ranks");
        for ((identity, _, tag, sequence), bytes) in &instances {
            assert_eq!(bytes.len(), sizes[identity], "tag {tag}, use {sequence}: members");
            let expected = u64::from(16 + tag) * 4;
            assert!(
                bytes.iter().all(|&bytes| bytes == expected),
                "tag {tag}: {bytes:?}"
            );
        }
        expect_identities(
            &logs,
            &[
                ("everyone", size),
                ("all but last", size - 1),
                ("all but first", size - 1),
            ],
        );
    }
}

/// One end of a message inside a collective.
#[derive(Clone, Copy)]
struct End {
    is_send: bool,
    /// Lower bound of the send time, or upper bound of the arrival time, in ticks.
    at_ticks: u64,
}

/// Checks the messages that are kept as clock evidence: both ends keep the same messages, and on one clock none arrives
/// before it was sent. This includes operations in which several peers send into one buffer, for which Gloo does not
/// report the sender of a completion.
#[test]
fn evidence_about_clocks_holds_on_one_clock() {
    let turn = turn::take();
    for (source, size) in [("gloo_all.cc", 4), ("gloo_async.cc", 3)] {
        let Some(program) = compile::gloo(source) else {
            return;
        };
        let directory = tempfile::tempdir().expect("a temporary directory");
        let finished = Job::program(&program, size)
            .record_into(directory.path())
            .run(&turn);
        finished.expect_status(0);
        // Communicator, sender, receiver, collective, slot and number.
        type Key = ([u8; 16], i32, i32, u64, u32, u64, u32);
        let mut messages: BTreeMap<Key, Vec<End>> = BTreeMap::new();
        for recorded in recorded::read_ranks(directory.path(), &finished.pids) {
            for record in recorded.of_kind(RecordKind::Evidence) {
                let communicator = recorded.communicator(record);
                let own = communicator.rank as i32;
                let is_send = record.operation == Operation::Send as u8;
                let (sender, receiver) = if is_send {
                    (own, record.peer)
                } else {
                    (record.peer, own)
                };
                let at_ticks = if is_send || record.sequence > 0 {
                    record.enter_ticks
                } else {
                    record.leave_ticks
                };
                let key = (
                    communicator.identity,
                    sender,
                    receiver,
                    record.object,
                    record.tag,
                    record.aux,
                    record.sequence,
                );
                messages.entry(key).or_default().push(End { is_send, at_ticks });
            }
        }
        let (mut whole, mut later) = (0, 0);
        for (key, ends) in &messages {
            let [one, other] = &ends[..] else { continue };
            assert_ne!(one.is_send, other.is_send, "{key:?}");
            let (sent, arrived) = if one.is_send { (one, other) } else { (other, one) };
            // Segments round ticks.
            assert!(
                arrived.at_ticks + 512 >= sent.at_ticks,
                "{key:?} arrived before it was sent"
            );
            whole += 1;
            later += u32::from(key.6 > 0);
        }
        println!(
            "{source}: {whole} of {} messages have both ends, {later} are not the first",
            messages.len()
        );
        assert!(
            whole * 10 >= messages.len() * 7 && later > 0,
            "{whole} of {}",
            messages.len()
        );
    }
}

/// Constructors of linked libraries run before the one of a preloaded library. Their calls and communicators are
/// recorded like all others.
#[test]
fn a_constructor_of_a_linked_library_may_communicate() {
    let turn = turn::take();
    let Some(program) = compile::gloo_with_library("gloo_early.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let finished = Job::program(&program, 2).record_into(directory.path()).run(&turn);
    finished.expect_status(0);
    for (rank, recorded) in recorded::read_ranks(directory.path(), &finished.pids)
        .iter()
        .enumerate()
    {
        recorded.expect_whole();
        assert_eq!(recorded.calls().count(), 10, "rank {rank}");
        for call in recorded.calls() {
            assert_eq!(recorded.communicator(call).rank as usize, rank);
        }
    }
}
