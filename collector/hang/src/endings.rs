//! How processes ended that are not children of this one: exit status, signal, and kills for lack of memory.
//!
//! A descriptor of a process (pidfd) becomes readable at its end. Until the parent has read the exit status, /proc shows it.
//! From Linux 6.15 on, the descriptor reports it after that. Older kernels then only show that a process is gone.

use crate::ending::{Ending, EndingKind};
use crate::process_handle::ProcessHandle;
use rustc_hash::FxHashMap;
use std::fs;

/// Maximum number of processes that are observed, and so of open descriptors.
const MAX_PROCESSES: usize = 4096;

/// Processes that are observed.
#[derive(Debug, Default)]
pub struct Endings {
    open: FxHashMap<u32, Observed>,
}

/// A process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Process id.
    pub pid: u32,
    /// How it ended. It is normal if the status is unknown.
    pub ending: Ending,
}

#[derive(Debug)]
struct Observed {
    process: ProcessHandle,
    /// File with the number of kills in the process's memory group; empty if there is none.
    memory_events: String,
    /// Number of kills for lack of memory before: of the group, and of the machine.
    kills: (Option<u64>, Option<u64>),
    /// The end was seen, and its status is awaited for this many more readings.
    patience: Option<u8>,
}

/// Number of readings in which the parent may read the status of an ended process.
const PATIENCE: u8 = 3;

impl Endings {
    /// Observes a process of this machine from now on. Its start time must match.
    pub fn observe(&mut self, pid: u32, start_time: &str) {
        if self.open.contains_key(&pid) || self.open.len() >= MAX_PROCESSES {
            return;
        }
        let Ok(process) = ProcessHandle::open(pid, start_time) else {
            return;
        };
        let memory_events = memory_events(pid).unwrap_or_default();
        let kills = (kills_of(&memory_events), kills_of("/proc/vmstat"));
        self.open.insert(
            pid,
            Observed {
                process,
                memory_events,
                kills,
                patience: None,
            },
        );
    }

    /// Returns the processes that have ended since the last call. Those that a signal ended come first: peers of a killed rank
    /// end with errors of their connections. With `is_last`, processes whose status is not known yet are among them.
    pub fn take_ended(&mut self, is_last: bool) -> Vec<Ended> {
        let mut pids: Vec<u32> = self.open.keys().copied().collect();
        pids.sort_unstable();
        let mut ended = Vec::new();
        for pid in pids {
            let Some(observed) = self.open.get_mut(&pid) else {
                continue;
            };
            if !observed.process.has_ended() {
                continue;
            }
            let status = observed.process.exit_status();
            if status.is_none() && !is_last {
                // The parent has not read the status yet, or the kernel does not keep it.
                let left = observed.patience.get_or_insert(PATIENCE);
                if *left > 0 {
                    *left -= 1;
                    continue;
                }
            }
            ended.push(Ended {
                pid,
                ending: ending(status, observed.was_out_of_memory()),
            });
            self.open.remove(&pid);
        }
        ended.sort_by_key(|process| process.ending.kind != EndingKind::BySignal);
        ended
    }
}

impl Observed {
    /// Returns true if the kernel has killed a process for lack of memory since: in its group, or on this machine.
    fn was_out_of_memory(&self) -> OutOfMemory {
        let grew = |before: Option<u64>, file: &str| match (before, kills_of(file)) {
            (Some(before), Some(now)) => now > before,
            _ => false,
        };
        if grew(self.kills.0, &self.memory_events) {
            OutOfMemory::OfItsGroup
        } else if grew(self.kills.1, "/proc/vmstat") {
            OutOfMemory::OfTheMachine
        } else {
            OutOfMemory::No
        }
    }
}

/// Whether the kernel's counters of kills for lack of memory have grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutOfMemory {
    No,
    OfItsGroup,
    OfTheMachine,
}

