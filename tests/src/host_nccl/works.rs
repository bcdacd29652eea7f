//! What the device side executed (`tests/host-nccl/README.md`, "The truth").

use std::path::Path;

use serde_json::Value;

/// One kernel, from its first block to its last.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Process that launched it.
    pub pid: u32,
    /// Start in `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub start_ns: i64,
    /// End in `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub end_ns: i64,
}

/// One item of work of a channel, as the device side executed it.
#[derive(Debug, Clone)]
pub struct Work {
    /// Process that launched it.
    pub pid: u32,
    /// Number of its kernel in the process.
    pub launch: u64,
    /// Start in `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub start_ns: i64,
    /// Start by the device's timer, in nanoseconds.
    pub timer_start: i64,
    /// End by the device's timer, in nanoseconds.
    pub timer_end: i64,
}

/// Reads the work items in the directory of HOST_NCCL_TRUTH, in the order of time.
pub fn works(directory: &Path) -> Vec<Work> {
    let mut works: Vec<Work> = lines(directory, "work").iter().map(Work::of).collect();
    works.sort_by_key(|work| work.start_ns);
    works
}

/// Reads the kernels in the directory of HOST_NCCL_TRUTH, in the order of time.
pub fn kernels(directory: &Path) -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = lines(directory, "kernel").iter().map(Kernel::of).collect();
    kernels.sort_by_key(|kernel| kernel.start_ns);
    kernels
}

fn lines(directory: &Path, kind: &str) -> Vec<Value> {
    let files = directory.read_dir().expect("the directory of the truth");
    let mut lines = Vec::new();
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a readable file");
        let parse =
            |line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        lines.extend(text.lines().map(parse).filter(|line| line["kind"] == kind));
    }
    lines
}

fn number(line: &Value, name: &str) -> i64 {
    line[name].as_i64().unwrap_or_else(|| panic!("no {name}: {line}"))
}

impl Kernel {
    fn of(line: &Value) -> Self {
        Self {
            pid: number(line, "process") as u32,
            start_ns: number(line, "start_ns"),
            end_ns: number(line, "end_ns"),
        }
    }
}

impl Work {
    fn of(line: &Value) -> Self {
        Self {
            pid: number(line, "process") as u32,
            launch: number(line, "launch") as u64,
            start_ns: number(line, "start_ns"),
            timer_start: number(line, "timer_start"),
            timer_end: number(line, "timer_end"),
        }
    }
}
