//! Verdicts on jobs made by hand: for each kind, the ranks, the communicator and the number that it must name.

use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::status::{Confidence, HangKind, HangVerdict, Health, ProcessState, Status};
use rankscope_hang::document::document;
use rankscope_hang::ending::{Ending, EndingKind};
use rankscope_hang::patience::{History, Limits};
use rankscope_hang::process::ProcessFacts;
use rankscope_hang::verdict::verdicts;
use rankscope_hang::view::{
    BlockedThread, Call, Communicator, Completed, LogState, Position, Rank, Recent, Step, View,
};
use rankscope_hang::waits::Waits;
use rankscope_ranklog::record::FLAG_FAILED;
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

const SECOND_NS: i64 = 1_000_000_000;
const NOW_NS: i64 = 1000 * SECOND_NS;
const LIMITS: Limits = Limits {
    timeout_ns: 10 * SECOND_NS,
    busy_timeout_ns: 100 * SECOND_NS,
};
const WORLD: u32 = 0;

fn ending(kind: EndingKind, words: &str) -> Ending {
    let words = words.to_owned();
    Ending { kind, words }
}

fn rank(number: u32) -> Rank {
    Rank {
        name: format!("rank {number}"),
        number: Some(number),
        world: Some(0),
        host: "host".to_owned(),
        pid: 100 + number,
        nonce: u64::from(number),
        start_time: None,
        launch: None,
        live: None,
        log: format!("{number}.rslog"),
        log_state: LogState::Open,
        process: ProcessFacts::of_state(ProcessState::Running),
        ending: None,
        calls: Vec::new(),
        blocked: Vec::new(),
        recent: FxHashMap::default(),
        order: FxHashMap::default(),
        before: None,
        last_sign_ns: NOW_NS,
        last_record_ns: NOW_NS - 30 * SECOND_NS,
        is_busy: Some(false),
        worked_ns: None,
    }
}

/// A job of this many ranks with a communicator of all of them.
fn job(ranks: u32) -> View {
    let mut view = View {
        now_ns: NOW_NS,
        taken_unix_ns: NOW_NS,
        ranks: (0..ranks).map(rank).collect(),
        missing: Vec::new(),
        communicators: Vec::new(),
        notes: Vec::new(),
    };
    group(&mut view, Library::Gloo, 0..ranks, "world");
    view
}

fn group(view: &mut View, library: Library, ranks: impl IntoIterator<Item = u32>, name: &str) -> u32 {
    view.communicators.push(Communicator {
        name: name.to_owned(),
        library,
        members: ranks.into_iter().map(|rank| Some(RankIndex(rank))).collect(),
    });
    view.communicators.len() as u32 - 1
}

fn call(communicator: u32, operation: Operation, position: Position, seconds: i64) -> Call {
    Call {
        communicator: CommunicatorId(communicator),
        position,
        operation,
        bytes: Some(4096),
        element_bytes: 4,
        flags: 0,
        peer: -1,
        since_ns: NOW_NS - seconds * SECOND_NS,
        is_on_device: false,
        after: None,
    }
}

fn collective(communicator: u32, number: u32, seconds: i64) -> Call {
    call(
        communicator,
        Operation::AllReduce,
        Position::Numbered(number),
        seconds,
    )
}

/// Lets ranks wait in a call.
fn wait(view: &mut View, ranks: impl IntoIterator<Item = u32>, call: &Call) {
    for rank in ranks {
        let rank = &mut view.ranks[rank as usize];
        rank.calls.push(call.clone());
        if !call.is_on_device {
            rank.blocked.push(BlockedThread {
                thread_id: rank.pid,
                since_ns: call.since_ns,
                what: "work-wait".to_owned(),
                is_connecting: false,
            });
        }
    }
}

/// Lets ranks have completed all operations of a communicator before `number`.
fn completed_before(view: &mut View, ranks: impl IntoIterator<Item = u32>, communicator: u32, number: u32) {
    for rank in ranks {
        let recent = view.ranks[rank as usize]
            .recent
            .entry(CommunicatorId(communicator))
            .or_default();
        for number in number.saturating_sub(5)..number {
            let call = collective(communicator, number, 60);
            recent.called_up_to = recent.called_up_to.max(Some(number));
            recent.last = Some(Completed {
                position: call.position,
                operation: call.operation,
                at_ns: call.since_ns + 1_000_000,
            });
            recent.longest_ns = 1_000_000;
            recent.add_completed(call);
        }
    }
}

