//! Tests device activity as CUPTI reports it, from the driver to the session.
//!
//! Every work is recorded with its times, its launch and the call to which it belongs. Other profilers receive
//! everything as if rankscope were absent. CUPTI, the driver and NCCL are test doubles (`tests/doubles/cupti`), which
//! know the truth.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;
use std::time::Duration;

use rankscope_formats::session::{
    NameRow, OperationRow, OperationState, SpanKind, SpanRow, StepRow, WorkClass, WorkKind, WorkRow,
};
use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::{Activity, ActivityKind, Coverage, overhead};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_tests::cupti_run::{
    RANKS, Settings, Taken, Truth, WORKS, activities, covered, expect_true, expect_true_overheads, job, lost,
    overheads, raw_ns, recorded_intervals, reported, run, true_works, work_of, works,
};
use rankscope_tests::engine::{count, engine};
use rankscope_tests::job::Job;
use rankscope_tests::{artefacts, compile, process, recorded, results, skip, turn};
use serde_json::Value;

#[test]
fn every_version_reports_every_work_with_its_times() {
    let turn = turn::take();
    for (version, _) in compile::CUPTI_VERSIONS {
        let settings = Settings {
            version,
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            log.expect_whole();
            assert_eq!(log.log.properties.get("source.cupti"), Some(&version.to_string()));
            let models = log
                .log
                .properties
                .iter()
                .filter(|(key, _)| key.ends_with(".model"));
            assert!(models.clone().count() > 0, "{:?}", log.log.properties);
            for (key, model) in models.clone() {
                assert!(key.starts_with("device."), "{key}");
                assert_eq!(model, "Double of a GPU", "{key}");
            }
            let addresses = log.log.properties.iter();
            let addresses = addresses.filter(|(key, _)| key.ends_with(".address"));
            assert_eq!(addresses.clone().count(), models.clone().count());
            for (key, address) in addresses {
                assert!(
                    address.starts_with("0000:") && address.ends_with(":00.0"),
                    "{key}: {address}"
                );
            }
            let printed = run.printed(rank, "launched");
            let launched = printed["launched"].as_u64().expect("a number");
            assert_eq!(launched, WORKS * settings.steps);
            assert_eq!(works(log), launched, "version {version}");
            for nothing in ["violations", "driver_violations", "outstanding", "kinds"] {
                assert_eq!(printed[nothing], 0, "version {version}: {nothing}");
            }
            expect_true(log, &run.truth(rank));
            // Overhead of CUPTI and of the driver: each record has its thread, if one is reported.
            let taken = run.true_overheads(rank);
            expect_true_overheads(log, &taken);
            assert_eq!(log.log.properties["source.cupti_overhead"], "recorded");
            for (what, is_of_thread) in [(1 << 16, true), (2 << 16, true), (6 << 16, false)] {
                let of_kind = taken.iter().filter(|one| one.what == what);
                assert!(
                    of_kind.clone().count() >= 1,
                    "{}: {taken:?}",
                    overhead::words(what)
                );
                assert!(of_kind.clone().all(|one| (one.thread != 0) == is_of_thread));
            }
            // Launch calls are recorded since the first version that can select functions one by one.
            let launches = activities(log)
                .iter()
                .filter(|activity| matches!(activity, Activity::Call { waits: false, .. }))
                .count() as u64;
            let per_step = WORKS - 4;
            assert_eq!(
                launches,
                if version >= 24 {
                    per_step * settings.steps
                } else {
                    0
                }
            );
        }
    }
}

/// Returns the lengths of unions and intersections, computed edge by edge.
fn brute(lists: &[&[(i64, i64)]; 3]) -> [i64; 5] {
    let mut edges: Vec<(i64, usize, i64)> = Vec::new();
    for (class, list) in lists.iter().enumerate() {
        for &(start, end) in *list {
            edges.push((start, class, 1));
            edges.push((end, class, -1));
        }
    }
    edges.sort_unstable();
    let (mut open, mut at, mut sums) = ([0i64; 3], i64::MIN, [0i64; 5]);
    for (ns, class, change) in edges {
        if at != i64::MIN {
            let [compute, communication, memory] = open.map(|count| count > 0);
            let which = match (compute, communication, memory) {
                (true, false, _) => 0,
                (true, true, _) => 1,
                (false, true, _) => 2,
                (false, false, true) => 3,
                (false, false, false) => 4,
            };
            sums[which] += ns - at;
        }
        open[class] += change;
        at = ns;
    }
    sums
}

