//! Tests the recording of devices under faults, on test doubles (`tests/doubles/cupti`).
//!
//! The faults are a flush that never returns, another tool that ends or takes over CUPTI, full buffers and logs, and a
//! child that starts recording where its parent did not. The job continues and ends normally, and the log reports what
//! is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use rankscope_ranklog::activity::{Activity, Coverage};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use rankscope_tests::cupti_run::{
    Run, Settings, Told, WORKS, activities, covered, lost, reported, run, true_works, works,
};
use rankscope_tests::recorded::Recorded;
use rankscope_tests::{compile, recorded, turn};

/// More than the error of a work's timestamps, and more than the time to change what is recorded.
const NEAR_NS: i64 = 1_000_000;

fn raw_now_ns() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn launched(run: &Run, rank: usize) -> u64 {
    run.printed(rank, "launched")["launched"]
        .as_u64()
        .expect("a number")
}

/// Returns the works that are reported as missing, by cause.
fn lost_works(log: &Recorded) -> BTreeMap<LossCause, u64> {
    let mut lost = lost(log);
    // Not a work: the recorder thread may report its coverage before a log exists.
    lost.remove(&LossCause::Starting);
    lost
}

fn ended(log: &Recorded) -> &str {
    log.log
        .properties
        .get("source.cupti_ended")
        .map_or("not ended", |reason| reason)
}

/// Asserts that nothing forbidden was done with the doubles or after a fork.
fn expect_no_violation(run: &Run, rank: usize) {
    let printed = run.printed(rank, "launched");
    for nothing in ["violations", "driver_violations"] {
        assert_eq!(printed[nothing], 0, "{nothing}: {printed}");
    }
}

/// Asserts that all works that ended before this time are in the log.
fn expect_whole_until(run: &Run, rank: usize, log: &Recorded, until_ns: i64) {
    let until = |works: &[Told], until_ns| works.iter().filter(|work| work.1 < until_ns).count();
    let truth = true_works(&run.truth(rank));
    let recorded = until(&reported(log), until_ns - NEAR_NS);
    let (least, most) = (until(&truth, until_ns - 2 * NEAR_NS), until(&truth, until_ns));
    assert!(least as u64 > WORKS, "{least}");
    let losses = &log.log.losses;
    assert!(
        (least..=most).contains(&recorded),
        "{recorded} of {least} to {most}: {losses:?}"
    );
}

#[test]
fn a_flush_that_never_returns_delays_the_end_of_the_job_by_a_second() {
    let turn = turn::share();
    // The second flush is at the end of the short job, and in the middle of the longer one.
    let cases = [(60, ""), (60, "exit"), (600, ""), (600, "exit"), (600, "_exit")];
    turn::side_by_side(cases, |(steps, exit)| {
        let settings = Settings {
            steps,
            more: &[("CUPTI_DOUBLE_STUCK", "2"), ("CUPTI_JOB_EXIT", exit)],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        let now = raw_now_ns();
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            let over = run.printed(rank, "over_ns")["over_ns"].as_i64().expect("a time");
            let took = Duration::from_nanos((now - over) as u64);
            // One second for CUPTI, a quarter of a second for the log, and a margin for a busy machine.
            assert!(took < Duration::from_millis(2500), "{took:?}");
            let printed = run.printed(rank, "launched");
            assert_eq!(printed["launched"], WORKS * steps);
            if exit != "_exit" {
                assert_eq!(printed["stuck"], 1, "the injected fault occurred: {printed}");
                assert!(took > Duration::from_millis(900), "nobody has waited: {took:?}");
            }
            expect_no_violation(&run, rank);
            assert!(works(log) < WORKS * steps);
        }
    });
}

#[test]
fn the_library_calls_nothing_after_the_program_ended_cupti() {
    let turn = turn::share();
    let versions = compile::CUPTI_VERSIONS.iter();
    let cases = versions.flat_map(|&(version, _)| [(version, ""), (version, "1")]);
    turn::side_by_side(cases, |(version, other)| {
        let mut more = vec![("CUPTI_DOUBLE_ENDS", "1"), ("CUPTI_JOB_FINALIZE", "1")];
        if !other.is_empty() {
            more.push(("CUPTI_JOB_OTHER", other));
        }
        let settings = Settings {
            version,
            steps: 600,
            more: &more,
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            let finalized = run.printed(rank, "finalized")["finalized"].clone();
            assert_eq!(finalized["result"], 0);
            expect_no_violation(&run, rank);
            let printed = run.printed(rank, "launched");
            assert_eq!(printed["kinds"], 0, "{printed}");
            // A launch in flight when rankscope unsubscribed may have requested two more buffers: one of its context for
            // the kernel, and one of its thread for the call. One thread launches.
            let outstanding = printed["outstanding"].as_i64();
            assert!(outstanding.is_some_and(|buffers| buffers <= 2), "{printed}");
            assert_eq!(ended(log), "another profiler ended CUPTI");
            assert_eq!(covered(log).last(), Some(&Coverage::Off), "version {version}");
            assert!(works(log) < launched(&run, rank));
            if !other.is_empty() {
                let theirs = run.printed(rank, "other")["other"].clone();
                assert_eq!(theirs["received"], theirs["launched"], "{theirs}");
                assert_eq!((&theirs["wrong"], &theirs["result"]), (&0.into(), &0.into()));
            }
        }
    });
}

