//! Tests several ranks of the real NCCL in one process, and very many calls (`tests/host-nccl`).

use rankscope_formats::session::{InstanceState, OperationRow, OperationState};
use rankscope_tests::host_nccl::calls::calls;
use rankscope_tests::host_nccl::{HostNccl, Run};
use rankscope_tests::recorded::Recorded;
use rankscope_tests::results::integer;
use rankscope_tests::turn;
use serde_json::Value;

/// Maximum difference between two readings of a clock for one event, in nanoseconds.
const STAMPS_NS: i64 = 50_000;

/// Maximum drift of a device's clock, in parts per million. A duration may be off by it.
const DRIFT_PPM: i64 = 200;

/// Returns the largest error of a duration, in nanoseconds.
fn duration_error_ns(duration_ns: i64) -> i64 {
    STAMPS_NS + duration_ns * DRIFT_PPM / 1_000_000
}

/// Asserts that all operations are complete on all ranks, and have the times of the kernels within the stated error.
/// Returns by how much the times are off.
fn expect_timed(run: &Run, session: &Value, process: usize, log: &Recorded, context: &str) -> Vec<i64> {
    let of = |name: &str| integer(session, &format!("/devices/{process}/{name}"));
    assert_eq!([of("without_call"), of("contradictions")], [0; 2], "{context}");
    let error_ns = of("widest_error_ns/value");
    let rows = run.rows(process);
    let is_complete =
        |row: &OperationRow| row.state == OperationState::Completed && row.matched == InstanceState::Complete;
    assert!(rows.iter().all(is_complete), "{context}: {rows:?}");
    let launches = run.launches(process);
    assert_eq!(rows.len(), launches.len(), "{context}");
    let ahead_ns = Run::axis_ahead_ns(log, &rows);
    // Kernels of several devices run concurrently. Each time is late by a bounded amount, and so is the n-th time.
    let in_order = |times: Vec<i64>| {
        let mut times = times;
        times.sort_unstable();
        times
    };
    let found = [
        in_order(rows.iter().map(|row| row.enter_ns).collect()),
        in_order(rows.iter().filter_map(|row| row.leave_ns).collect()),
    ];
    let expected = [
        in_order(launches.iter().map(|(start, _)| start + ahead_ns).collect()),
        in_order(launches.iter().map(|(_, end)| end + ahead_ns).collect()),
    ];
    // The proxies' threads of all ranks share the processors and report late, so the stated error is wide. A duration does
    // not depend on it.
    let durations = [
        in_order(
            rows.iter()
                .filter_map(|row| Some(row.leave_ns? - row.enter_ns))
                .collect(),
        ),
        in_order(launches.iter().map(|(start, end)| end - start).collect()),
    ];
    for (found, expected) in durations[0].iter().zip(&durations[1]) {
        let is_close = (found - expected).abs() < duration_error_ns(*expected);
        assert!(is_close, "{context}: {found}, not {expected} ns");
    }
    let mut off_by = Vec::new();
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        let late_ns = found - expected;
        assert!(
            (-STAMPS_NS..=error_ns + STAMPS_NS).contains(&late_ns),
            "{context}: {late_ns} ns late, at most {error_ns} stated"
        );
        off_by.push(late_ns);
    }
    off_by
}

