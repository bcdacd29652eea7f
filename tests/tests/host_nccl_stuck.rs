//! Verdicts on jobs that hang on the real NCCL (`tests/host-nccl`).

use rankscope_formats::status::{HangKind, Health, Status};
use rankscope_tests::host_nccl::HostNccl;
use rankscope_tests::results;
use rankscope_tests::turn::{self, Turn};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const RANKS: usize = 3;
/// Steps before the fault. Each has an all-reduce on one communicator and an all-gather on another.
const STEPS: u64 = 20;

/// Returns the status of a job some seconds after rank 1 did something else than its peers.
fn status_of_stuck(turn: &Turn, nccl: &HostNccl, case: &str) -> Status {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let running = nccl.job(RANKS, [case]).record_into(directory.path()).start(turn);
    let deadline = Instant::now() + Duration::from_secs(60);
    let reached = |rank: usize| Path::exists(&running.store().join(format!("fault.{rank}")));
    while !(0..RANKS).all(reached) {
        assert!(Instant::now() < deadline, "{case} does not reach its fault");
        sleep(Duration::from_millis(20));
    }
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
    status
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
