//! Tests `rankscope top` on real jobs: the figures for scripts, and the screen in a terminal.
//!
//! The figures are compared with the job's own report of its steps. The screen runs in tmux, which answers keys and
//! captures what a person would see.

use rankscope_tests::job::Job;
use rankscope_tests::process::Ended;
use rankscope_tests::{artefacts, compile, results, skip, turn, wait_until};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn top(run: &Path, options: &[&str]) -> Ended {
    let run = run.to_str().expect("a name");
    results::rankscope(["top", run, "--once"].iter().chain(options).copied())
}

fn figures(run: &Path, options: &[&str]) -> Value {
    let ended = top(run, &[&["--json"], options].concat());
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.text()))
}

/// Starts of the steps that a rank of `gloo_train` reports, in nanoseconds since 1970.
fn starts(report: &str) -> Vec<i64> {
    let lines = report.lines();
    lines
        .filter_map(|line| line.strip_prefix("began ")?.parse().ok())
        .collect()
}

#[test]
fn the_figures_are_those_of_the_job() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    // Steps of 25 ms; rank 2 of 4 is late by another 10 ms.
    let mut job = Job::program(&program, 4).record_into(&run);
    for argument in ["ddp", "300", "25000", "persistent", "2", "400", "7"] {
        job = job.arg(argument);
    }
    let running = job.start(&turn);
    wait_until("the job records", || top(&run, &["--json"]).code() == 0);
    sleep(Duration::from_secs(6));
    let seen = figures(&run, &["--window", "4s"]);
    let text = top(&run, &[]).text();
    let finished = running.wait();
    finished.expect_status(0);

    assert_eq!(seen["version"], 1);
    assert_eq!(seen["ranks_running"], 4, "{seen}");
    assert_eq!(seen["ranks_expected"]["value"], 4);
    assert_eq!(seen["attempt"]["number"], 1);
    assert_eq!(seen["window"]["is_shortened"], false);
    let length_ns = seen["window"]["length_ns"]["value"].as_i64().expect("a length");
    assert!(
        (3_900_000_000..=4_000_000_001).contains(&length_ns),
        "{length_ns}"
    );
    // A slow machine delays the reading, and not the job.
    let idle_ns = seen["idle_for_ns"]["value"].as_i64().expect("an age");
    assert!(idle_ns < 2_000_000_000, "{idle_ns}");

    let starts = starts(&finished.reported("rank0.steps"));
    let read_ns = seen["read_unix_ns"].as_i64().expect("a time");
    let steps = starts
        .windows(2)
        .filter(|step| step[0] > read_ns - 3_900_000_000 && step[1] < read_ns);
    let durations: Vec<i64> = steps.map(|step| step[1] - step[0]).collect();
    assert!(durations.len() > 20, "{durations:?}");
    let expected = durations.len() as f64 / (durations.iter().sum::<i64>() as f64 / 1e9);
    let rate = seen["steps_per_s"]["value"].as_f64().expect("a step rate");
    assert!((rate / expected - 1.0).abs() < 0.1, "{rate} and {expected}");
    // Four all-reduces per step and rank.
    let operations = seen["operations_per_s"]["value"].as_f64().expect("a rate");
    assert!(
        (operations / (rate * 16.0) - 1.0).abs() < 0.1,
        "{operations} and {rate}"
    );

    let ranks = seen["ranks"].as_array().expect("ranks");
    let caused = |rank: &Value| rank["caused_exposed_rank_ns"].as_i64().expect("a time");
    let worst = ranks.iter().max_by_key(|rank| caused(rank)).expect("a rank");
    assert_eq!(worst["rank_numbers"], serde_json::json!([2]), "{seen}");
    let warnings = seen["warnings"].as_array().expect("warnings");
    assert!(
        warnings.iter().any(|warning| warning["kind"] == "late-rank"),
        "{seen}"
    );
    // The late rank is in the first row.
    let rows: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("NAME"))
        .collect();
    assert!(rows[1].starts_with("rank 2  running"), "{text}");

    // After the end, the last figures remain.
    let ended = figures(&run, &[]);
    assert_eq!(ended["ranks_running"], 0);
    assert!(top(&run, &[]).text().contains("the run has ended"));
}