#[test]
fn the_session_has_the_parts_the_launches_and_the_calls() {
    let turn = turn::take();
    let Some(run) = run(
        &turn,
        &Settings {
            steps: 200,
            ..Settings::default()
        },
    ) else {
        return;
    };
    run.expect_well();
    let session = run.session();
    for rank in 0..RANKS {
        let truth = run.truth(rank);
        let rows: Vec<WorkRow> = run.rows(rank);
        assert_eq!(rows.len(), truth.len());
        let activity = &session["activity"][rank];
        assert_eq!(activity["rank"], rank);
        assert_eq!(activity["adds_up"], true);
        assert_eq!(activity["lost"], 0);
        assert_eq!(activity["launches_without_work"], 0);
        assert_eq!(activity["with_launch"].as_u64(), Some(rows.len() as u64));
        // The device's times are between their launch and the return of the call that waited for them.
        let earliest = activity["shortest_launch_ns"]["value"]
            .as_i64()
            .expect("launches");
        assert!((0..1_000_000).contains(&earliest), "{earliest}");
        // Compare the parts with the truth for the whole run. Only differences of times are used, which no axis
        // changes.
        let of_class = |class: WorkClass| -> Vec<(i64, i64)> {
            let rows = rows.iter().filter(|row| row.class == class);
            rows.map(|row| (row.start_ns, row.end_ns)).collect()
        };
        let classes = [
            of_class(WorkClass::Compute),
            of_class(WorkClass::Communication),
            of_class(WorkClass::Memory),
        ];
        let is_nccl = |work: &&Truth| work.name.contains("nccl");
        let of_truth = |is_selected: &dyn Fn(&&Truth) -> bool| -> Vec<(i64, i64)> {
            let works = truth.iter().filter(|work| is_selected(work));
            works.map(|work| (work.start_ns, work.stop_ns)).collect()
        };
        let true_classes = [
            of_truth(&|work| work.kind == "kernel" && !is_nccl(work)),
            of_truth(&|work| is_nccl(work)),
            of_truth(&|work| work.kind != "kernel"),
        ];
        let parts = brute(&[&classes[0], &classes[1], &classes[2]]);
        let true_parts = brute(&[&true_classes[0], &true_classes[1], &true_classes[2]]);
        for (part, true_part) in parts.iter().zip(true_parts) {
            // Every border may be off by a timestamp's error.
            assert!(
                (part - true_part).abs() < 200_000 + true_part / 50,
                "{parts:?} {true_parts:?}"
            );
        }
        // Compare the steps with the table of works: exactly.
        let steps: Vec<StepRow> = run.rows(rank);
        assert!(steps.len() > 150, "{}", steps.len());
        let mut sums = [0i64; 5];
        for step in &steps {
            let clipped = |list: &[(i64, i64)]| -> Vec<(i64, i64)> {
                let inside = list
                    .iter()
                    .map(|&(start, end)| (start.max(step.start_ns), end.min(step.end_ns)));
                inside.filter(|(start, end)| start < end).collect()
            };
            let [compute, communication, memory] =
                [clipped(&classes[0]), clipped(&classes[1]), clipped(&classes[2])];
            let ends = [(step.start_ns, step.start_ns), (step.end_ns, step.end_ns)];
            let memory = [&memory[..], &ends].concat();
            let expected = brute(&[&compute, &communication, &memory]);
            let reported = [
                step.compute_only_ns,
                step.overlapped_ns,
                Some(step.exposed_communication_ns),
                step.exposed_memory_ns,
                step.idle_ns,
            ];
            assert_eq!(reported, expected.map(Some), "{step:?}");
            assert_eq!(expected.iter().sum::<i64>(), step.end_ns - step.start_ns);
            for (sum, part) in sums.iter_mut().zip(expected) {
                *sum += part;
            }
        }
        let part = |name: &str| activity[name].as_i64().expect("a number");
        let reported = [
            part("compute_only_ns"),
            part("overlapped_ns"),
            part("exposed_communication_ns"),
            part("exposed_memory_ns"),
            part("idle_ns"),
        ];
        assert_eq!(reported, sums);
        assert_eq!(
            session["breakdown"][rank]["overlap"]["value"]["numerator"],
            sums[1]
        );
        // An NCCL operation starts and ends with its kernel.
        let kernels: HashMap<i64, i64> = rows
            .iter()
            .filter(|row| row.class == WorkClass::Communication)
            .map(|row| (row.start_ns, row.end_ns))
            .collect();
        let operations: Vec<OperationRow> = run.rows(rank);
        let done = operations
            .iter()
            .filter(|row| row.state == OperationState::Completed);
        let mut compared = 0;
        for operation in done {
            assert_eq!(kernels.get(&operation.enter_ns).copied(), operation.leave_ns);
            assert!(
                operation
                    .called_ns
                    .is_some_and(|called| called <= operation.enter_ns)
            );
            compared += 1;
        }
        // Operations that were called before CUPTI started are known as enqueued only.
        assert!(compared > 500, "{compared} of {}", operations.len());
        let direct = rows.iter().filter(|row| row.operation == Operation::AllReduce);
        assert!(direct.count() > 150);
        // Names are demangled, launches have spans, and waits are recorded.
        let names: Vec<NameRow> = run.rows(rank);
        let is_read = |row: &NameRow| row.name.contains("::") && row.mangled.is_some();
        assert!(names.iter().any(is_read));
        let spans: Vec<SpanRow> = run.rows(rank);
        assert!(spans.is_sorted_by_key(|span| span.start_ns));
        let launches = spans.iter().filter(|span| span.kind == SpanKind::Launch).count() as u64;
        assert_eq!(launches, (WORKS - 4) * 200);
        // Overheads are where they happened, with their owner, and count as nothing else.
        let taken = run.true_overheads(rank);
        let reported = |kind: SpanKind| spans.iter().filter(move |span| span.kind == kind);
        let is_drivers = |one: &&Taken| overhead::is_drivers(one.what);
        assert_eq!(
            reported(SpanKind::Driver).count(),
            taken.iter().filter(is_drivers).count()
        );
        assert_eq!(
            reported(SpanKind::Recorder).count() + reported(SpanKind::Driver).count(),
            taken.len()
        );
        let full =
            |span: &SpanRow| span.name.as_deref() == Some("command buffer full") && span.thread_id == 0;
        assert!(reported(SpanKind::Driver).all(full));
        let mut of_recorder: Vec<(i64, i64)> = reported(SpanKind::Recorder)
            .map(|span| (span.start_ns, span.end_ns))
            .collect();
        of_recorder.sort_unstable();
        for words in ["buffer flush", "instrumentation"] {
            let named = reported(SpanKind::Recorder).filter(|span| span.name.as_deref() == Some(words));
            let true_ones = taken.iter().filter(|one| overhead::words(one.what) == words);
            assert_eq!(named.count(), true_ones.count(), "{words}");
        }
        // Compare with the union of the overheads, without the parts outside the time of complete recording.
        let mut covered: Vec<(i64, i64)> = reported(SpanKind::Covered)
            .map(|span| (span.start_ns, span.end_ns))
            .collect();
        covered.sort_unstable();
        let (mut union, mut at) = (0, i64::MIN);
        for &(start, end) in &of_recorder {
            let start = start.max(at);
            for &(from, to) in &covered {
                union += (end.min(to) - start.max(from)).max(0);
            }
            at = at.max(end);
        }
        assert!(union > 0);
        assert_eq!(activity["recorder_ns"]["value"], union);
        let kinds: Vec<WorkKind> = rows.iter().map(|row| row.kind).collect();
        for kind in [WorkKind::Kernel, WorkKind::Copy, WorkKind::Set] {
            assert!(kinds.contains(&kind));
        }
    }
    let trace = run.directory.path().join("trace.pftrace");
    let trace = trace.to_str().expect("a plain name");
    let ended = results::rankscope([
        "export",
        "--perfetto",
        "-o",
        trace,
        run.directory.path().to_str().expect("a plain name"),
    ]);
    if ended.code() != 0 {
        panic!("{}", ended.complaints());
    }
    engine(&["check", trace]);
    let works = "select count(*) from slice where category in ('compute', 'communication', 'memory')";
    if let Some(counted) = count(trace, works) {
        assert_eq!(counted, 2 * 200 * WORKS);
        let joined = "select count(*) from flow join slice a on slice_out = a.id join slice b on slice_in = b.id \
                      where a.category = 'launch' and b.category in ('compute', 'communication', 'memory')";
        assert_eq!(count(trace, joined), Some(2 * 200 * (WORKS - 4)));
        let reported = "select count(*) from slice where category = 'communication' and \
                    extract_arg(arg_set_id, 'debug.operation') = 'all-reduce' and \
                    extract_arg(arg_set_id, 'debug.operation_bytes') > 0";
        assert!(count(trace, reported).is_some_and(|reported| reported > 700));
        let taken: usize = (0..RANKS).map(|rank| run.true_overheads(rank).len()).sum();
        let drawn = "select count(*) from slice join track on slice.track_id = track.id where \
                     slice.category in ('recorder', 'driver') and track.name = 'recorder'";
        assert_eq!(count(trace, drawn), Some(taken as u64));
    }
}

