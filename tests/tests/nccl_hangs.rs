//! Verdicts on jobs that hang on NCCL: an operation that a rank never enqueued, and one that all have enqueued and a device
//! does not run. NCCL and the device are test doubles.

use rankscope_formats::status::{HangKind, HangVerdict, Health, Status};
use rankscope_tests::job::{Job, Running};
use rankscope_tests::{compile, process, results, turn};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const RANKS: usize = 3;
/// Steps before the fault. Each has an all-reduce and an all-gather.
const STEPS: u64 = 40;

/// Versions of the plugin's interface that report when a device runs an operation.
const WITH_COMPLETIONS: [u32; 3] = [4, 5, 6];

/// Starts the job, and returns the status of it after it hangs for some seconds.
fn status_of_hanging(fault: &str, version: u32) -> Option<Status> {
    let turn = turn::share();
    let program = compile::nccl("nccl_stuck.cc")?;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let meet = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
    let running = Job::program(&program, RANKS)
        .arg(fault)
        .env("NCCL_DOUBLE_PROFILER", version.to_string())
        .env("NCCL_DOUBLE_MEET", meet.path())
        .record_into(directory.path())
        .start(&turn);
    wait_for_fault(&running);
    // The timeout, and the time until completions of the device are in the log.
    sleep(Duration::from_secs(4));
    let run = directory.path().to_str().expect("a plain name");
    let ended = results::rankscope(["status", "--hang-timeout", "2s", "--json", run]);
    for rank in 0..RANKS {
        running.rank(rank).signal(libc::SIGKILL);
    }
    let _ = running.wait();
    let status: Status = serde_json::from_slice(&ended.stdout).expect("a status");
    let expected = if status.health == Health::Hang { 1 } else { 3 };
    assert_eq!(ended.code(), expected, "{}{}", ended.text(), ended.complaints());
    Some(status)
}

fn wait_for_fault(running: &Running) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let reached = |rank: usize| Path::exists(&running.store().join(format!("fault-{rank}")));
    while !(0..RANKS).all(reached) {
        assert!(Instant::now() < deadline, "the job does not reach its fault");
        sleep(Duration::from_millis(20));
    }
}

fn verdict(status: &Status) -> &HangVerdict {
    assert_eq!(status.health, Health::Hang, "{}", status.sentence);
    status.verdicts.first().expect("a verdict")
}

#[test]
fn an_operation_that_a_rank_never_enqueued_names_the_rank() {
    for version in WITH_COMPLETIONS {
        let Some(status) = status_of_hanging("host", version) else {
            return;
        };
        let found = verdict(&status);
        let context = format!("plugin {version}: {found:?}");
        assert_eq!(found.kind, HangKind::UserCode, "{context}");
        assert_eq!(found.culprits, [1], "{context}");
        assert_eq!(found.operation.as_deref(), Some("all-reduce"), "{context}");
        assert_eq!(found.sequence, Some(2 * STEPS), "{context}");
        assert_eq!(found.waiting, [0, 2], "{context}");
    }
}

#[test]
fn an_operation_that_all_have_enqueued_is_pending_on_the_device() {
    for version in WITH_COMPLETIONS {
        let Some(status) = status_of_hanging("device", version) else {
            return;
        };
        let found = verdict(&status);
        let context = format!("plugin {version}: {found:?}");
        assert_eq!(found.kind, HangKind::PendingOnDevice, "{context}");
        assert_eq!(found.operation.as_deref(), Some("all-reduce"), "{context}");
        assert_eq!(found.sequence, Some(2 * STEPS), "{context}");
        assert_eq!(found.waiting, [0, 1, 2], "{context}");
    }
}

#[test]
fn without_completions_of_the_device_nothing_is_claimed() {
    for fault in ["host", "device"] {
        let Some(status) = status_of_hanging(fault, 2) else {
            return;
        };
        assert_eq!(status.health, Health::Unknown, "{}", status.sentence);
        assert_eq!(status.verdicts, [], "{}", status.sentence);
    }
}
