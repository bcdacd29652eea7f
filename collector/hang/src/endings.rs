//! How processes ended that are not children of this one: exit status, signal, and kills for lack of memory.
//!
//! A descriptor of a process (pidfd) becomes readable at its end. Until the parent has read the exit status, /proc shows it.
//! From Linux 6.15 on, the descriptor reports it after that. Older kernels then only show that a process is gone.

use crate::ending::{Ending, EndingKind};
use crate::memory_kills::{MemoryKills, OutOfMemory, counter_of};
use crate::process_handle::ProcessHandle;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of processes that are observed, and so of open descriptors.
const MAX_PROCESSES: usize = 4096;

/// Processes that are observed.
#[derive(Debug, Default)]
pub struct Endings {
    open: FxHashMap<u32, Observed>,
    memory_kills: MemoryKills,
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
    /// File that counts the kills in the process's memory group; empty if there is none.
    memory_group: String,
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
        let memory_group = counter_of(pid).unwrap_or_default();
        self.memory_kills.observe(&memory_group);
        self.open.insert(
            pid,
            Observed {
                process,
                memory_group,
                patience: None,
            },
        );
    }

    /// Returns the processes that have ended since the last call. With `is_last`, processes whose status is not known yet are
    /// among them.
    pub fn take_ended(&mut self, is_last: bool) -> Vec<Ended> {
        let mut pids: Vec<u32> = self.open.keys().copied().collect();
        pids.sort_unstable();
        let mut ended: Vec<(u32, Option<i32>, String)> = Vec::new();
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
            ended.push((pid, status, std::mem::take(&mut observed.memory_group)));
            self.open.remove(&pid);
        }
        // A process without a known status may be one of those that were killed.
        let mut killed: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (_, status, group) in &ended {
            let (known, unknown) = killed.entry(group).or_insert((0, 0));
            *known += u64::from(is_sigkill(*status));
            *unknown += u64::from(status.is_none());
        }
        let attributed: BTreeMap<&str, OutOfMemory> = killed
            .into_iter()
            .filter(|&(_, (known, _))| known > 0)
            .map(|(group, (known, unknown))| (group, self.memory_kills.attribute(group, known, unknown)))
            .collect();
        ended
            .iter()
            .map(|(pid, status, group)| {
                let memory = match attributed.get(group.as_str()) {
                    Some(&memory) if is_sigkill(*status) => memory,
                    _ if self.memory_kills.has_unattributed(group) => OutOfMemory::Some,
                    _ => OutOfMemory::No,
                };
                Ended {
                    pid: *pid,
                    ending: ending(*status, memory),
                }
            })
            .collect()
    }
}

fn is_sigkill(status: Option<i32>) -> bool {
    status.is_some_and(|status| libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL)
}

/// Returns how a process ended. `status` is in the format of `waitpid`; `memory` says whether the kernel killed it, or a
/// process of its memory group, for lack of memory.
fn ending(status: Option<i32>, memory: OutOfMemory) -> Ending {
    // The killed process may be the worker of a data loader, for example.
    let of_group = match memory {
        OutOfMemory::Some => "; the kernel has killed a process of its memory group: out of memory",
        _ => "",
    };
    let (kind, words) = match status {
        // Whether it was killed itself shows in its log.
        None if memory == OutOfMemory::Some => (EndingKind::Unclosed, "ended".to_owned()),
        None => return Ending::normal(),
        Some(status) if !libc::WIFSIGNALED(status) => match libc::WEXITSTATUS(status) {
            0 => {
                return Ending {
                    kind: EndingKind::Normal,
                    words: "exit status 0".to_owned(),
                };
            }
            status => (EndingKind::Failed, format!("exit status {status}")),
        },
        Some(status) => {
            let signal = libc::WTERMSIG(status);
            let kind = match signal {
                libc::SIGTERM | libc::SIGINT => EndingKind::OnRequest,
                _ => EndingKind::BySignal,
            };
            let words = match memory {
                OutOfMemory::All => "killed by the kernel: out of memory".to_owned(),
                OutOfMemory::OfTheMachine => {
                    "killed by SIGKILL, probably by the kernel: out of memory".to_owned()
                }
                _ => format!("killed by {}", signal_name(signal)),
            };
            (kind, words)
        }
    };
    Ending {
        kind,
        words: format!("{words}{of_group}"),
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
        let killed = Some(libc::SIGKILL);
        for (status, memory, kind, words) in [
            (Some(0), OutOfMemory::No, EndingKind::Normal, "exit status 0"),
            (Some(3 << 8), OutOfMemory::No, EndingKind::Failed, "exit status 3"),
            (
                Some(3 << 8),
                OutOfMemory::Some,
                EndingKind::Failed,
                "exit status 3; the kernel has killed a process of its memory group: out of memory",
            ),
            (
                Some(libc::SIGSEGV),
                OutOfMemory::No,
                EndingKind::BySignal,
                "killed by SIGSEGV",
            ),
            (
                Some(libc::SIGTERM),
                OutOfMemory::No,
                EndingKind::OnRequest,
                "killed by SIGTERM",
            ),
            (killed, OutOfMemory::No, EndingKind::BySignal, "killed by SIGKILL"),
            (
                killed,
                OutOfMemory::All,
                EndingKind::BySignal,
                "killed by the kernel: out of memory",
            ),
            (
                killed,
                OutOfMemory::Some,
                EndingKind::BySignal,
                "killed by SIGKILL; the kernel has killed a process of its memory group: out of memory",
            ),
            (
                killed,
                OutOfMemory::OfTheMachine,
                EndingKind::BySignal,
                "killed by SIGKILL, probably by the kernel: out of memory",
            ),
            (None, OutOfMemory::No, EndingKind::Normal, "ended"),
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