fn judge(view: &View) -> Status {
    judge_with(view, &History::default())
}

fn judge_with(view: &View, history: &History) -> Status {
    let waits = Waits::of(view, 0);
    let verdicts = verdicts(view, &waits, history, LIMITS);
    document(view, &waits, verdicts, &[], LIMITS.timeout_ns)
}

fn first(status: &Status) -> &HangVerdict {
    status
        .verdicts
        .first()
        .unwrap_or_else(|| panic!("no verdict: {}", status.sentence))
}

/// Asserts kind, culprits, communicator and number of the first verdict.
#[track_caller]
fn assert_verdict(status: &Status, kind: HangKind, culprits: &[u32], communicator: &str, number: u64) {
    let verdict = first(status);
    let named = verdict
        .communicator
        .map(|at| status.communicators[at as usize].name.as_str());
    assert_eq!(
        (verdict.kind, &verdict.culprits[..], named, verdict.sequence),
        (kind, culprits, Some(communicator), Some(number)),
        "{}",
        verdict.sentence
    );
    let expected = if kind == HangKind::SlowNotStuck {
        Health::Healthy
    } else {
        Health::Hang
    };
    assert_eq!(status.health, expected);
    assert!(!verdict.sentence.contains("  ") && verdict.sentence.ends_with('.'));
}

#[test]
fn a_job_without_long_waits_is_healthy() {
    let mut view = job(4);
    view.ranks[0].last_record_ns = NOW_NS;
    completed_before(&mut view, 0..4, WORLD, 7);
    wait(&mut view, 0..3, &collective(WORLD, 7, 3));
    let status = judge(&view);
    assert_eq!((status.health, status.verdicts.len()), (Health::Healthy, 0));
    assert_eq!(
        status.communicators[0]
            .pending
            .as_ref()
            .map(|pending| pending.missing.clone()),
        Some(vec![3])
    );
}

#[test]
fn a_rank_in_its_own_code_is_named() {
    let mut view = job(4);
    completed_before(&mut view, 0..4, WORLD, 7);
    wait(&mut view, [0, 1, 3], &collective(WORLD, 7, 20));
    let status = judge(&view);
    assert_verdict(&status, HangKind::UserCode, &[2], "world", 7);
    assert_eq!(first(&status).confidence, Confidence::High);
    assert_eq!(first(&status).waiting, [0, 1, 3]);
    assert_eq!(status.groups[0].shown, "rank 2");
    assert_eq!(status.groups[1].shown, "ranks 0, 1, 3");
}

#[test]
fn a_rank_that_works_gets_more_time() {
    let mut view = job(2);
    view.ranks[1].is_busy = Some(true);
    wait(&mut view, [0], &collective(WORLD, 7, 20));
    assert_verdict(&judge(&view), HangKind::SlowNotStuck, &[1], "world", 7);
    let mut view = job(2);
    view.ranks[1].is_busy = Some(true);
    wait(&mut view, [0], &collective(WORLD, 7, 120));
    assert_verdict(&judge(&view), HangKind::UserCode, &[1], "world", 7);
}

#[test]
fn a_rank_that_worked_a_moment_ago_gets_more_time_too() {
    let mut history = History::default();
    let mut earlier = job(2);
    earlier.taken_unix_ns -= 5 * SECOND_NS;
    earlier.now_ns -= 5 * SECOND_NS;
    earlier.ranks[1].is_busy = Some(true);
    earlier.ranks[1].worked_ns = Some(earlier.now_ns);
    history.add(&earlier, &Waits::of(&earlier, 0));
    let mut view = job(2);
    wait(&mut view, [0], &collective(WORLD, 7, 20));
    assert_verdict(
        &judge_with(&view, &history),
        HangKind::SlowNotStuck,
        &[1],
        "world",
        7,
    );
}

#[test]
fn a_breakpoint_gets_more_time() {
    let mut view = job(2);
    view.ranks[1].process.waits_for_input = true;
    wait(&mut view, [0], &collective(WORLD, 7, 20));
    assert_verdict(&judge(&view), HangKind::SlowNotStuck, &[1], "world", 7);
    let mut view = job(2);
    view.ranks[1].process.state = ProcessState::Stopped;
    view.ranks[1].process.is_traced = true;
    wait(&mut view, [0], &collective(WORLD, 7, 20));
    assert_verdict(&judge(&view), HangKind::SlowNotStuck, &[1], "world", 7);
}