#[test]
fn works_before_the_end_of_cupti_are_recorded() {
    let turn = turn::take();
    for version in [18, 130_500] {
        let settings = Settings {
            version,
            steps: 600,
            more: &[("CUPTI_DOUBLE_ENDS", "1"), ("CUPTI_JOB_FINALIZE", "1")],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            let finalized = run.printed(rank, "finalized")["finalized"].clone();
            let finalize_start_ns = finalized["begun_ns"].as_i64().expect("a time");
            expect_whole_until(&run, rank, log, finalize_start_ns);
            assert!(works(log) < launched(&run, rank));
        }
    }
}

#[test]
fn a_subscriber_of_the_second_interface_keeps_cupti() {
    let turn = turn::share();
    // One case subscribes before rankscope has started to record devices, the other after.
    turn::side_by_side([("all", true), ("all@2+10", false)], |(kernels, has_started)| {
        let settings = Settings {
            steps: 1200,
            kernels: Some(kernels),
            more: &[("CUPTI_JOB_OTHER", "second")],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            expect_no_violation(&run, rank);
            let theirs = run.printed(rank, "other")["other"].clone();
            assert_eq!(theirs["result"], 0, "{theirs}");
            assert!(theirs["callbacks"].as_u64() > Some(1000), "{theirs}");
            assert_eq!(
                ended(log),
                "another profiler subscribed by the second interface",
                "{kernels}"
            );
            assert_eq!(run.printed(rank, "over_ns")["kinds_then"], 0);
            let (recorded, launched) = (works(log), launched(&run, rank));
            if has_started {
                assert_eq!(covered(log), [Coverage::All, Coverage::Off]);
                // A third of the steps, and none after rankscope has yielded for good.
                assert!(
                    recorded > launched / 4 && recorded < launched * 2 / 5,
                    "{recorded} of {launched}"
                );
            } else {
                assert_eq!(covered(log), [Coverage::Off]);
                assert_eq!(recorded, 0);
            }
        }
    });
}

#[test]
fn a_profiler_that_bypasses_the_library_gets_cupti() {
    let turn = turn::share();
    turn::side_by_side(compile::CUPTI_VERSIONS, |(version, _)| {
        let settings = Settings {
            version,
            steps: 900,
            more: &[("CUPTI_JOB_OTHER", "direct")],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            expect_no_violation(&run, rank);
            let theirs = run.printed(rank, "other")["other"].clone();
            for nothing in ["missing", "twice", "wrong", "result"] {
                assert_eq!(theirs[nothing], 0, "version {version}: {nothing}: {theirs}");
            }
            assert!(theirs["launched"].as_u64() > Some(1000), "{theirs}");
            assert_eq!(theirs["received"], theirs["launched"]);
            assert_eq!(
                ended(log),
                "another profiler took CUPTI past us",
                "version {version}"
            );
            assert_eq!(covered(log), [Coverage::All, Coverage::Off]);
            let (recorded, launched) = (works(log), launched(&run, rank));
            assert!(
                recorded > 0 && recorded < launched / 2,
                "{recorded} of {launched}"
            );
            // Recorded works have their own times.
            let truth = true_works(&run.truth(rank));
            let (first, last) = (truth[0].0, truth.iter().map(|work| work.1).max());
            for work in reported(log) {
                assert!(
                    work.0 > first - NEAR_NS && Some(work.1) < last.map(|last| last + NEAR_NS),
                    "{work:?}"
                );
            }
        }
    });
}

#[test]
fn a_profiler_that_frees_every_buffer_does_no_harm() {
    let turn = turn::share();
    let others = [("free", false), ("direct, free", true)].into_iter();
    let cases = others.flat_map(|other| [(other, 18), (other, 130_500)]);
    turn::side_by_side(cases, |((other, is_past_us), version)| {
        let settings = Settings {
            version,
            steps: 900,
            more: &[("CUPTI_JOB_OTHER", other)],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            expect_no_violation(&run, rank);
            let theirs = run.printed(rank, "other")["other"].clone();
            assert_eq!(theirs["received"], theirs["launched"], "{theirs}");
            assert_eq!((&theirs["wrong"], &theirs["result"]), (&0.into(), &0.into()));
            let foreign = theirs["foreign_buffers"].as_u64().expect("a number");
            assert_eq!(foreign > 0, is_past_us, "the trouble has come: {theirs}");
            assert!(works(log) > 0);
        }
    });
}