#[test]
fn a_restart_replaces_the_ranks_and_a_stopped_job_is_idle() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    std::fs::create_dir(&run).expect("a run directory");
    let empty = top(&run, &["--json"]);
    assert_eq!(empty.code(), 3, "{}", empty.complaints());
    assert!(empty.complaints().contains("nothing of the job was seen yet"));
    assert_eq!(top(&directory.path().join("nothing"), &[]).code(), 2);

    let attempt = |restart: &str, size: usize| {
        Job::program(&program, size)
            .record_into(&run)
            .env("TORCHELASTIC_RUN_ID", "run")
            .env("TORCHELASTIC_RESTART_COUNT", restart)
            .env("RANKSCOPE_PARTIAL_MS", "100")
            .counted()
            .start(&turn)
    };
    let first = attempt("0", 3);
    wait_until("the first attempt works", || first.counter(0).so_far() > 1000);
    assert_eq!(figures(&run, &[])["ranks"].as_array().map(Vec::len), Some(3));
    for rank in 0..3 {
        first.rank(rank).signal(libc::SIGKILL);
    }
    // The live areas must outlast the second attempt.
    let _first = first.wait();
    let second = attempt("1", 2);
    wait_until("the second attempt works", || second.counter(0).so_far() > 1000);
    let pids: Vec<u64> = (0..2).map(|rank| u64::from(second.rank(rank).id())).collect();
    let seen = figures(&run, &[]);
    assert_eq!(seen["attempt"]["number"], 2, "{seen}");
    assert_eq!(seen["attempt"]["restart"], 1);
    assert_eq!(seen["ranks_expected"]["value"], 2);
    let ranks = seen["ranks"].as_array().expect("ranks");
    let shown: Vec<u64> = ranks.iter().filter_map(|rank| rank["pid"].as_u64()).collect();
    assert_eq!(shown, pids);
    // No operation of the killed attempt counts, although thousands are in the last ten seconds. An operation that crosses
    // the start of the window may count for a rank alone.
    let of_ranks: u64 = ranks.iter().filter_map(|rank| rank["operations"].as_u64()).sum();
    let of_window = seen["operations_per_s"]["value"].as_f64().expect("a rate")
        * seen["window"]["length_ns"]["value"].as_f64().expect("a length")
        / 1e9;
    assert!(
        (of_window - of_ranks as f64).abs() < 5.0,
        "{of_window} and {of_ranks}"
    );

    second.rank(1).signal(libc::SIGSTOP);
    sleep(Duration::from_secs(7));
    let text = top(&run, &[]).text();
    assert!(text.contains("no operation completed for "), "{text}");
    assert!(text.contains("rankscope status "), "{text}");
    let seen = figures(&run, &[]);
    let idle_ns = seen["idle_for_ns"]["value"].as_i64().expect("an age");
    assert!((6_000_000_000..60_000_000_000).contains(&idle_ns), "{idle_ns}");
    let waiting = &seen["ranks"][0];
    assert!(
        waiting["in_call_for_ns"].as_i64() > Some(5_000_000_000),
        "{waiting}"
    );
    for rank in 0..2 {
        second.rank(rank).signal(libc::SIGKILL);
    }
    second.wait();
}

/// A terminal of tmux.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn start(name: &str, columns: u32, lines: u32) -> Option<Self> {
        let terminal = Self {
            socket: format!("rankscope-test-{name}-{}", std::process::id()),
        };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        // A plain shell, whose prompt shows that it reads again.
        let arguments = [
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &lines,
            "env PS1='ready> ' bash --norc",
        ];
        match terminal.tmux(&arguments) {
            Some(_) => Some(terminal),
            None => {
                skip("no tmux on this machine");
                None
            }
        }
    }

    fn tmux(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(arguments);
        let output = command.env("LANG", "C.UTF-8").output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn send(&self, keys: &[&str]) {
        let arguments = [&["send-keys"], keys].concat();
        self.tmux(&arguments).expect("tmux takes keys");
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).expect("tmux captures")
    }

    /// Waits until the screen contains a text.
    fn expect(&self, text: &str) -> String {
        self.expect_that(text, |screen| screen.contains(text))
    }

    /// Waits until the screen is as demanded. The terminal draws in parts, so one text on it does not mean that the rest is
    /// there.
    fn expect_that(&self, demand: &str, is_met: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if is_met(&screen) {
                return screen;
            }
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "not {demand:?}:\n{screen}"
            );
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_screen_answers_keys_and_restores_the_terminal() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let Some(terminal) = Terminal::start("top", 80, 24) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    let running = Job::program(&program, 2)
        .record_into(&run)
        .env("RANKSCOPE_PARTIAL_MS", "100")
        .counted()
        .start(&turn);
    wait_until("the job works", || running.counter(0).so_far() > 1000);

    terminal.expect("ready>");
    let command = format!(
        "{} top {} --window 5s",
        artefacts::program().display(),
        run.display()
    );
    terminal.send(&["clear", "Enter"]);
    terminal.send(&[&command, "Enter"]);
    let screen = terminal.expect_that("both ranks, an operation and the keys", |screen| {
        let texts = [
            "2 of 2 ranks, 2 running here",
            "all-reduce",
            "q quit",
            "rank 0",
            "rank 1",
        ];
        texts.iter().all(|text| screen.contains(text))
    });
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");

    terminal.send(&["/"]);
    terminal.send(&["1"]);
    terminal.expect("filter: 1");
    terminal.send(&["Enter"]);
    terminal.expect_that("rank 1 alone", |screen| {
        screen.contains("filter \"1\" of 2") && screen.contains("rank 1") && !screen.contains("rank 0")
    });
    terminal.send(&["Escape"]);
    terminal.expect("ranks 2, by caused");
    terminal.send(&["s"]);
    terminal.expect("ranks 2, by last");
    terminal.send(&["h"]);
    terminal.expect("hosts 1, by last");
    terminal.send(&["?"]);
    terminal.expect("Any key leaves this page");
    // The last line is not cut.
    terminal.expect("rankscope rules");
    terminal.send(&["x"]);
    terminal.send(&["w"]);
    terminal.expect("warning");
    terminal.send(&["w"]);
    terminal.send(&["p"]);
    terminal.expect("PAUSED");

    let is_restored = || {
        terminal.expect_that("the shell, and nothing of the screen before", |screen| {
            screen.contains("ready>") && !screen.contains("ranks, 2 running")
        });
        // Without echo, only the result would appear.
        terminal.send(&["echo an$((40 + 2))swer", "Enter"]);
        terminal.expect_that("the command and its answer", |screen| {
            screen.contains("an42swer") && screen.contains("echo an$((40 + 2))swer")
        });
        terminal.send(&["clear", "Enter"]);
    };
    terminal.send(&["q"]);
    is_restored();
    // Ctrl-C, and a signal from outside.
    terminal.send(&[&command, "Enter"]);
    terminal.expect("2 running here");
    terminal.send(&["C-c"]);
    is_restored();
    terminal.send(&[&format!("timeout 4 {command}"), "Enter"]);
    terminal.expect("2 running here");
    is_restored();

    for rank in 0..2 {
        running.rank(rank).signal(libc::SIGKILL);
    }
    running.wait();
}
