//! Verdicts on jobs that hang on the real NCCL (`tests/host-nccl`).

use rankscope_formats::status::{HangKind, Health, Status};
use rankscope_tests::host_nccl::HostNccl;
use rankscope_tests::hung::status_after_fault;
use rankscope_tests::turn::{self, Turn};

const RANKS: usize = 3;
/// Steps before the fault. Each has an all-reduce on one communicator and an all-gather on another.
const STEPS: u64 = 20;

/// Returns the status of a job some seconds after rank 1 did something else than its peers.
fn status_of_stuck(turn: &Turn, nccl: &HostNccl, case: &str) -> Status {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let running = nccl.job(RANKS, [case]).record_into(directory.path()).start(turn);
    status_after_fault(running, directory.path(), RANKS, |rank| format!("fault.{rank}"))
}

#[test]
#[ignore = "three minutes: make host-nccl"]
fn what_hangs_on_the_real_nccl_is_named() {
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        for (case, kind, culprits) in [
            ("stuckhost", HangKind::UserCode, [1].as_slice()),
            ("stuckdevice", HangKind::PendingOnDevice, &[]),
            ("stuckorder", HangKind::CrossedOrder, &[1]),
            ("stuckoperation", HangKind::Mismatch, &[1]),
            ("stucksize", HangKind::Mismatch, &[1]),
            ("stuckstop", HangKind::Stopped, &[1]),
            ("stuckkill", HangKind::ProcessGone, &[1]),
        ] {
            let status = status_of_stuck(&turn, nccl, case);
            let context = format!("NCCL {} {case}: {}", nccl.version, status.sentence);
            assert_eq!(status.health, Health::Hang, "{context}");
            let found = status.verdicts.first().expect("a hang has a verdict");
            assert_eq!(found.kind, kind, "{context} {found:?}");
            assert_eq!(found.culprits, culprits, "{context} {found:?}");
            assert_eq!(found.sequence, Some(STEPS), "{context} {found:?}");
            assert_eq!(
                found.operation.as_deref(),
                Some("all-reduce"),
                "{context} {found:?}"
            );
        }
    }
}

#[test]
#[ignore = "half a minute: make host-nccl"]
fn without_device_times_nothing_is_claimed() {
    let turn = turn::take();
    for nccl in HostNccl::all().iter().filter(|nccl| nccl.plugin_version() < 4) {
        for case in ["stuckhost", "stuckdevice"] {
            let status = status_of_stuck(&turn, nccl, case);
            let context = format!("NCCL {} {case}: {}", nccl.version, status.sentence);
            assert_eq!(status.health, Health::Unknown, "{context}");
            assert_eq!(status.verdicts, [], "{context}");
        }
    }
}