#[test]
fn works_without_a_buffer_are_counted() {
    let turn = turn::take();
    // The first case exhausts the pool. The second also exceeds everything that may be allocated beyond it.
    for (holds, cause) in [("64", LossCause::NoBuffer), ("4000", LossCause::Profiler)] {
        let settings = Settings {
            steps: 1000,
            more: &[("CUPTI_DOUBLE_HOLDS", holds)],
            ..Settings::default()
        };
        let Some(run) = run(&turn, &settings) else { return };
        run.expect_well();
        for (rank, log) in run.logs().iter().enumerate() {
            expect_no_violation(&run, rank);
            let (recorded, launched, lost) = (works(log), launched(&run, rank), lost_works(log));
            assert_eq!(run.printed(rank, "launched")["outstanding"], 0);
            assert_eq!(lost.keys().collect::<Vec<_>>(), [&cause], "{lost:?}");
            assert!(recorded > 0 && lost[&cause] > WORKS, "{recorded} and {lost:?}");
            if cause == LossCause::NoBuffer {
                assert_eq!(recorded + lost[&cause], launched);
            } else {
                // CUPTI also counts calls in the number that it drops.
                assert!(recorded + lost[&cause] >= launched, "{recorded} and {lost:?}");
            }
        }
    }
}

#[test]
fn no_buffer_that_is_returned_while_others_are_emptied_is_lost() {
    let turn = turn::take();
    let settings = Settings {
        steps: 1000,
        more: &[("CUPTI_DOUBLE_MOST", "5"), ("CUPTI_JOB_DENSE", "200")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in run.logs().iter().enumerate() {
        expect_no_violation(&run, rank);
        let (recorded, lost) = (works(log), lost_works(log));
        let launched = launched(&run, rank);
        assert!(recorded > 0);
        assert_eq!(recorded + lost.values().sum::<u64>(), launched, "{lost:?}");
        // Calls without a buffer are not counted.
        if lost.is_empty() {
            let is_launch = |activity: &&Activity| matches!(activity, Activity::Call { waits: false, .. });
            let launches = activities(log).iter().filter(is_launch).count() as u64;
            // A graph is one launch of five works.
            assert_eq!(launches, launched - 4 * settings.steps);
        }
    }
}

#[test]
fn an_exit_while_buffers_are_emptied_leaves_none_outstanding() {
    let turn = turn::take();
    let settings = Settings {
        steps: 1,
        more: &[("CUPTI_JOB_DENSE", "400000"), ("RANKSCOPE_EXIT_WAIT_MS", "10000")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in run.logs().iter().enumerate() {
        expect_no_violation(&run, rank);
        let printed = run.printed(rank, "launched");
        assert_eq!(
            (&printed["kinds"], &printed["outstanding"]),
            (&0.into(), &0.into()),
            "{printed}"
        );
        let lost = lost_works(log);
        assert_eq!(
            works(log) + lost.values().sum::<u64>(),
            launched(&run, rank),
            "{lost:?}"
        );
    }
}

#[test]
fn cupti_is_not_called_after_the_deadline_of_an_exit() {
    let turn = turn::share();
    let settings = Settings {
        steps: 60,
        more: &[("RANKSCOPE_EXIT_WAIT_MS", "0"), ("CUPTI_JOB_LINGER", "1")],
        ..Settings::default()
    };
    // The double ends a process that calls it after the libraries have finished.
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
}

#[test]
fn a_log_that_is_full_switches_cupti_off() {
    let turn = turn::take();
    let settings = Settings {
        steps: 1200,
        more: &[("RANKSCOPE_MAX_DISK_MIB", "1"), ("CUPTI_JOB_DENSE", "500")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    for (rank, log) in run.logs().iter().enumerate() {
        expect_no_violation(&run, rank);
        let over = run.printed(rank, "over_ns");
        assert_eq!(over["kinds_then"], 0, "while the job still runs");
        let (recorded, launched, lost) = (works(log), launched(&run, rank), lost_works(log));
        assert_eq!(launched, (WORKS + 500) * settings.steps);
        assert!(
            recorded > 0 && recorded < launched * 9 / 10,
            "{recorded} of {launched}"
        );
        assert!(lost.contains_key(&LossCause::Disk), "{lost:?}");
        assert!(log.lost(RecordKind::Call) > 0, "the calls went on");
    }
}

#[test]
fn a_child_that_starts_with_cuda_is_recorded() {
    let turn = turn::share();
    let settings = Settings {
        steps: 120,
        more: &[("CUPTI_JOB_CHILD", "1")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well();
    let logs = recorded::read_all(run.directory.path());
    for (rank, pid) in run.finished.pids.iter().enumerate() {
        let printed = run.printed(rank, "child");
        assert_eq!(printed["status"], 0);
        expect_no_violation(&run, rank);
        let child = printed["child"].as_u64().expect("a process") as u32;
        let of = |pid: u32| logs.iter().find(|log| log.log.pid == pid);
        // The parent has recorded too, which is the condition under test.
        assert!(of(*pid).is_some(), "no log of the parent");
        let log = of(child).expect("a log of the child");
        assert_eq!(works(log), launched(&run, rank));
    }
}
