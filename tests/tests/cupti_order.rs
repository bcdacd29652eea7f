//! Tests NCCL calls without a link to their kernels, and the causes of stalls, on the test doubles, which know the
//! truth.
//!
//! The order on the stream matches calls and kernels if CUPTI does not name calls (before 12.6). Events give the times
//! while another profiler has CUPTI.

use rankscope_formats::ids::{RankIndex, StepIndex};
use std::collections::BTreeMap;

use rankscope_formats::session::{
    OperationRow, OperationState, StallCause, StallRow, StepRow, WorkClass, WorkRow,
};
use rankscope_tests::cupti_run::{self, RANKS, Run, STAMPS_NS, Settings, reported, true_works};
use rankscope_tests::engine::count;
use rankscope_tests::{results, turn};
use serde_json::Value;

/// Number of NCCL calls in a step: an all-reduce, and two calls in a group.
const CALLS: u64 = 3;
/// Number of their launches.
const LAUNCHES: u64 = 2;

#[test]
fn unlinked_kernels_join_their_calls_by_the_order_on_their_stream() {
    let turn = turn::take();
    for (version, kernels) in [(18, "all"), (18, "communication")] {
        let settings = Settings {
            version,
            steps: 200,
            kernels: Some(kernels),
            ..Settings::default()
        };
        let Some(run) = cupti_run::run(&turn, &settings) else {
            return;
        };
        run.expect_well();
        let session = run.session();
        for rank in 0..RANKS {
            let activity = &session["activity"][rank];
            assert_eq!(activity["by_order"], LAUNCHES * settings.steps, "{kernels}");
            assert_eq!(activity["without_call"], 0);
            let mut kernels: Vec<(i64, i64)> = run
                .truth(rank)
                .iter()
                .filter(|work| work.name.contains("nccl"))
                .map(|work| (work.start_ns, work.stop_ns))
                .collect();
            kernels.sort_unstable();
            let mut rows: Vec<OperationRow> = run.rows(rank);
            rows.retain(|row| row.state == OperationState::Completed);
            rows.sort_by_key(|row| row.sequence);
            assert_eq!(rows.len() as u64, CALLS * settings.steps);
            let origin = rows[0].enter_ns - kernels[0].0;
            for row in &rows {
                // The first call of a step is a launch. The other two share one.
                let (step, call) = (u64::from(row.sequence) / CALLS, u64::from(row.sequence) % CALLS);
                let (start, stop) = kernels[(LAUNCHES * step + call.min(1)) as usize];
                let off = (row.enter_ns - start - origin)
                    .abs()
                    .max((row.leave_ns.expect("done") - stop - origin).abs());
                assert!(off < 2 * STAMPS_NS, "{row:?} is {off} ns beside its kernel");
            }
            // A kernel carries the call to which it belongs. The kernel of a group belongs to no single call.
            let works: Vec<WorkRow> = run.rows(rank);
            let named = works
                .iter()
                .filter(|work| work.class == WorkClass::Communication && work.sequence.is_some());
            assert_eq!(named.count() as u64, settings.steps);
        }
        assert_eq!(session["matching"]["complete"], CALLS * settings.steps);
        assert_eq!(session["matching"]["causality_violations"], 0);
    }
}

#[test]
fn events_replace_cupti_while_another_profiler_has_it() {
    let turn = turn::take();
    let cases = [
        (18, None),
        (cupti_run::NEWEST, None),
        (cupti_run::NEWEST, Some("0")),
    ];
    turn::side_by_side(cases, |(version, events)| {
        let mut more = vec![("CUPTI_JOB_OTHER", "1")];
        more.extend(events.map(|events| ("RANKSCOPE_NCCL_EVENTS", events)));
        let settings = Settings {
            version,
            steps: 1500,
            more: &more,
            ..Settings::default()
        };
        let Some(run) = cupti_run::run(&turn, &settings) else {
            return;
        };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            let theirs = run.printed(rank, "other")["other"].clone();
            assert_eq!(theirs["received"], theirs["launched"]);
            assert_eq!((&theirs["wrong"], &theirs["result"]), (&0.into(), &0.into()));
            // Works in flight while the other profiler registered its clock still have the times of rankscope's clock.
            let mut truth: BTreeMap<String, Vec<i64>> = BTreeMap::new();
            for (start, _, name, ..) in true_works(&run.truth(rank)) {
                truth.entry(name).or_default().push(start);
            }
            for (start, _, name, ..) in reported(log) {
                let starts = &truth[&name];
                let after = starts.partition_point(|&one| one < start);
                let near = [after.checked_sub(1), Some(after)].into_iter().flatten();
                let off = near
                    .filter_map(|at| starts.get(at))
                    .map(|one| (one - start).abs())
                    .min();
                assert!(
                    off.is_some_and(|off| off < STAMPS_NS),
                    "version {version}: {name} is {off:?} ns beside the truth"
                );
            }
        }
        let session = run.session();
        let by_events: u64 = session["devices"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|device| device["timed_by_events"].as_u64().unwrap_or_default())
            .sum();
        let calls = RANKS as u64 * CALLS * settings.steps;
        let enqueued = session["totals"]["enqueued"].as_u64().expect("a number");
        if events == Some("0") {
            assert_eq!(by_events, 0, "the user wants none");
            assert!(enqueued > calls / 4, "{enqueued} of {calls}");
        } else {
            assert!(
                by_events > calls / 4,
                "version {version}: {by_events} of {calls} by events"
            );
            // Untimed are works that were launched during the change between the two sources, and the last works.
            assert!(
                enqueued < calls / 5,
                "version {version}: {enqueued} of {calls} not timed"
            );
        }
    });
}