#[test]
fn a_wait_that_this_job_has_shown_before_is_slow() {
    let mut view = job(2);
    completed_before(&mut view, 0..2, WORLD, 7);
    wait(&mut view, [0], &collective(WORLD, 7, 20));
    let of_rank = view.ranks[0]
        .recent
        .get_mut(&CommunicatorId(WORLD))
        .expect("recent");
    of_rank.longest_ns = 18 * SECOND_NS;
    let status = judge(&view);
    assert_verdict(&status, HangKind::SlowNotStuck, &[1], "world", 7);
    assert!(
        first(&status).sentence.contains("18 s"),
        "{}",
        first(&status).sentence
    );
}

#[test]
fn time_in_which_nobody_could_look_does_not_count() {
    let mut view = job(2);
    wait(&mut view, [0], &collective(WORLD, 7, 20));
    let mut history = History::default();
    history.add_gap(NOW_NS - 15 * SECOND_NS, NOW_NS - SECOND_NS);
    let status = judge_with(&view, &history);
    assert_eq!(status.verdicts, [], "the machine was asleep");
}

#[test]
fn a_thread_that_listens_for_ever_does_not_make_a_hang() {
    let mut view = job(2);
    let listener = group(&mut view, Library::Gloo, 0..2, "listener");
    wait(&mut view, [0], &collective(listener, 0, 500));
    completed_before(&mut view, 0..2, WORLD, 7);
    let recent = view.ranks[0]
        .recent
        .get_mut(&CommunicatorId(WORLD))
        .expect("recent");
    recent.last = recent.last.map(|last| Completed {
        at_ns: NOW_NS - SECOND_NS,
        ..last
    });
    assert_eq!(judge(&view).verdicts, []);
    // Once it completes nothing else, it is stuck.
    let recent = view.ranks[0]
        .recent
        .get_mut(&CommunicatorId(WORLD))
        .expect("recent");
    recent.last = recent.last.map(|last| Completed {
        at_ns: NOW_NS - 20 * SECOND_NS,
        ..last
    });
    assert_verdict(&judge(&view), HangKind::UserCode, &[1], "listener", 0);
}

#[test]
fn processes_that_ended_or_were_stopped_are_named() {
    for (state, kind) in [
        (ProcessState::Gone, HangKind::ProcessGone),
        (ProcessState::Stopped, HangKind::Stopped),
    ] {
        let mut view = job(4);
        view.ranks[3].process.state = state;
        view.ranks[3].ending = Some(ending(EndingKind::BySignal, "killed by SIGKILL"));
        wait(&mut view, 0..3, &collective(WORLD, 7, 20));
        let status = judge(&view);
        assert_verdict(&status, kind, &[3], "world", 7);
        assert!(first(&status).evidence[0].contains("SIGKILL"));
    }
}

#[test]
fn a_process_that_is_stopped_inside_an_operation_is_named() {
    let mut view = job(3);
    view.ranks[1].process.state = ProcessState::Stopped;
    wait(&mut view, 0..3, &collective(WORLD, 7, 20));
    assert_verdict(&judge(&view), HangKind::Stopped, &[1], "world", 7);
}

#[test]
fn a_job_that_is_stopped_as_a_whole_is_not_stuck() {
    let mut view = job(3);
    for rank in &mut view.ranks {
        rank.process.state = ProcessState::Stopped;
    }
    wait(&mut view, 0..2, &collective(WORLD, 7, 20));
    wait(&mut view, 2..3, &collective(WORLD, 7, 19));
    assert_eq!(judge(&view).health, Health::Healthy);
}