#[test]
fn another_profiler_sees_no_difference() {
    let turn = turn::take();
    let cases = [("1", ("", "")), ("subscribe", ("CUPTI_JOB_CAPTURE", "1"))];
    turn::side_by_side(cases, |(other, more)| {
        let mut settings = vec![("CUPTI_JOB_OTHER", other)];
        if !more.0.is_empty() {
            settings.push(more);
        }
        // A third of the steps must last longer than the time for which rankscope yields after the other profiler's
        // last sign.
        let settings = Settings {
            steps: 3 * 1000,
            more: &settings,
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            let theirs = run.printed(rank, "other")["other"].clone();
            for nothing in ["missing", "twice", "wrong", "foreign_buffers", "result"] {
                assert_eq!(theirs[nothing], 0, "{nothing}: {theirs}");
            }
            assert!(theirs["launched"].as_u64() > Some(1000), "{theirs}");
            assert_eq!(theirs["received"], theirs["launched"]);
            let printed = run.printed(rank, "launched");
            assert_eq!(
                (&printed["violations"], &printed["driver_violations"]),
                (&0.into(), &0.into())
            );
            // The recorder yielded, reported that, and resumed.
            let covered: Vec<Coverage> = activities(log)
                .iter()
                .filter_map(|activity| match activity {
                    Activity::Covered { coverage, .. } => Some(*coverage),
                    _ => None,
                })
                .collect();
            let mut changes = covered.clone();
            changes.dedup();
            // The recording is switched off at the end.
            changes.truncate(3);
            assert_eq!(
                changes,
                [Coverage::All, Coverage::Yielded, Coverage::All],
                "{other}"
            );
            let launched = printed["launched"].as_u64().expect("a number");
            let ours = works(log);
            assert!(
                ours > launched / 4 && ours < launched * 3 / 4,
                "{ours} of {launched}"
            );
            // Works in flight at the takeover are counted. Nothing else is lost.
            let lost = lost(log);
            assert!(
                lost.keys().all(|&cause| cause == LossCause::Unfinished),
                "{lost:?}"
            );
            assert!(lost.values().sum::<u64>() < 64, "{lost:?}");
        }
        let session = run.session();
        let yielded = session["activity"][0]["yielded_ns"].as_i64().expect("a number");
        assert!(yielded > 2_000_000_000, "{yielded}");
    });
}