/// Asserts that stalls in the Perfetto trace name the late rank as the session does.
fn expect_late_rank_in_perfetto<'a>(run: &Run, session: &Value, stalls: impl Iterator<Item = &'a StallRow>) {
    let trace = run.directory.path().join("trace.pftrace");
    let trace = trace.to_str().expect("a plain name");
    let directory = run.directory.path().to_str().expect("a plain name");
    let ended = results::rankscope(["export", "--perfetto", "-o", trace, directory]);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    let name = session["ranks"][1]["name"].as_str().expect("a name");
    let query = format!(
        "select count(*) from slice join args using (arg_set_id) \
         where category = 'stall' and key = 'debug.late_rank' and string_value = '{name}'"
    );
    if let Some(counted) = count(trace, &query) {
        let expected = stalls
            .filter(|stall| stall.late_rank == Some(RankIndex(1)))
            .count();
        assert_eq!(counted, expected as u64);
        assert!(counted > 0);
    }
}

#[test]
fn a_stall_names_the_rank_that_was_late() {
    let turn = turn::take();
    let settings = Settings {
        steps: 300,
        more: &[("CUPTI_JOB_LATE", "1")],
        ..Settings::default()
    };
    let Some(run) = cupti_run::run(&turn, &settings) else {
        return;
    };
    run.expect_well();
    let session = run.session();
    let stalls: Vec<StallRow> = run.rows(0);
    // Before the first step one process waits for the start of the other.
    let steps: Vec<StepRow> = run.rows(0);
    let of_late: Vec<&StallRow> = stalls
        .iter()
        .filter(|stall| stall.cause == StallCause::LatePeer && stall.end_ns - stall.start_ns > 6_000_000)
        .filter(|stall| stall.start_ns >= steps[0].start_ns)
        .collect();
    // Every tenth step waits for 10 ms.
    assert!((20..=60).contains(&of_late.len()), "{}", of_late.len());
    for stall in &of_late {
        assert_eq!(stall.late_rank, Some(RankIndex(1)), "{stall:?}");
        assert!(2 * stall.wait_ns > stall.communication_ns && stall.wait_ns <= stall.end_ns - stall.start_ns);
        assert!(stall.step.is_some_and(|step| step < StepIndex(300)), "{stall:?}");
    }
    let mut waits: Vec<i64> = of_late.iter().map(|stall| stall.wait_ns).collect();
    waits.sort_unstable();
    assert!(waits[waits.len() / 2] > 4_000_000, "{waits:?}");
    // The late rank's own device had nothing to do.
    let own: Vec<StallRow> = run.rows(1);
    let host_late = own
        .iter()
        .filter(|stall| stall.cause == StallCause::HostLate && stall.end_ns - stall.start_ns > 5_000_000);
    assert!(host_late.count() >= 20);
    let summary = &session["activity"][0]["device_stalls"];
    assert_eq!(summary["count"], stalls.len());
    let sum: i64 = stalls.iter().map(|stall| stall.end_ns - stall.start_ns).sum();
    assert_eq!(summary["ns"], sum);
    assert_eq!(summary["by_late_rank"][0]["rank"], 1);
    expect_late_rank_in_perfetto(&run, &session, stalls.iter().chain(&own));
    // The wait at the end of each step is a recurring stall.
    let recurring = session["activity"][0]["recurring_stalls"]
        .as_array()
        .expect("a list");
    assert!(!recurring.is_empty());
    let place = &recurring[0];
    let number = |of: &str| place[of].as_u64().expect("a number");
    assert!(
        number("of_steps") > 250 && 5 * number("steps") >= number("of_steps"),
        "{place}"
    );
    // The stall is before the first kernel of a step: the host waits for the previous one and launches then.
    let before = place["before"].as_str().expect("a name");
    assert!(before.contains("vectorized_elementwise_kernel"), "{before}");
    assert!(
        number("ns") / number("steps") > 20_000,
        "about a hundredth of 2.5 ms, or more"
    );
}
