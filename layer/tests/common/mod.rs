//! Runs a test of this file again as a child process with its own recording, and reads the log.

#![allow(dead_code, reason = "each test file uses a part")]

use rankscope_ranklog::mark::MarkKind;
use rankscope_ranklog::reader::{Problem, RankLog, ThreadRecord};
use rankscope_ranklog::record::RecordKind;
use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Variable that a child gets: its recording's directory.
pub const CHILD: &str = "LAYER_TEST_CHILD";

/// Returns true in a child.
pub fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Starts the recording of a child whose test expects every record. The first mark waits at most 100 ms for the recorder. A
/// busy machine may need longer, and then counts a lost record.
pub fn wait_for_recorder() {
    assert!(rankscope_layer::is_recording());
    std::thread::sleep(Duration::from_millis(500));
}

/// Starts the test with this name as a child.
pub fn start(test: &str, directory: &Path, variables: &[(&str, &str)]) -> Child {
    let program = env::current_exe().expect("a program");
    Command::new(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .env("RANKSCOPE_DIR", directory.join("run"))
        .env("RANKSCOPE_MIN_FREE_MIB", "0")
        // A killed process leaves its live area.
        .env("RANKSCOPE_LIVE_DIR", directory)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Runs the test with this name as a child, to a good end.
pub fn run(test: &str, directory: &Path, variables: &[(&str, &str)]) {
    let output = start(test, directory, variables)
        .wait_with_output()
        .expect("an end");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test}: {}\n{text}", output.status);
}

/// The only log in a directory, with all records.
pub struct Recorded {
    /// The log.
    pub log: RankLog,
    /// Records, in order.
    pub records: Vec<ThreadRecord>,
    /// System id of each thread.
    pub threads: Vec<u32>,
}

impl Recorded {
    /// Reads the log.
    pub fn read(directory: &Path) -> Self {
        let mut logs: Vec<_> = std::fs::read_dir(directory.join("run"))
            .expect("a run directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "rslog"))
            .collect();
        assert_eq!(logs.len(), 1, "{logs:?}");
        let log = RankLog::open(&logs.remove(0)).expect("a log");
        let (records, threads, problems) = log.all_records();
        // The live area has what a killed process did not write to the end.
        let is_expected = |problem: &Problem| problem.what.contains("is cut short");
        let unexpected: Vec<_> = problems
            .iter()
            .chain(&log.problems)
            .filter(|one| !is_expected(one))
            .collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
        Self {
            log,
            records,
            threads: threads.iter().map(|thread| thread.id).collect(),
        }
    }

    /// Returns the marks of a kind, with the ids of their threads.
    pub fn marks(&self, kind: MarkKind) -> impl Iterator<Item = (u32, &ThreadRecord)> {
        self.records
            .iter()
            .filter(move |record| {
                record.record.kind == RecordKind::Mark as u8 && record.record.operation == kind as u8
            })
            .map(|record| (self.threads[record.thread as usize], record))
    }

    /// Returns the text of a mark.
    pub fn text(&self, record: &ThreadRecord) -> &str {
        &self.log.texts[&(record.record.object as u32)]
    }

    /// Returns the number of marks that were counted as lost.
    pub fn lost(&self) -> u64 {
        let marks = self
            .log
            .losses
            .iter()
            .filter(|loss| loss.kind == RecordKind::Mark);
        marks.map(|loss| loss.count).sum()
    }
}

/// Returns the id of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}