#[test]
fn calls_that_disagree_name_the_minority() {
    let variants: [(Call, &str); 4] = [
        (
            Call {
                bytes: Some(8192),
                ..collective(WORLD, 7, 20)
            },
            "sizes",
        ),
        (
            Call {
                element_bytes: 8,
                ..collective(WORLD, 7, 20)
            },
            "element sizes",
        ),
        (
            call(WORLD, Operation::Broadcast, Position::Numbered(7), 20),
            "operations",
        ),
        (
            Call {
                peer: 2,
                ..call(WORLD, Operation::Reduce, Position::Numbered(7), 20)
            },
            "roots",
        ),
    ];
    for (other, what) in variants {
        let mut view = job(4);
        let usual = Call {
            peer: if what == "roots" { 0 } else { -1 },
            operation: if what == "roots" {
                Operation::Reduce
            } else {
                Operation::AllReduce
            },
            ..collective(WORLD, 7, 20)
        };
        wait(&mut view, [0, 2, 3], &usual);
        wait(&mut view, [1], &other);
        let status = judge(&view);
        assert_verdict(&status, HangKind::Mismatch, &[1], "world", 7);
        assert!(
            first(&status).sentence.contains(what),
            "{}",
            first(&status).sentence
        );
    }
}

#[test]
fn a_member_that_completed_a_call_with_other_arguments_is_named() {
    let mut view = job(3);
    let broadcast = |peer| Call {
        peer,
        ..call(WORLD, Operation::Broadcast, Position::Numbered(7), 20)
    };
    wait(&mut view, [0, 2], &broadcast(0));
    let recent = view.ranks[1].recent.entry(CommunicatorId(WORLD)).or_default();
    recent.called_up_to = Some(7);
    recent.add_completed(broadcast(1));
    assert_verdict(&judge(&view), HangKind::Mismatch, &[1], "world", 7);
}

#[test]
fn of_two_sides_of_one_size_the_one_that_does_something_new_is_named() {
    let mut view = job(2);
    let usual = Step {
        communicator: CommunicatorId(WORLD),
        operation: Operation::AllReduce as u8,
    };
    for rank in &mut view.ranks {
        rank.before = Some((Some(usual), usual));
        rank.order.insert(((Some(usual), usual), usual), 10);
    }
    wait(&mut view, [1], &collective(WORLD, 7, 20));
    wait(
        &mut view,
        [0],
        &call(WORLD, Operation::Broadcast, Position::Numbered(7), 20),
    );
    let status = judge(&view);
    assert_verdict(&status, HangKind::Mismatch, &[0], "world", 7);
    assert_eq!(first(&status).confidence, Confidence::High);
}

#[test]
fn calls_of_a_program_that_uses_gloo_itself_disagree_too() {
    let mut view = job(4);
    let used = |operation: Operation, sequence| {
        let position = Position::Used {
            operation: operation as u8,
            tag: 0,
            sequence,
        };
        call(WORLD, operation, position, 20)
    };
    wait(&mut view, [0, 1, 3], &used(Operation::AllReduce, 5));
    wait(&mut view, [2], &used(Operation::Barrier, 2));
    let status = judge(&view);
    assert_eq!(first(&status).kind, HangKind::Mismatch, "{}", status.sentence);
    assert_eq!(first(&status).culprits, [2]);
}

#[test]
fn two_communicators_in_another_order_are_a_circle() {
    let mut view = job(4);
    let pair = group(&mut view, Library::Gloo, [0, 1], "the group of ranks 0, 1");
    wait(&mut view, [0, 2, 3], &collective(WORLD, 7, 20));
    wait(&mut view, [1], &collective(pair, 3, 20));
    let status = judge(&view);
    assert_verdict(&status, HangKind::CrossedOrder, &[1], "world", 7);
    let evidence = first(&status).evidence.join(" ");
    assert!(evidence.contains("skipped"), "{evidence}");
    assert!(evidence.contains("the group of ranks 0, 1"), "{evidence}");
}

