//! Verdicts on jobs that hang on NCCL: an operation that a rank never enqueued, and one that all have enqueued and a device
//! does not run. NCCL and the device are test doubles.

use rankscope_formats::status::{HangKind, HangVerdict, Health, Status};
use rankscope_tests::hung::status_after_fault;
use rankscope_tests::job::Job;
use rankscope_tests::{compile, process, turn};

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
    Some(status_after_fault(running, directory.path(), RANKS, |rank| {
        format!("fault-{rank}")
    }))
}

fn verdict(status: &Status) -> &HangVerdict {
    assert_eq!(status.health, Health::Hang, "{}", status.sentence);
    status.verdicts.first().expect("a verdict")
}

#[test]
fn an_operation_that_a_rank_never_enqueued_names_the_rank() {
    turn::side_by_side(WITH_COMPLETIONS, |version| {
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
    });
}

#[test]
fn an_operation_that_all_have_enqueued_is_pending_on_the_device() {
    turn::side_by_side(WITH_COMPLETIONS, |version| {
        let Some(status) = status_of_hanging("device", version) else {
            return;
        };
        let found = verdict(&status);
        let context = format!("plugin {version}: {found:?}");
        assert_eq!(found.kind, HangKind::PendingOnDevice, "{context}");
        assert_eq!(found.operation.as_deref(), Some("all-reduce"), "{context}");
        assert_eq!(found.sequence, Some(2 * STEPS), "{context}");
        assert_eq!(found.waiting, [0, 1, 2], "{context}");
    });
}

#[test]
fn without_completions_of_the_device_nothing_is_claimed() {
    turn::side_by_side(["host", "device"], |fault| {
        let Some(status) = status_of_hanging(fault, 2) else {
            return;
        };
        assert_eq!(status.health, Health::Unknown, "{}", status.sentence);
        assert_eq!(status.verdicts, [], "{}", status.sentence);
    });
}