fn expect_times(processes: usize, ranks: usize, case: &str, instances: i64) {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let context = format!("NCCL {} {case}", nccl.version);
        let run = Run::of(&turn, nccl.job(processes, [case]));
        let session = run.session();
        let of = |path: &str| integer(&session, path);
        assert_eq!(of("/coverage/ranks_seen") as usize, ranks, "{context}");
        assert_eq!(of("/totals/instances"), instances, "{context}");
        assert_eq!(of("/totals/operations"), instances * ranks as i64, "{context}");
        assert_eq!(of("/totals/lost"), 0, "{context}");
        let matching = &session["matching"];
        if nccl.plugin_version() < 4 {
            assert_eq!(integer(matching, "/enqueued"), instances, "{context}: {matching}");
            continue;
        }
        assert_eq!(integer(matching, "/complete"), instances, "{context}: {matching}");
        let mut off_by = Vec::new();
        for (process, log) in run.logs().iter().enumerate() {
            log.expect_whole();
            off_by.extend(expect_timed(&run, &session, process, log, &context));
        }
        off_by.sort_unstable();
        println!(
            "{context}: {} times are late by {} ns in the median, {} to {}",
            off_by.len(),
            off_by[off_by.len() / 2],
            off_by[0],
            off_by[off_by.len() - 1]
        );
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_process_that_drives_all_devices_has_the_times_of_each() {
    // A group of one thread, and then a thread per device.
    expect_times(1, 4, "initall", 2);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_thread_per_rank_has_the_times_of_its_device() {
    expect_times(2, 4, "threads", 2);
}

/// The program enqueues far more calls than NCCL's profiler stores times of. If NCCL's proxy thread is late, NCCL reports
/// the times of later operations.
#[test]
#[ignore = "a minute: make host-nccl"]
fn thousands_of_calls_without_a_wait_are_recorded_in_order_and_without_the_times_of_others() {
    const RANKS: usize = 3;
    const CALLS: usize = 3000;
    // 200 ppm of ten seconds.
    const DRIFT_NS: i64 = 2_000_000;
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let context = format!("NCCL {} many", nccl.version);
        let run = Run::of(&turn, nccl.job(RANKS, ["many"]));
        let session = run.session();
        let of = |path: &str| integer(&session, path);
        assert_eq!(of("/totals/operations") as usize, RANKS * CALLS, "{context}");
        assert_eq!(of("/totals/instances") as usize, CALLS, "{context}");
        assert_eq!(of("/totals/lost"), 0, "{context}");
        let matched = ["complete", "enqueued"].map(|name| of(&format!("/matching/{name}")));
        assert_eq!(matched.iter().sum::<i64>() as usize, CALLS, "{context}");
        let (mut timed, mut without, mut explained) = (0, 0, 0);
        for (rank, log) in run.logs().iter().enumerate() {
            let context = format!("{context} rank {rank}");
            log.expect_whole();
            let numbers: Vec<usize> = calls(log).iter().map(|call| call.sequence as usize).collect();
            assert_eq!(numbers, (0..CALLS).collect::<Vec<_>>(), "{context}");
            let launches = run.launches(rank);
            assert_eq!(launches.len(), CALLS, "{context}");
            let mut late_ns = Vec::new();
            for row in run.rows(rank) {
                let Some(leave_ns) = row.leave_ns.filter(|_| row.state == OperationState::Completed) else {
                    without += 1;
                    continue;
                };
                let (start_ns, end_ns) = launches[row.sequence as usize];
                let off_by = (leave_ns - row.enter_ns) - (end_ns - start_ns);
                let is_close = off_by.abs() < duration_error_ns(end_ns - start_ns);
                assert!(is_close, "{context}: {off_by} ns longer: {row:?}");
                late_ns.push(row.enter_ns - start_ns);
            }
            // The error is that of the clock, and changes slowly. Times of another operation differ by 64 operations.
            late_ns.sort_unstable();
            if let [first, .., last] = late_ns[..] {
                assert!(last - first < DRIFT_NS, "{context}: {} ns", last - first);
            }
            timed += late_ns.len();
            explained += overtaken(&session, rank);
        }
        println!("{context}: {timed} operations with times, {without} without, {explained} left out");
        if nccl.plugin_version() < 4 {
            assert_eq!(timed, 0, "{context}");
            continue;
        }
        assert!(timed > RANKS * CALLS / 2, "{context}: {timed}");
        // Of some operations, NCCL reports the begin of a later one and their own end. They have no times either.
        assert!(without == 0 || explained > 0, "{context}: {without}");
        assert!(explained <= without, "{context}: {explained} of {without}");
    }
    drop(turn);
}

/// Returns the number of times that were left out because NCCL's proxy thread was late.
fn overtaken(session: &Value, rank: usize) -> usize {
    let problems = session["problems"]["listed"].as_array().expect("a list");
    let of_rank = problems.iter().filter(|problem| problem["rank"] == rank);
    let texts = of_rank.filter_map(|problem| problem["what"].as_str());
    let counts =
        texts.filter_map(|text| text.split_once(" kernel times of NCCL were left out: its proxy thread"));
    counts
        .map(|(count, _)| count.parse::<usize>().expect("a count"))
        .sum()
}