#[test]
fn a_wait_is_followed_through_other_communicators_to_its_cause() {
    let mut view = job(8);
    let pairs: Vec<u32> = (0..4)
        .map(|pair| {
            group(
                &mut view,
                Library::Gloo,
                [2 * pair, 2 * pair + 1],
                &format!("pair {pair}"),
            )
        })
        .collect();
    // Ranks 0 to 5 wait for rank 6, which waits for rank 7 in their pair.
    wait(&mut view, 0..6, &collective(WORLD, 7, 20));
    wait(&mut view, [6], &collective(pairs[3], 9, 25));
    let status = judge(&view);
    assert_verdict(&status, HangKind::UserCode, &[7], "pair 3", 9);
    assert_eq!(first(&status).waiting, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn an_operation_that_all_have_called_does_not_move() {
    let mut view = job(3);
    wait(&mut view, 0..3, &collective(WORLD, 7, 20));
    assert_verdict(&judge(&view), HangKind::Transfer, &[], "world", 7);
}

#[test]
fn on_a_device_enqueued_and_never_enqueued_differ() {
    let nccl = |number| Call {
        is_on_device: true,
        ..collective(1, number, 20)
    };
    let mut view = job(4);
    group(&mut view, Library::Nccl, 0..4, "model");
    wait(&mut view, 0..4, &nccl(7));
    assert_verdict(&judge(&view), HangKind::PendingOnDevice, &[], "model", 7);
    let mut view = job(4);
    group(&mut view, Library::Nccl, 0..4, "model");
    wait(&mut view, [0, 1, 3], &nccl(7));
    assert_verdict(&judge(&view), HangKind::UserCode, &[2], "model", 7);
}

#[test]
fn on_a_device_only_the_first_operation_of_a_queue_is_a_cause() {
    let mut view = job(3);
    let model = group(&mut view, Library::Nccl, 0..3, "model");
    let shards = group(&mut view, Library::Nccl, 0..3, "shards");
    for (communicator, number, seconds) in [(model, 7, 30), (shards, 3, 29), (model, 8, 28)] {
        let call = Call {
            is_on_device: true,
            ..collective(communicator, number, seconds)
        };
        wait(&mut view, 0..3, &call);
    }
    let status = judge(&view);
    assert_verdict(&status, HangKind::PendingOnDevice, &[], "model", 7);
    assert_eq!(status.verdicts.len(), 1);
}

#[test]
fn two_communicators_that_were_enqueued_in_another_order_are_a_circle() {
    let mut view = job(3);
    let model = group(&mut view, Library::Nccl, 0..3, "model");
    let shards = group(&mut view, Library::Nccl, 0..3, "shards");
    // What the ranks enqueued after the circle is no cause.
    for (ranks, communicator, number, seconds) in [
        ([0, 2].as_slice(), model, 7, 30),
        (&[0, 2], shards, 3, 29),
        (&[1], shards, 3, 30),
        (&[1], model, 7, 29),
        (&[0, 1, 2], model, 8, 28),
        (&[0, 1, 2], shards, 4, 27),
    ] {
        let call = Call {
            is_on_device: true,
            ..collective(communicator, number, seconds)
        };
        wait(&mut view, ranks.iter().copied(), &call);
    }
    let status = judge(&view);
    let found = first(&status);
    assert_eq!(found.kind, HangKind::CrossedOrder, "{}", found.sentence);
    assert_eq!(found.confidence, Confidence::Medium);
    assert_eq!(found.culprits, [1], "{}", found.sentence);
    assert_eq!(found.waiting, [0, 2], "{}", found.sentence);
    assert_eq!(status.verdicts.len(), 1);
    let begun = [
        "Ranks 0, 2 called all-reduce number 7 on model first.",
        "Rank 1 called all-reduce number 3 on shards first.",
    ];
    for sentence in begun {
        assert!(found.evidence.iter().any(|one| one == sentence), "{found:?}");
    }

    // Earlier rounds decide, also against the number of ranks.
    let step = |communicator| Step {
        communicator: CommunicatorId(communicator),
        operation: Operation::AllReduce as u8,
    };
    let before = (Some(step(model)), step(shards));
    for rank in &mut view.ranks {
        rank.order.insert((before, step(shards)), 9);
        rank.calls[0].after = Some(before);
    }
    let status = judge(&view);
    let found = first(&status);
    assert_eq!(found.culprits, [0, 2], "{}", found.sentence);
    assert_eq!(
        found
            .communicator
            .map(|at| status.communicators[at as usize].name.as_str()),
        Some("shards")
    );
}

/// Three ranks on two communicators of NCCL. Rank 1 has enqueued their operations in another order than its peers.
fn crossed_on_devices() -> (View, u32, u32) {
    let mut view = job(3);
    let model = group(&mut view, Library::Nccl, 0..3, "model");
    let shards = group(&mut view, Library::Nccl, 0..3, "shards");
    for (ranks, first, second) in [([0, 2].as_slice(), model, shards), (&[1], shards, model)] {
        for (communicator, seconds) in [(first, 30), (second, 29)] {
            wait(
                &mut view,
                ranks.iter().copied(),
                &on_device(communicator, 7, seconds),
            );
        }
    }
    (view, model, shards)
}

fn on_device(communicator: u32, number: u32, seconds: i64) -> Call {
    Call {
        is_on_device: true,
        ..collective(communicator, number, seconds)
    }
}

#[test]
fn crossed_communicators_on_devices_are_a_cause_only_if_nothing_else_is() {
    let (view, ..) = crossed_on_devices();
    assert_eq!(first(&judge(&view)).kind, HangKind::CrossedOrder);

    // A rank that has called neither is the cause, and its patience counts.
    let (mut view, ..) = crossed_on_devices();
    view.ranks[2].calls.clear();
    view.ranks[2].is_busy = Some(true);
    let status = judge(&view);
    assert_eq!(status.health, Health::Healthy, "{}", status.sentence);
    view.ranks[2].is_busy = Some(false);
    let status = judge(&view);
    assert_verdict(&status, HangKind::UserCode, &[2], "model", 7);
    assert_eq!(status.verdicts.len(), 1);

    // So is a rank that was killed or stopped after it had called both.
    for (state, kind) in [
        (ProcessState::Gone, HangKind::ProcessGone),
        (ProcessState::Stopped, HangKind::Stopped),
    ] {
        let (mut view, ..) = crossed_on_devices();
        view.ranks[2].process = ProcessFacts::of_state(state);
        let status = judge(&view);
        assert_eq!(
            (first(&status).kind, &first(&status).culprits[..]),
            (kind, &[2][..])
        );
        assert!(status.verdicts.iter().all(|found| found.kind == kind));
    }

    // And an operation that all wait for before.
    let (mut view, ..) = crossed_on_devices();
    let other = group(&mut view, Library::Nccl, 0..3, "other");
    wait(&mut view, 0..3, &on_device(other, 3, 40));
    assert_verdict(&judge(&view), HangKind::PendingOnDevice, &[], "other", 3);

    // A device that needs long for such operations is not stuck.
    let (mut view, model, _) = crossed_on_devices();
    completed_before(&mut view, 0..3, model, 7);
    for rank in &mut view.ranks {
        rank.recent
            .get_mut(&CommunicatorId(model))
            .expect("it is used")
            .longest_ns = 60 * SECOND_NS;
    }
    assert_eq!(judge(&view).health, Health::Healthy);
}

#[test]
fn many_crossings_are_one_cause() {
    let (mut view, model, shards) = crossed_on_devices();
    for (ranks, first, second) in [([0, 2].as_slice(), model, shards), (&[1], shards, model)] {
        for (communicator, seconds) in [(first, 28), (second, 27)] {
            wait(
                &mut view,
                ranks.iter().copied(),
                &on_device(communicator, 8, seconds),
            );
        }
    }
    let status = judge(&view);
    assert_eq!(first(&status).kind, HangKind::CrossedOrder);
    assert_eq!(status.verdicts.len(), 1);
}

#[test]
fn calls_of_one_group_have_no_order() {
    let (mut view, ..) = crossed_on_devices();
    for rank in &mut view.ranks {
        rank.calls[1].since_ns = rank.calls[0].since_ns + 500;
    }
    assert_eq!(first(&judge(&view)).kind, HangKind::PendingOnDevice);
}

#[test]
fn a_member_without_a_log_is_reported_with_low_confidence() {
    let mut view = job(3);
    view.communicators[0].members[2] = None;
    view.ranks.truncate(2);
    view.missing = vec![2];
    wait(&mut view, 0..2, &collective(WORLD, 7, 20));
    let status = judge(&view);
    assert_verdict(&status, HangKind::MissingCaller, &[], "world", 7);
    assert_eq!(first(&status).confidence, Confidence::Low);
    assert_eq!(first(&status).culprit_names, ["member 2"]);
}

#[test]
fn a_rank_in_an_unknown_call_is_a_missing_caller() {
    let mut view = job(3);
    wait(&mut view, 0..2, &collective(WORLD, 7, 20));
    view.ranks[2].blocked.push(BlockedThread {
        thread_id: 1,
        since_ns: NOW_NS - 20 * SECOND_NS,
        what: "process-group".to_owned(),
        is_connecting: false,
    });
    assert_verdict(&judge(&view), HangKind::MissingCaller, &[2], "world", 7);
}

#[test]
fn messages_wait_for_their_other_end() {
    let mut view = job(3);
    let message = |operation, sender, receiver| {
        let position = Position::Message {
            sender: MemberIndex(sender),
            receiver: MemberIndex(receiver),
            tag: 0,
        };
        call(WORLD, operation, position, 20)
    };
    // Rank 2 waits for rank 1, which waits for rank 0.
    wait(&mut view, [2], &message(Operation::Receive, 1, 2));
    wait(&mut view, [1], &message(Operation::Receive, 0, 1));
    let status = judge(&view);
    assert_eq!(
        (first(&status).kind, &first(&status).culprits[..]),
        (HangKind::UserCode, &[0][..])
    );
    assert_eq!(first(&status).waiting, [1, 2]);
}

#[test]
fn a_rank_that_has_completed_nothing_on_a_communicator_has_twenty_seconds() {
    let after = |seconds: i64, begun: u32, state: ProcessState| {
        let mut view = job(3);
        completed_before(&mut view, 0..begun, 0, 7);
        view.ranks[2].process.state = state;
        wait(&mut view, [0, 1], &collective(0, 7, seconds));
        first(&judge(&view)).kind
    };
    assert_eq!(after(15, 3, ProcessState::Running), HangKind::UserCode);
    assert_eq!(after(15, 2, ProcessState::Running), HangKind::SlowNotStuck);
    assert_eq!(after(20, 2, ProcessState::Running), HangKind::UserCode);
    // On another host as well.
    assert_eq!(after(15, 2, ProcessState::Remote), HangKind::SlowNotStuck);
}

#[test]
fn the_creation_of_a_communicator_waits_for_all_ranks() {
    let after = |seconds: i64| {
        let mut view = job(4);
        for rank in [0, 1, 3] {
            view.ranks[rank].blocked.push(BlockedThread {
                thread_id: 1,
                since_ns: NOW_NS - seconds * SECOND_NS,
                what: "the creation of a communicator".to_owned(),
                is_connecting: true,
            });
        }
        judge(&view)
    };
    // Twice the timeout: rank 2 may wait for another rank in the launcher's store.
    assert_eq!(first(&after(19)).kind, HangKind::SlowNotStuck);
    let status = after(20);
    assert_eq!(
        (first(&status).kind, &first(&status).culprits[..]),
        (HangKind::UserCode, &[2][..])
    );
    assert!(first(&status).sentence.contains("creation of a communicator"));
}

#[test]
fn of_a_job_that_was_killed_the_waits_at_its_end_count() {
    let mut view = job(3);
    wait(&mut view, [0, 2], &collective(WORLD, 7, 100));
    for rank in &mut view.ranks {
        rank.process.state = ProcessState::Gone;
        rank.last_sign_ns = NOW_NS - 50 * SECOND_NS;
    }
    let status = judge(&view);
    assert_verdict(&status, HangKind::UserCode, &[1], "world", 7);
    assert_eq!(first(&status).for_ns, 50 * SECOND_NS);
    // The rank that ended long before the others was the cause.
    view.ranks[1].last_sign_ns = NOW_NS - 110 * SECOND_NS;
    assert_verdict(&judge(&view), HangKind::ProcessGone, &[1], "world", 7);
}

/// Ends all processes, whose last call failed.
fn fail(view: &mut View, ranks: impl IntoIterator<Item = u32>, call: &Call) {
    for rank in ranks {
        let flags = call.flags | FLAG_FAILED;
        let call = Call {
            flags,
            ..call.clone()
        };
        view.ranks[rank as usize].calls.push(call);
        view.ranks[rank as usize].ending = Some(ending(EndingKind::Failed, "exit status 1"));
    }
    for rank in &mut view.ranks {
        rank.process.state = ProcessState::Gone;
        rank.last_sign_ns = NOW_NS;
    }
}

#[test]
fn of_a_job_that_failed_the_rank_is_named_that_ended_first() {
    let mut view = job(3);
    fail(&mut view, [0, 2], &collective(WORLD, 7, 0));
    let status = judge(&view);
    assert_verdict(&status, HangKind::ProcessGone, &[1], "world", 7);
    assert!(
        status
            .sentence
            .contains("ended first, while its peers were in all-reduce number 7"),
        "{}",
        status.sentence
    );
    // A rank that the launcher ended after the failure is not the reason.
    let mut view = job(4);
    fail(&mut view, [0, 2], &collective(WORLD, 7, 0));
    view.ranks[1].ending = Some(ending(EndingKind::BySignal, "killed by SIGKILL"));
    view.ranks[3].ending = Some(ending(EndingKind::OnRequest, "killed by SIGTERM"));
    assert_verdict(&judge(&view), HangKind::ProcessGone, &[1], "world", 7);
    // Without the endings, it is one of both.
    view.ranks[3].ending = view.ranks[1].ending.clone();
    let status = judge(&view);
    assert_verdict(&status, HangKind::ProcessGone, &[1, 3], "world", 7);
    assert!(
        status.sentence.starts_with("One of ranks 1, 3 ended first"),
        "{}",
        status.sentence
    );
    // A job that succeeded ignored the error.
    let mut view = job(3);
    fail(&mut view, [0, 2], &collective(WORLD, 7, 0));
    for rank in &mut view.ranks {
        rank.ending = Some(Ending::normal());
    }
    assert_eq!(judge(&view).health, Health::Healthy);
    // A stage of a pipeline failed because the one before it did.
    let mut view = job(3);
    let message = |sender, receiver| {
        let position = Position::Message {
            sender: MemberIndex(sender),
            receiver: MemberIndex(receiver),
            tag: 0,
        };
        call(WORLD, Operation::Receive, position, 0)
    };
    fail(&mut view, [1], &message(0, 1));
    fail(&mut view, [2], &message(1, 2));
    let status = judge(&view);
    let found = first(&status);
    assert_eq!(
        (found.kind, &found.culprits[..]),
        (HangKind::ProcessGone, &[0][..])
    );
    assert_eq!(found.waiting, [1, 2]);
}

#[test]
fn of_a_job_that_failed_a_disagreement_counts_however_short_it_was() {
    let mut view = job(3);
    fail(&mut view, [0, 1], &collective(WORLD, 7, 0));
    let other = Call {
        bytes: Some(8192),
        ..collective(WORLD, 7, 0)
    };
    wait(&mut view, [2], &other);
    let status = judge(&view);
    assert_verdict(&status, HangKind::Mismatch, &[2], "world", 7);
    assert_eq!(status.health, Health::Hang);
    // A job that was ended from outside in a short wait did not hang.
    let mut view = job(3);
    wait(&mut view, [0, 1], &collective(WORLD, 7, 0));
    fail(&mut view, [], &other);
    assert_eq!(judge(&view).health, Health::Healthy);
}

#[test]
fn nothing_seen_is_no_health() {
    let mut view = job(2);
    view.ranks.clear();
    assert_eq!(judge(&view).health, Health::Unknown);
    // On NCCL without completions, silence shows nothing.
    let mut view = job(2);
    group(&mut view, Library::Nccl, 0..2, "model");
    for rank in &mut view.ranks {
        rank.recent.insert(CommunicatorId(1), Recent::default());
    }
    assert_eq!(judge(&view).health, Health::Unknown);
}

/// Ranks of large jobs, and the time that a verdict on them takes.
#[test]
fn large_jobs_are_judged_in_a_moment() {
    const RANKS: u32 = 2048;
    let started = Instant::now();
    // Half of the ranks call two communicators in the other order.
    let mut view = job(RANKS);
    let second = group(&mut view, Library::Gloo, 0..RANKS, "second");
    wait(&mut view, (0..RANKS).step_by(2), &collective(WORLD, 7, 20));
    wait(&mut view, (1..RANKS).step_by(2), &collective(second, 3, 20));
    let status = judge(&view);
    assert_eq!(first(&status).kind, HangKind::CrossedOrder);
    assert!(status.groups.len() == 2 && status.groups[0].shown.len() < 100);

    // A chain of messages through all ranks ends at the last one.
    let mut view = job(RANKS);
    for rank in 0..RANKS - 1 {
        let position = Position::Message {
            sender: MemberIndex(rank + 1),
            receiver: MemberIndex(rank),
            tag: 0,
        };
        wait(&mut view, [rank], &call(WORLD, Operation::Receive, position, 20));
    }
    let status = judge(&view);
    assert_eq!(
        (first(&status).kind, &first(&status).culprits[..]),
        (HangKind::UserCode, &[RANKS - 1][..])
    );
    assert_eq!(first(&status).waiting.len(), RANKS as usize - 1);
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });
    assert!(started.elapsed() < limit, "{:?}", started.elapsed());
}