/// Returns how a process ended. `status` is in the format of `waitpid`.
fn ending(status: Option<i32>, memory: OutOfMemory) -> Ending {
    let of = |kind, words: &str| Ending {
        kind,
        words: words.to_owned(),
    };
    let Some(status) = status else {
        return match memory {
            OutOfMemory::No => Ending::normal(),
            _ => of(
                EndingKind::BySignal,
                "ended, probably killed by the kernel: out of memory",
            ),
        };
    };
    if !libc::WIFSIGNALED(status) {
        let kind = match libc::WEXITSTATUS(status) {
            0 => EndingKind::Normal,
            _ => EndingKind::Failed,
        };
        return of(kind, &format!("exit status {}", libc::WEXITSTATUS(status)));
    }
    let signal = libc::WTERMSIG(status);
    match (signal, memory) {
        (libc::SIGKILL, OutOfMemory::OfItsGroup) => {
            of(EndingKind::BySignal, "killed by the kernel: out of memory")
        }
        (libc::SIGKILL, OutOfMemory::OfTheMachine) => of(
            EndingKind::BySignal,
            "killed by SIGKILL, probably by the kernel: out of memory",
        ),
        (libc::SIGTERM | libc::SIGINT, _) => of(
            EndingKind::OnRequest,
            &format!("killed by {}", signal_name(signal)),
        ),
        _ => of(
            EndingKind::BySignal,
            &format!("killed by {}", signal_name(signal)),
        ),
    }
}

fn signal_name(signal: i32) -> String {
    let known = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    known.to_owned()
}

/// Returns the file with the number of kills in the memory group of a process (cgroup v2, else v1).
fn memory_events(pid: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path_of = |prefix: &dyn Fn(&str) -> Option<String>| groups.lines().find_map(prefix);
    let first = path_of(&|line| {
        let (_, path) = line.split_once(":memory:")?;
        Some(format!("/sys/fs/cgroup/memory{path}/memory.oom_control"))
    });
    first.or_else(|| {
        path_of(&|line| {
            let path = line.strip_prefix("0::")?;
            Some(format!("/sys/fs/cgroup{path}/memory.events"))
        })
    })
}

/// Returns the number of kills in a file with the line `oom_kill N`.
fn kills_of(file: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::process;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    fn observe(command: &str) -> (Endings, Child) {
        let child = Command::new("sh").args(["-c", command]).spawn().expect("a shell");
        let mut endings = Endings::default();
        let start = process::start_time(&child.id().to_string()).expect("it runs");
        endings.observe(child.id(), &start);
        (endings, child)
    }

    fn ending_of(mut endings: Endings, mut child: Child) -> String {
        assert!(child.wait().is_ok());
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(ended) = endings.take_ended(false).pop() {
                assert_eq!(ended.pid, child.id());
                return ended.ending.words;
            }
            assert!(Instant::now() < deadline, "it has ended");
        }
    }

    #[test]
    fn statuses_and_signals_of_other_processes_are_seen() {
        // Before Linux 6.15, only the end is seen.
        let (endings, child) = observe("sleep 0.2; exit 7");
        let words = ending_of(endings, child);
        assert!(["exit status 7", "ended"].contains(&words.as_str()), "{words}");
        let (endings, child) = observe("sleep 30");
        // SAFETY: the child is not reaped yet.
        unsafe { libc::kill(child.id() as i32, libc::SIGKILL) };
        let words = ending_of(endings, child);
        assert!(
            ["killed by SIGKILL", "ended"].contains(&words.as_str()),
            "{words}"
        );
    }

    #[test]
    fn words_name_status_signal_and_memory() {
        let no = OutOfMemory::No;
        for (status, memory, kind, words) in [
            (Some(0), no, EndingKind::Normal, "exit status 0"),
            (Some(3 << 8), no, EndingKind::Failed, "exit status 3"),
            (Some(libc::SIGSEGV), no, EndingKind::BySignal, "killed by SIGSEGV"),
            (
                Some(libc::SIGTERM),
                no,
                EndingKind::OnRequest,
                "killed by SIGTERM",
            ),
            (
                Some(libc::SIGKILL),
                OutOfMemory::OfItsGroup,
                EndingKind::BySignal,
                "killed by the kernel: out of memory",
            ),
            (None, no, EndingKind::Normal, "ended"),
        ] {
            let words = words.to_owned();
            assert_eq!(ending(status, memory), Ending { kind, words });
        }
    }

    #[test]
    fn the_status_is_seen_before_the_parent_reads_it() {
        let (mut endings, mut child) = observe("sleep 0.2; exit 7");
        let deadline = Instant::now() + Duration::from_secs(10);
        let ended = loop {
            if let Some(ended) = endings.take_ended(false).pop() {
                break ended;
            }
            assert!(Instant::now() < deadline, "it has ended");
        };
        assert_eq!(ended.ending.words, "exit status 7");
        assert!(child.wait().is_ok());
    }

    #[test]
    fn a_number_of_another_process_is_not_observed() {
        let mut endings = Endings::default();
        endings.observe(std::process::id(), "1");
        assert!(endings.open.is_empty());
    }
}
