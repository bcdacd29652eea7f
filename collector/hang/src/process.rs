//! Facts of a process of this machine, from /proc.
//!
//! The process id in a log is that of the process's own namespace. In another namespace it may belong to another
//! process, so its start time must match too.

use rankscope_formats::status::ProcessState;
use rankscope_ranklog::process::{self, Stat};
use rankscope_ranklog::reader::RankLog;
use std::fs;
use std::path::PathBuf;

/// Maximum number of descendants of a process that are read: data loaders, compilers.
const MAX_DESCENDANTS: usize = 256;

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its state.
    pub state: ProcessState,
    /// True if a debugger or tracer is attached to it.
    pub is_traced: bool,
    /// True if its main thread waits for input on its standard input, as a breakpoint of pdb does.
    pub waits_for_input: bool,
    /// What the process and its descendants have done so far; `None` if it cannot be read.
    pub work: Option<Work>,
}

/// Amount of work of a process and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Processor time, in clock ticks.
    pub processor_ticks: u64,
    /// Time for which main threads were ready and no processor was free, in nanoseconds. On a machine with too few
    /// processors, a process that works gets little processor time.
    pub ready_ns: u64,
    /// Bytes that it has read and written through system calls.
    pub file_bytes: u64,
}

impl ProcessFacts {
    /// Returns facts of which only the state is known.
    pub fn of_state(state: ProcessState) -> Self {
        Self {
            state,
            is_traced: false,
            waits_for_input: false,
            work: None,
        }
    }

    /// Returns true if the process has ended.
    pub fn is_gone(&self) -> bool {
        self.state == ProcessState::Gone
    }

    /// Reads the facts of the process of a log of this boot.
    pub fn read(log: &RankLog) -> Self {
        let pid = log.pid.to_string();
        let Some(stat) = Stat::of(&pid) else {
            return Self::of_state(ProcessState::Gone);
        };
        if !log.is_running() {
            return Self::of_state(ProcessState::Gone);
        }
        Self {
            state: match stat.field(3) {
                Some("T" | "t") => ProcessState::Stopped,
                Some("D") => ProcessState::InKernel,
                _ => ProcessState::Running,
            },
            is_traced: status_field(&pid, "TracerPid:").is_some_and(|tracer| tracer != "0"),
            waits_for_input: reads_standard_input(&pid),
            work: Some(work(&pid, &stat)),
        }
    }
}

/// Returns the processor time of a process, in clock ticks: fields 14 (user) and 15 (system).
fn processor_ticks(stat: &Stat) -> u64 {
    let ticks = |number: usize| stat.field(number).and_then(|ticks| ticks.parse::<u64>().ok());
    ticks(14).unwrap_or(0) + ticks(15).unwrap_or(0)
}

fn status_field(pid: &str, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// Returns true if the main thread is in `read` of descriptor 0, or waits for descriptor 0 in `select` or `poll`.
///
/// The kernel shows the call only to users that may trace the process.
fn reads_standard_input(pid: &str) -> bool {
    const READ: &str = if cfg!(target_arch = "x86_64") { "0" } else { "63" };
    const SELECT: [&str; 2] = if cfg!(target_arch = "x86_64") {
        ["23", "270"]
    } else {
        ["72", "72"]
    };
    let Ok(call) = fs::read_to_string(format!("/proc/{pid}/syscall")) else {
        return false;
    };
    let mut words = call.split_whitespace();
    match (words.next(), words.next()) {
        (Some(READ), Some(descriptor)) => descriptor == "0x0",
        // The readline module waits in `select` with one descriptor.
        (Some(call), Some(count)) => SELECT.contains(&call) && count == "0x1",
        _ => false,
    }
}

/// Returns the work of a process and of its descendants that live, and of those that have ended and were waited for.
fn work(pid: &str, own: &Stat) -> Work {
    let mut sum = Work {
        processor_ticks: processor_ticks(own),
        ready_ns: ready_ns(pid),
        file_bytes: file_bytes(pid),
    };
    for child in descendants(pid) {
        if let Some(stat) = Stat::of(&child) {
            sum.processor_ticks += processor_ticks(&stat);
            sum.ready_ns += ready_ns(&child);
            sum.file_bytes += file_bytes(&child);
        }
    }
    sum
}

/// Returns the process IDs of the descendants of a process: at most [`MAX_DESCENDANTS`].
pub fn descendants(pid: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = children(pid);
    while let Some(child) = open.pop()
        && found.len() < MAX_DESCENDANTS
    {
        open.extend(children(&child));
        found.push(child);
    }
    found
}

/// Reads the second field of /proc/PID/schedstat: the run delay of the main thread. 0 on kernels without it.
fn ready_ns(pid: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let field = text.split_whitespace().nth(1);
    field.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn file_bytes(pid: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    value("rchar:") + value("wchar:")
}

fn children(pid: &str) -> Vec<String> {
    let Ok(threads) = fs::read_dir(PathBuf::from(format!("/proc/{pid}/task"))) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Returns the system's number of processor ticks per second.
pub fn ticks_per_second() -> u64 {
    // SAFETY: the call only returns a number.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100).max(1)
}

/// The boot of this machine, which the logs of its processes name.
pub fn is_of_this_boot(log: &RankLog) -> bool {
    let boot_id = log.properties.get("boot_id");
    boot_id.is_some() && boot_id == process::boot_id().as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_grows() {
        let pid = std::process::id().to_string();
        let read = || work(&pid, &Stat::of(&pid).expect("this process"));
        let before = read();
        let started = std::time::Instant::now();
        let mut sum = 0u64;
        while started.elapsed().as_millis() < 100 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let after = read();
        assert!(after.processor_ticks > before.processor_ticks);
        assert!(after.file_bytes > before.file_bytes, "reading /proc counts");
    }
}
