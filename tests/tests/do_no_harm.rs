//! Tests that every C++ program of `tests/programs/` behaves the same without the library, with an idle preload, and
//! while being recorded.
//!
//! Exit status, output, operations and caught exceptions are the same. `truth_torch.rs` has the same test of PyTorch's
//! programs, on the recordings that it needs anyway.

use rankscope_tests::behaviour::Behaviour;
use rankscope_tests::compile;
use rankscope_tests::job::Job;
use rankscope_tests::turn::{self, Turn};
use rankscope_tests::wait_until;

/// Runs a job alone and recorded. Both must end with these statuses.
fn compare(turn: &Turn, what: &str, statuses: &[i32], job: impl Fn() -> Job) -> Behaviour {
    let plain = job().run(turn);
    plain.expect_statuses(statuses);
    let plain = Behaviour::of(&plain);

    let directory = tempfile::tempdir().expect("a temporary directory");
    let recorded = job().record_into(directory.path()).run(turn);
    plain.expect_of(&recorded, what);
    plain
}

/// Compares a C++ program, with an additional argument unless it is empty.
fn gloo(source: &str, argument: &str, statuses: &[i32]) {
    let turn = turn::share();
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

/// Scheduling of a thread: its policy and its nice value (fields 41 and 19 of /proc/PID/task/TID/stat).
fn scheduling(stat: &str) -> (i32, i32) {
    let (_, fields) = stat.rsplit_once(')').expect("a command name");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // The first of these fields is field 3.
    let field = |number: usize| fields[number - 3].parse().expect("a number");
    (field(41), field(19))
}

/// A killed process ends with its last thread. A thread with a lower priority than the job would keep a rank's memory and
/// devices for minutes on a busy machine.
#[test]
fn no_thread_has_a_lower_priority_than_the_job() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let running = Job::program(&program, 2)
        .record_into(directory.path())
        .counted()
        .start(&turn);
    wait_until("the job works", || running.counter(0).so_far() > 1000);
    let pid = running.rank(0).id();
    let own = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, nice) = scheduling(&own);
    let threads = || -> Vec<(i32, i32)> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
        tasks
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok())
            .map(|stat| scheduling(&stat))
            .collect()
    };
    wait_until("the recorder's thread has its policy", || {
        threads().contains(&(libc::SCHED_BATCH, nice))
    });
    for (policy, of_thread) in threads() {
        assert!(
            [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&policy),
            "{policy}"
        );
        assert_eq!(of_thread, nice);
    }
    for rank in 0..2 {
        running.rank(rank).signal(libc::SIGKILL);
    }
    running.wait();
}
