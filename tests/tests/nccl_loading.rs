//! Tests the ways in which a program loads NCCL.
//!
//! Each call reaches the library to which its caller is linked. It is recorded if a preload can intercept it.

use rankscope_ranklog::record::RecordKind;
use rankscope_tests::job::Job;
use rankscope_tests::process;
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::{compile, turn};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs the loader with and without the preload. Its output must be the same. Returns the logs.
fn run(arguments: &[&Path]) -> Option<Vec<Recorded>> {
    let program = compile::c("nccl_loader.c", &["-ldl"])?;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let live = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
    let outputs = [false, true].map(|preloaded| {
        let mut command = Command::new(&program);
        command.args(arguments);
        if preloaded {
            process::preload(&mut command, Some(directory.path()));
            command.env("RANKSCOPE_LIVE_DIR", live.path());
        } else {
            process::clean(&mut command);
        }
        let ended = process::run(command, Duration::from_secs(60));
        assert_eq!(
            ended.code(),
            0,
            "{arguments:?}: {}{}",
            ended.text(),
            ended.complaints()
        );
        let mut lines: Vec<String> = ended.text().lines().map(str::to_owned).collect();
        // Parent and child print in any order.
        lines.sort();
        lines
    });
    assert_eq!(outputs[0], outputs[1], "{arguments:?}");
    Some(recorded::read_all(directory.path()))
}

fn calls(recorded: &Recorded) -> u64 {
    recorded.of_kind(RecordKind::Enqueue).count() as u64 + recorded.lost(RecordKind::Enqueue)
}

#[test]
fn a_library_in_its_own_scope_is_recorded() {
    let turn = turn::take();
    let Some(user) = compile::nccl_user(None) else {
        return;
    };
    let Some(logs) = run(&[Path::new("local"), &user]) else {
        return;
    };
    assert_eq!(logs.iter().map(calls).collect::<Vec<_>>(), [20]);
    assert_eq!(logs[0].log.communicators.len(), 2);
    drop(turn);
}

#[test]
fn callers_that_bypass_the_preload_are_not_affected() {
    let turn = turn::take();
    let Some(user) = compile::nccl_user(None) else {
        return;
    };
    let Some(library) = compile::nccl_double().map(|directory| directory.join("libnccl.so.2")) else {
        return;
    };
    for arguments in [[Path::new("deep"), &user], [Path::new("symbol"), &library]] {
        let Some(logs) = run(&arguments) else { return };
        // None of rankscope's wrappers was called: there is no file.
        assert!(logs.is_empty(), "{arguments:?}");
    }
    drop(turn);
}

#[test]
fn each_caller_reaches_its_own_copy() {
    let turn = turn::take();
    let (Some(one), Some(other)) = (compile::nccl_user(None), compile::nccl_user(Some("other"))) else {
        return;
    };
    let Some(logs) = run(&[Path::new("copies"), &one, &other]) else {
        return;
    };
    assert_eq!(logs.iter().map(calls).collect::<Vec<_>>(), [7 + 8 + 9]);
    drop(turn);
}

#[test]
fn a_forked_child_and_an_executed_program_have_their_own_logs() {
    let turn = turn::take();
    let Some(user) = compile::nccl_user(None) else {
        return;
    };
    for (how, expected) in [("fork", [5 + 6, 7]), ("exec", [5, 20])] {
        let Some(logs) = run(&[Path::new(how), &user]) else {
            return;
        };
        let mut counts: Vec<u64> = logs.iter().map(calls).collect();
        counts.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(counts, expected, "{how}");
    }
    drop(turn);
}

#[test]
fn a_thousand_communicators_are_distinguished_though_addresses_are_reused() {
    let turn = turn::take();
    let Some(user) = compile::nccl_user(None) else {
        return;
    };
    let Some(logs) = run(&[Path::new("many"), &user]) else {
        return;
    };
    let [recorded] = &logs[..] else {
        panic!("one process, {} logs", logs.len())
    };
    assert_eq!(calls(recorded), 5000);
    assert_eq!(recorded.log.communicators.len(), 2000);
    let identities: BTreeSet<[u8; 16]> = recorded
        .log
        .communicators
        .values()
        .map(|communicator| communicator.identity)
        .collect();
    assert_eq!(identities.len(), 2000);
    assert_eq!(recorded.log.communicator_ends.len(), 2000);
    // Each communicator counts from 0.
    for record in recorded.of_kind(RecordKind::Enqueue) {
        assert_eq!(record.bytes, 4 * (1 + u64::from(record.sequence)), "{record:?}");
    }
    drop(turn);
}

#[test]
fn a_rust_program_is_recorded_from_both_sides() {
    let turn = turn::take();
    let Some(program) = compile::nccl_rust("nccl_rust.rs") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::program(&program, 2)
        .arg("25")
        .env("NCCL_DOUBLE_PROFILER", "5")
        .record_into(directory.path())
        .run(&turn);
    finished.expect_status(0);
    for recorded in recorded::read_ranks(directory.path(), &finished.pids) {
        recorded.expect_whole();
        let mut bytes: Vec<u64> = recorded
            .of_kind(RecordKind::Enqueue)
            .map(|record| record.bytes)
            .collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..25).map(|call| 8 * (10 + call)).collect::<Vec<u64>>());
        let on_device: BTreeSet<u32> = recorded
            .of_kind(RecordKind::Device)
            .map(|record| record.sequence)
            .collect();
        assert_eq!(on_device, (0..25).collect());
    }
    drop(turn);
}