#[test]
fn a_refusal_and_a_missing_driver_are_reported_and_do_no_harm() {
    let turn = turn::share();
    for fails in ["15", "39", "999"] {
        let settings = Settings {
            more: &[("CUPTI_DOUBLE_FAILS", fails)],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            assert_eq!(works(log), 0);
            let printed = run.printed(rank, "launched");
            assert_eq!(
                (&printed["violations"], &printed["kinds"]),
                (&0.into(), &0.into())
            );
            let reason = &log.log.properties["source.cupti_ended"];
            assert!(reason.contains(&format!("({fails})")), "{reason}");
        }
        let session = run.session();
        assert!(
            session["activity"][0]["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains(fails))
        );
    }
    // If CUPTI's overhead cannot be recorded, everything else is recorded as usual.
    for (more, said_of_it, has_any) in [
        (
            ("CUPTI_DOUBLE_REFUSES", "17"),
            "CUPTI refused: CUPTI_ERROR_INVALID_KIND (21)",
            false,
        ),
        (
            ("CUPTI_DOUBLE_FOREIGN", "1"),
            "recorded in part: some were not stamped by our clock",
            true,
        ),
    ] {
        let settings = Settings {
            more: &[more],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            log.expect_whole();
            expect_true(log, &run.truth(rank));
            let printed = run.printed(rank, "launched");
            assert_eq!(
                (&printed["violations"], &printed["kinds"]),
                (&0.into(), &0.into())
            );
            assert_eq!(run.true_overheads(rank).is_empty(), !has_any);
            assert_eq!(overheads(log), []);
            assert_eq!(log.log.properties["source.cupti_overhead"], said_of_it);
            assert!(!log.log.properties.contains_key("source.cupti_ended"));
        }
        let session = run.session();
        assert_eq!(session["activity"][0]["recorder_ns"]["reason"], said_of_it);
        assert_eq!(session["activity"][0]["lost"], 0);
    }
    // Another tool is configured in the driver: CUPTI belongs to that tool.
    let settings = Settings {
        more: &[("CUDA_INJECTION64_PATH", "/opt/other/libinjection.so")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for log in run.logs() {
        assert_eq!(works(&log), 0);
        assert!(log.log.properties["source.cupti_ended"].contains("CUDA_INJECTION64_PATH"));
    }
}

#[test]
fn what_cupti_drops_is_counted() {
    let turn = turn::share();
    let settings = Settings {
        more: &[("CUPTI_DOUBLE_DROPS", "10")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in run.logs().iter().enumerate() {
        let launched = run.printed(rank, "launched")["launched"]
            .as_u64()
            .expect("a number");
        let lost = lost(log);
        assert_eq!(lost.keys().collect::<Vec<_>>(), [&LossCause::Profiler]);
        assert_eq!(works(log) + lost[&LossCause::Profiler], launched);
        assert!(lost[&LossCause::Profiler] > launched / 20);
    }
}

/// Counts the launches in the log that gave a device work without any record of that work.
fn launches_without_work(log: &recorded::Recorded) -> u64 {
    let activities = activities(log);
    let with_work: BTreeSet<u32> = activities
        .iter()
        .filter_map(work_of)
        .map(|work| work.correlation)
        .collect();
    let launches: BTreeSet<u32> = activities
        .iter()
        .filter_map(|activity| match activity {
            Activity::Call { waits: false, call } => Some(call.correlation),
            _ => None,
        })
        .collect();
    launches.difference(&with_work).count() as u64
}

#[test]
fn the_end_of_a_process_loses_what_was_not_delivered_and_no_more() {
    let turn = turn::take();
    for ending in ["exit", "_exit", "kill"] {
        let settings = Settings {
            steps: 600,
            // On a busy machine an exit may take longer than the default limit.
            more: &[("CUPTI_JOB_EXIT", ending), ("RANKSCOPE_EXIT_WAIT_MS", "10000")],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        for (rank, log) in run.logs().iter().enumerate() {
            let launched = run.printed(rank, "launched")["launched"]
                .as_u64()
                .expect("a number");
            assert_eq!(launched, WORKS * settings.steps);
            let recorded = works(log);
            if ending == "exit" {
                assert_eq!(recorded + lost(log).values().sum::<u64>(), launched, "{ending}");
            } else {
                // Flushes are half a second apart, and a step takes 2.5 ms.
                assert!(
                    recorded < launched && recorded > launched / 3,
                    "{ending}: {recorded} of {launched}"
                );
                // Everything before the last flush is recorded without gaps.
                let reported = reported(log);
                let truth = true_works(&run.truth(rank));
                let last = reported.iter().map(|work| work.0).max().expect("works");
                let before = truth.iter().filter(|work| work.0 < last - 200_000_000).count();
                let recorded = reported.iter().filter(|work| work.0 < last - 200_000_000).count();
                assert_eq!(recorded, before, "{ending}");
            }
        }
        let session = run.session();
        let until = session["activity"][0]["delivered_until_ns"]
            .as_i64()
            .expect("a moment");
        assert!(until > 0);
        // Launched works that were not delivered are reported as far as their launches were recorded, and so is a
        // killed rank.
        let activity = &session["activity"][0];
        let nothing_came = ["launches_without_work", "calls_without_kernel"].map(|of| activity[of].as_u64());
        let is_regular = ending == "exit";
        assert_eq!(
            session["ranks"][0]["ending"] == "closed",
            is_regular,
            "{ending}: {}",
            session["ranks"][0]["ending"]
        );
        if is_regular {
            assert_eq!(nothing_came, [Some(0), Some(0)]);
        } else {
            // The number of launches before the last flush whose works come after it is random, and may be zero.
            assert_eq!(nothing_came[0], Some(launches_without_work(&run.logs()[0])));
            assert!(nothing_came[1] > Some(0), "{nothing_came:?}");
        }
    }
}

#[test]
fn forked_children_and_captures_are_left_alone() {
    let turn = turn::share();
    let settings = Settings {
        steps: 120,
        more: &[("CUPTI_JOB_FORK", "1"), ("CUPTI_JOB_CAPTURE", "1")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in recorded::read_all(run.directory.path())
        .iter()
        .filter(|log| run.finished.pids.contains(&log.log.pid))
        .enumerate()
    {
        let rank = run
            .finished
            .pids
            .iter()
            .position(|&pid| pid == log.log.pid)
            .unwrap_or(rank);
        let printed = run.printed(rank, "launched");
        for nothing in ["violations", "driver_violations", "outstanding"] {
            assert_eq!(printed[nothing], 0, "{nothing}");
        }
        assert_eq!(
            works(log) + lost(log).values().sum::<u64>(),
            printed["launched"].as_u64().expect("a number")
        );
    }
}

#[test]
fn cupti_is_not_touched_without_a_request() {
    let turn = turn::share();
    // Four cases: the default, another profiler, recording switched off, and a window that never opens.
    for (kernels, has_other) in [
        (None, false),
        (None, true),
        (Some("off"), false),
        (Some("all@1000+1"), false),
    ] {
        let other: &[(&str, &str)] = if has_other {
            &[("CUPTI_JOB_OTHER", "1")]
        } else {
            &[]
        };
        let settings = Settings {
            kernels,
            more: other,
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else {
            return;
        };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            log.expect_whole();
            let is_more = |record: &&Record| record.operation != ActivityKind::Covered as u8;
            assert_eq!(log.of_kind(RecordKind::Activity).filter(is_more).count(), 0);
            let printed = run.printed(rank, "launched");
            assert_eq!(
                (&printed["violations"], &printed["kinds"]),
                (&0.into(), &0.into())
            );
            if has_other {
                let theirs = run.printed(rank, "other")["other"].clone();
                assert_eq!(theirs["received"], theirs["launched"]);
                assert_eq!((&theirs["wrong"], &theirs["result"]), (&0.into(), &0.into()));
            } else {
                assert_eq!(printed["written"], 0);
                assert!(!log.log.properties.contains_key("source.cupti"), "{kernels:?}");
            }
            if kernels.is_none() {
                assert!(log.threads.iter().all(|thread| thread.name != "rankscope-cupti"));
            }
        }
    }
}

#[test]
fn communication_alone_keeps_only_its_kernels() {
    let turn = turn::take();
    let settings = Settings {
        kernels: Some("communication"),
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in run.logs().iter().enumerate() {
        let truth = run.truth(rank);
        let own: Vec<Truth> = truth
            .iter()
            .filter(|work| work.name.contains("nccl"))
            .cloned()
            .collect();
        assert_eq!(own.len() as u64, 2 * settings.steps);
        expect_true(log, &own);
        // CUPTI's own overhead is not requested either.
        assert_eq!((overheads(log), run.true_overheads(rank)), (vec![], vec![]));
        assert!(!log.log.properties.contains_key("source.cupti_overhead"));
    }
    let session = run.session();
    assert_eq!(session["activity"][0]["kernels"], 0);
    assert_eq!(
        session["activity"][0]["communication_kernels"],
        2 * settings.steps
    );
    // The overlap is unknown.
    assert!(session["activity"][0]["overlap"]["value"].is_null());
    assert_eq!(session["breakdown"][0]["overlap"]["value"], Value::Null);
}

#[test]
fn a_window_and_the_running_job_switch_recording_on_and_off() {
    let turn = turn::share();
    let settings = Settings {
        steps: 800,
        kernels: Some("all@0.5+0.5"),
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in run.logs().iter().enumerate() {
        let covered: i64 = activities(log)
            .iter()
            .filter_map(|activity| match *activity {
                Activity::Covered {
                    start_ticks,
                    end_ticks,
                    coverage: Coverage::All,
                    ..
                } => {
                    let calibrations = &log.log.calibrations;
                    Some(raw_ns(calibrations, end_ticks) - raw_ns(calibrations, start_ticks))
                }
                _ => None,
            })
            .sum();
        assert!((300_000_000..900_000_000).contains(&covered), "{covered}");
        let launched = run.printed(rank, "launched")["launched"]
            .as_u64()
            .expect("a number");
        let recorded = works(log);
        assert!(
            recorded > launched / 20 && recorded < launched * 3 / 4,
            "{recorded} of {launched}"
        );
        assert_eq!(run.printed(rank, "launched")["kinds"], 0);
    }

    // A job that started without device recording is requested to start it, and to stop it.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let truth = tempfile::tempdir().expect("a temporary directory");
    let meet = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
    let settings = Settings {
        steps: 2400,
        kernels: None,
        ..Settings::default()
    };
    let Some(job) = job(&settings, truth.path(), meet.path()) else {
        return;
    };
    let running = job.record_into(directory.path()).start(&turn);
    let path = directory.path().to_str().expect("a plain name");
    let ask = |what: &str| {
        let mut answer = results::rankscope(["ctl", path, what]);
        for _ in 0..50 {
            if answer.code() == 0 {
                break;
            }
            // The logs are created with the first communicator.
            std::thread::sleep(Duration::from_millis(50));
            answer = results::rankscope(["ctl", path, what]);
        }
        assert_eq!(answer.code(), 0, "{}", answer.complaints());
    };
    ask("--kernels=all");
    std::thread::sleep(Duration::from_millis(2500));
    ask("--kernels=off");
    let finished = running.wait();
    finished.expect_status(0);
    for log in recorded::read_ranks(directory.path(), &finished.pids) {
        assert_eq!(covered(&log), [Coverage::All, Coverage::Off]);
        assert!(works(&log) > 1000);
    }
    let refused = results::rankscope(["ctl", path, "--kernels=some"]);
    assert_eq!(refused.code(), 2);
    assert!(
        refused.complaints().contains("all@30+10"),
        "{}",
        refused.complaints()
    );
}

#[test]
fn a_pause_keeps_the_works_before_it_and_records_none_meanwhile() {
    let turn = turn::take();
    let settings = Settings {
        steps: 300,
        more: &[("CUPTI_JOB_PAUSE", "1")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in run.logs().iter().enumerate() {
        let launched = |when: &str| {
            let line = &run.printed(rank, when)[when];
            let number = if when == "launched" {
                line
            } else {
                &line["launched"]
            };
            number.as_u64().expect("a number")
        };
        let (paused, resumed, ended) = (
            launched("rankscope_pause"),
            launched("rankscope_resume"),
            launched("launched"),
        );
        let recorded = works(log);
        // The recording begins a moment after the program, and again after the pause.
        let most = paused + (ended - resumed);
        assert!(recorded > most * 9 / 10, "{recorded} of {most}");
        // It stops a moment after the pause begins.
        assert!(
            recorded < most + (resumed - paused) / 5,
            "{recorded} of {most}, then {resumed} - {paused}"
        );
        assert_eq!(
            covered(log),
            [Coverage::All, Coverage::Off, Coverage::All, Coverage::Off]
        );
        // Works that ran when the recording stopped are counted. No other launch within the recorded time lacks its
        // work. CUPTI stops to record works before it stops to record calls, so no work at all lacks its launch.
        let counted: u64 = lost(log).values().sum();
        assert!(counted < 100, "{:?}", lost(log));
        let recorded = recorded_intervals(log);
        let (mut called, mut expected, mut ran) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for activity in activities(log) {
            if let Activity::Call { call, waits: false } = activity {
                called.insert(call.correlation);
                let is_within =
                    |&(start, end): &(u64, u64)| call.start_ticks >= start && call.end_ticks <= end;
                if recorded.iter().any(is_within) {
                    expected.insert(call.correlation);
                }
            } else if let Some(work) = work_of(&activity) {
                ran.insert(work.correlation);
            }
        }
        assert!(
            expected.len() as u64 > most * 4 / 5,
            "{} of {most}",
            expected.len()
        );
        let missing = expected.difference(&ran).count() as u64;
        assert!(
            missing <= counted,
            "rank {rank}: {missing} launches without work, {counted} counted"
        );
        assert_eq!(ran.difference(&called).count(), 0, "rank {rank}");
    }
}

/// With a real library but no driver, none of the library's functions is called, whatever the settings.
#[test]
fn a_real_cupti_without_a_driver_is_left_alone() {
    let script = artefacts::root().join("tests/setup/cupti.sh");
    let output = Command::new(&script).output().expect("it runs");
    let libraries = String::from_utf8_lossy(&output.stdout).into_owned();
    if libraries.trim().is_empty() {
        skip("no real CUPTI library");
        return;
    }
    let turn = turn::share();
    let Some(program) = compile::gloo("gloo_all.cc") else {
        return;
    };
    for library in libraries.lines() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // The library is loaded before the first communicator, as in a process with PyTorch.
        let finished = Job::program(&program, 2)
            .env("RANKSCOPE_KERNELS", "all")
            .env("RANKSCOPE_CUPTI", library)
            .env("BESIDE", library)
            .under(&[
                "sh",
                "-c",
                "LD_PRELOAD=\"$LD_PRELOAD $BESIDE\"; export LD_PRELOAD; exec \"$@\"",
                "sh",
            ])
            .record_into(directory.path())
            .run(&turn);
        finished.expect_status(0);
        for log in recorded::read_ranks(directory.path(), &finished.pids) {
            assert_eq!(log.of_kind(RecordKind::Activity).count(), 0);
            assert!(!log.log.properties.contains_key("source.cupti"), "{library}");
        }
    }
}

/// Reads records that the double wrote and that were saved byte by byte, as on a machine with a GPU. They are read
/// without the double.
#[test]
fn saved_records_are_the_works() {
    use rankscope_cupti_sys::dump::Dump;
    use rankscope_cupti_sys::record;
    let turn = turn::share();
    for (version, _) in compile::CUPTI_VERSIONS {
        let saved = tempfile::tempdir().expect("a temporary directory");
        let directory = saved.path().to_str().expect("a plain name").to_owned();
        let settings = Settings {
            version,
            steps: 20,
            more: &[("RANKSCOPE_CUPTI_DUMP", &directory)],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for pid in &run.finished.pids {
            let bytes = std::fs::read(saved.path().join(format!("{pid}.cuptidump"))).expect("a dump");
            let dump = Dump::open(&bytes).expect("a dump");
            assert_eq!(dump.version, version);
            let mut works = 0;
            for found in dump {
                match found.expect("whole records").0 {
                    record::Activity::Kernel(kernel) => {
                        works += 1;
                        assert!(kernel.span.is_whole() && !kernel.name.is_null());
                    }
                    record::Activity::MemoryCopy(_) | record::Activity::MemorySet(_) => works += 1,
                    _ => {}
                }
            }
            assert_eq!(works, WORKS * settings.steps, "version {version}");
        }
    }
}
