//! How processes ended that are not children of this one: exit status, signal, and kills for lack of memory.
//!
//! A descriptor of a process (pidfd) becomes readable at its end. Until the parent has read the exit status, /proc shows it.
//! From Linux 6.15 on, the descriptor reports it after that. Older kernels then only show that a process is gone.

use crate::ending::{Ending, EndingKind};
use crate::memory_kills::{MemoryKills, OutOfMemory, counter_of};
use crate::process_handle::ProcessHandle;
use rustc_hash::FxHashMap;

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
                ending: ending(status, &observed.memory_group, &mut self.memory_kills),
            });
            self.open.remove(&pid);
        }
        ended
    }
}

/// Returns how a process of a memory group ended. `status` is in the format of `waitpid`.
fn ending(status: Option<i32>, memory_group: &str, memory_kills: &mut MemoryKills) -> Ending {
    let of = |kind, words: String| Ending { kind, words };
    let Some(status) = status else {
        return match memory_kills.attribute(memory_group) {
            OutOfMemory::No => Ending::normal(),
            _ => of(
                EndingKind::BySignal,
                "ended, probably killed by the kernel: out of memory".to_owned(),
            ),
        };
    };
    if !libc::WIFSIGNALED(status) {
        let status = libc::WEXITSTATUS(status);
        if status == 0 {
            return of(EndingKind::Normal, "exit status 0".to_owned());
        }
        // The worker of a data loader, for example.
        let why = if memory_kills.has_unattributed(memory_group) {
            "; the kernel has killed another process of its memory group: out of memory"
        } else {
            ""
        };
        return of(EndingKind::Failed, format!("exit status {status}{why}"));
    }
    let signal = libc::WTERMSIG(status);
    let name = signal_name(signal);
    match signal {
        libc::SIGTERM | libc::SIGINT => of(EndingKind::OnRequest, format!("killed by {name}")),
        libc::SIGKILL => match memory_kills.attribute(memory_group) {
            OutOfMemory::OfItsGroup => of(
                EndingKind::BySignal,
                "killed by the kernel: out of memory".to_owned(),
            ),
            OutOfMemory::OfTheMachine => of(
                EndingKind::BySignal,
                "killed by SIGKILL, probably by the kernel: out of memory".to_owned(),
            ),
            OutOfMemory::No => of(EndingKind::BySignal, "killed by SIGKILL".to_owned()),
        },
        _ => of(EndingKind::BySignal, format!("killed by {name}")),
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
    fn words_name_status_and_signal() {
        for (status, kind, words) in [
            (Some(0), EndingKind::Normal, "exit status 0"),
            (Some(3 << 8), EndingKind::Failed, "exit status 3"),
            (Some(libc::SIGSEGV), EndingKind::BySignal, "killed by SIGSEGV"),
            (Some(libc::SIGTERM), EndingKind::OnRequest, "killed by SIGTERM"),
            (Some(libc::SIGKILL), EndingKind::BySignal, "killed by SIGKILL"),
            (None, EndingKind::Normal, "ended"),
        ] {
            let words = words.to_owned();
            let ending = ending(status, "", &mut MemoryKills::default());
            assert_eq!(ending, Ending { kind, words });
        }
    }

    #[test]
    fn words_name_kills_for_lack_of_memory() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let group = directory.path().join("memory.events").display().to_string();
        let set = |kills: u64| std::fs::write(&group, format!("oom_kill {kills}\n")).expect("it is written");
        set(1 << 40);
        let mut kills = MemoryKills::default();
        kills.observe(&group);
        set((1 << 40) + 1);
        let words = ending(Some(1 << 8), &group, &mut kills).words;
        assert_eq!(
            words,
            "exit status 1; the kernel has killed another process of its memory group: out of memory"
        );
        let words = ending(Some(libc::SIGKILL), &group, &mut kills).words;
        assert_eq!(words, "killed by the kernel: out of memory");
        let words = ending(Some(libc::SIGKILL), &group, &mut kills).words;
        assert_eq!(words, "killed by SIGKILL");
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
