//! Tests launches that CUDA events time because NCCL reports no times (`tests/host-nccl`).

use rankscope_formats::session::{OperationRow, OperationState};
use rankscope_tests::host_nccl::{HostNccl, Run};
use rankscope_tests::results::{self, integer};
use rankscope_tests::turn;

const RANKS: usize = 3;
/// Maximum difference between two readings of a clock for one event, in nanoseconds.
const STAMPS_NS: i64 = 50_000;

#[test]
#[ignore = "a minute: make host-nccl"]
fn events_give_the_times_of_the_kernels_within_the_stated_error() {
    // Each launch of these cases has one operation.
    const CASES: [&str; 5] = ["allreduce", "allgather", "reducescatter", "reduce", "even"];
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let job = nccl
            .job(RANKS, CASES)
            .env("NCCL_PROFILER_PLUGIN", "none")
            .env("RANKSCOPE_NCCL_EVENTS", "100000");
        let run = Run::of(&turn, job);
        let session = run.session();
        let mut off_by = Vec::new();
        for (rank, log) in run.logs().iter().enumerate() {
            let context = format!("NCCL {} rank {rank}", nccl.version);
            assert_eq!(
                session["devices"][rank]["source"], "events around launches",
                "{context}"
            );
            let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
            assert_eq!([of("without_call"), of("contradictions")], [0; 2], "{context}");
            let error_ns = of("widest_error_ns/value");
            let all = run.rows(rank);
            let ahead_ns = Run::axis_ahead_ns(log, &all);
            let kernels = run.kernels(rank);
            let mut rows: Vec<&OperationRow> = all.iter().collect();
            rows.sort_by_key(|row| row.called_ns.unwrap_or(row.enter_ns));
            assert_eq!(rows.len(), kernels.len(), "{context}");
            // The first launch is not timed, because the events are created with it. A later call reads the events, so
            // the last launch may have no times.
            let enqueued = rows.iter().filter(|row| row.state == OperationState::Enqueued);
            assert!((1..=2).contains(&enqueued.count()), "{context}");
            let last = rows.len() - 1;
            let on_axis = |at: usize| {
                kernels
                    .get(at)
                    .map(|(start, end)| (start + ahead_ns, end + ahead_ns))
            };
            for (at, row) in rows.into_iter().enumerate() {
                if row.state == OperationState::Enqueued {
                    assert!(at == 0 || at == last, "{context}: {row:?}");
                    continue;
                }
                let (start_ns, end_ns) = on_axis(at).expect("a kernel");
                // The stream orders events and kernels. The stand-in's stream is a thread, which may be delayed between
                // them.
                let before_ns = at
                    .checked_sub(1)
                    .and_then(on_axis)
                    .map_or(i64::MIN, |(_, end)| end);
                let after_ns = on_axis(at + 1).map_or(i64::MAX / 2, |(start, _)| start);
                let called_ns = row.called_ns.expect("a call");
                let what = format!("{context}: {start_ns} to {end_ns}, at most {error_ns}: {row:?}");
                let begin = before_ns.max(called_ns) - STAMPS_NS..=start_ns + error_ns + STAMPS_NS;
                assert!(begin.contains(&row.enter_ns), "{what}");
                let leave_ns = row.leave_ns.expect("a time");
                let end = end_ns - STAMPS_NS..=after_ns + error_ns + STAMPS_NS;
                assert!(end.contains(&leave_ns), "{what}");
                off_by.push((leave_ns - end_ns).abs());
            }
        }
        off_by.sort_unstable();
        let median_ns = off_by[off_by.len() / 2];
        println!(
            "NCCL {}: {} launches off by {median_ns} ns in the median, {} at p99",
            nccl.version,
            off_by.len(),
            off_by[off_by.len() * 99 / 100]
        );
        // The stated error may be wide, and would then admit wrong times.
        assert!(median_ns < 2 * STAMPS_NS, "NCCL {}: {median_ns} ns", nccl.version);
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_late_rank_is_named_from_events() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let job = nccl
            .job(RANKS, ["late"])
            .env("NCCL_PROFILER_PLUGIN", "none")
            .env("RANKSCOPE_NCCL_EVENTS", "100000");
        let session = Run::of(&turn, job).session();
        let ranks = results::late_ranks(&session);
        assert_eq!(ranks, [1], "NCCL {}: {}", nccl.version, session["findings"]);
    }
    drop(turn);
}
