//! Tests that every program of `tests/programs/` behaves the same without the library and while being recorded.
//!
//! Exit status, output, operations and caught exceptions are the same. The small programs also run with an idle
//! preload.

use rankscope_tests::compile;
use rankscope_tests::job::{Finished, Job, for_each_python};
use rankscope_tests::turn::{self, Turn};
use serde_json::Value;

/// Behaviour that must not change: statuses, output (in any order, because threads and children print too), and the
/// truth except for times.
#[derive(Debug, PartialEq)]
struct Behaviour {
    statuses: Vec<i32>,
    outputs: Vec<Vec<String>>,
    operations: Vec<Vec<String>>,
}

impl Behaviour {
    fn of(finished: &Finished) -> Behaviour {
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let timeless = |mut line: Value| {
            if let Some(fields) = line.as_object_mut() {
                fields.retain(|name, _| !name.ends_with("_ns"));
            }
            line.to_string()
        };
        let ranks = 0..finished.ranks.len();
        Behaviour {
            statuses: finished.ranks.iter().map(|rank| rank.code()).collect(),
            outputs: finished
                .ranks
                .iter()
                .map(|rank| sorted(rank.text().lines().map(str::to_owned).collect()))
                .collect(),
            operations: ranks
                .map(|rank| sorted(finished.truth(rank).into_iter().map(timeless).collect()))
                .collect(),
        }
    }
}

/// Runs a job alone and recorded. Both must end with these statuses.
fn compare(turn: &Turn, what: &str, statuses: &[i32], job: impl Fn() -> Job) -> Behaviour {
    let plain = job().run(turn);
    plain.expect_statuses(statuses);
    let plain = Behaviour::of(&plain);

    let directory = tempfile::tempdir().expect("a temporary directory");
    let recorded = job().record_into(directory.path()).run(turn);
    let reported: Vec<String> = recorded.ranks.iter().map(|rank| rank.complaints()).collect();
    assert_eq!(
        Behaviour::of(&recorded),
        plain,
        "{what}: recorded; standard error:\n{}",
        reported.join("\n")
    );
    plain
}

/// Compares a C++ program, with an additional argument unless it is empty.
fn gloo(source: &str, argument: &str, statuses: &[i32]) {
    let turn = turn::take();
    let Some(program) = compile::gloo(source) else {
        return;
    };
    let job = || {
        let job = Job::program(&program, statuses.len());
        if argument.is_empty() {
            job
        } else {
            job.arg(argument)
        }
    };
    let what = format!("{source} {argument}");
    let plain = compare(&turn, &what, statuses, job);
    let idle = job().preload_idle().run(&turn);
    assert_eq!(Behaviour::of(&idle), plain, "{what}: preloaded, nothing to do");
}

fn torch(source: &str, statuses: &[i32]) {
    let turn = turn::take();
    for_each_python(|python| {
        let what = format!("{source} on {}", python.name);
        compare(&turn, &what, statuses, || {
            Job::torch(python, source, statuses.len())
        });
    });
}

#[test]
fn every_gloo_collective() {
    gloo("gloo_all.cc", "", &[0, 0]);
    gloo("gloo_all.cc", "", &[0, 0, 0, 0]);
}

#[test]
fn two_threads_in_swapped_order() {
    gloo("gloo_async.cc", "", &[0, 0, 0]);
}

#[test]
fn a_gloo_exception() {
    gloo("gloo_throw.cc", "", &[7, 7, 0]);
}

#[test]
fn many_threads() {
    gloo("gloo_threads.cc", "", &[0]);
}

#[test]
fn children_of_every_kind() {
    for how in [
        "fork-quiet",
        "fork-op",
        "_Fork-op",
        "clone-op",
        "fork-mesh",
        "vfork-exec",
        "spawn",
    ] {
        gloo("gloo_fork.cc", how, &[0, 0]);
    }
}

#[test]
fn a_storm_of_forks() {
    gloo("gloo_fork.cc", "fork-storm", &[0, 0]);
}

#[test]
fn every_way_out() {
    for how in ["return", "exit", "_exit", "quick_exit", "thread-exit", "exec"] {
        gloo("gloo_exit.cc", how, &[5, 5]);
    }
    gloo("gloo_exit.cc", "abort", &[134, 134]);
    gloo("gloo_exit.cc", "sigterm", &[143, 143]);
}

#[test]
fn sigwait() {
    gloo("gloo_sigwait.cc", "", &[0, 0]);
}

#[test]
fn the_last_thread_ends_the_process() {
    gloo("gloo_last_thread.cc", "", &[0, 0]);
}

#[test]
fn counted_operations() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let finished = Job::program(&program, 2).arg("1000").counted().run(&turn);
    finished.expect_status(0);
    assert_eq!(finished.counts, [1000, 1000]);
}

#[test]
fn every_c10d_collective() {
    torch("collectives.py", &[0, 0, 0]);
}

#[test]
fn overlapping_groups() {
    torch("subgroups.py", &[0, 0, 0]);
}

#[test]
fn worlds_one_after_another() {
    torch("reinit.py", &[0, 0]);
}

#[test]
fn a_known_wait() {
    torch("blocked.py", &[0, 0]);
}

#[test]
fn a_dying_peer() {
    torch("peer_dies.py", &[7, 7, 0]);
}

#[test]
fn ranks_that_leave_early() {
    torch("early_exit.py", &[0, 5, 0]);
}

#[test]
fn training_with_buckets() {
    torch("ddp.py", &[0, 0]);
}

#[test]
fn asynchronous_work_of_two_threads() {
    torch("swapped.py", &[0, 0]);
}
