//! Kills for lack of memory, as the kernel counts them: in each memory group, and on this machine.
//!
//! The counters do not say which process was killed. A kill is attributed to one observed process that SIGKILL ended.

use rustc_hash::FxHashMap;
use std::fs;

/// Counter of the kills on this machine, those in memory groups among them.
const MACHINE: &str = "/proc/vmstat";

/// Whether the kernel has killed a process for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// No kill was counted.
    No,
    /// A kill was counted in the process's memory group.
    OfItsGroup,
    /// A kill was counted on the machine.
    OfTheMachine,
}

/// Kills that were counted, and those that are attributed to a process or are older than this.
#[derive(Debug)]
pub struct MemoryKills {
    /// Kills on the machine that are old or attributed; `None` if the kernel does not count them.
    known_of_machine: Option<u64>,
    /// Kills in each memory group that are old or attributed, by the file of its counter.
    known_of_group: FxHashMap<String, u64>,
    /// Kills on the machine when this was created.
    of_machine_before: Option<u64>,
}

impl Default for MemoryKills {
    fn default() -> Self {
        let of_machine = counted(MACHINE);
        Self {
            known_of_machine: of_machine,
            known_of_group: FxHashMap::default(),
            of_machine_before: of_machine,
        }
    }
}

impl MemoryKills {
    /// Counts in this memory group from now on. Its kills before are new if the machine has had as many since this was created:
    /// a process can be observed after the kernel has chosen it.
    pub fn observe(&mut self, group: &str) {
        if self.known_of_group.contains_key(group) {
            return;
        }
        let Some(of_group) = counted(group) else { return };
        let of_machine = counted(MACHINE).zip(self.of_machine_before);
        let are_new = of_machine.is_some_and(|(now, before)| of_group <= now.saturating_sub(before));
        let known = if are_new { 0 } else { of_group };
        self.known_of_group.insert(group.to_owned(), known);
    }

    /// Attributes a kill that was counted to a process of this memory group.
    pub fn attribute(&mut self, group: &str) -> OutOfMemory {
        let of_group = self.known_of_group.get_mut(group);
        if let Some((known, now)) = of_group.zip(counted(group))
            && now > *known
        {
            *known += 1;
            if let Some(of_machine) = &mut self.known_of_machine {
                *of_machine += 1;
            }
            return OutOfMemory::OfItsGroup;
        }
        match self.known_of_machine.as_mut().zip(counted(MACHINE)) {
            Some((known, now)) if now > *known => {
                *known += 1;
                OutOfMemory::OfTheMachine
            }
            _ => OutOfMemory::No,
        }
    }

    /// Returns true if a kill was counted in this memory group that is not attributed to an observed process.
    pub fn has_unattributed(&self, group: &str) -> bool {
        let known = self.known_of_group.get(group);
        known.zip(counted(group)).is_some_and(|(&known, now)| now > known)
    }
}

/// Returns the file that counts the kills in the memory group of a process (cgroup v2, else v1).
pub fn counter_of(pid: u32) -> Option<String> {
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
fn counted(file: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of a group that a test sets.
    struct Counter(tempfile::TempDir);

    impl Counter {
        fn new(kills: u64) -> Self {
            let counter = Self(tempfile::tempdir().expect("a temporary directory"));
            counter.set(kills);
            counter
        }

        fn set(&self, kills: u64) {
            fs::write(self.file(), format!("low 0\noom 9\noom_kill {kills}\n")).expect("it is written");
        }

        fn file(&self) -> String {
            self.0.path().join("memory.events").display().to_string()
        }
    }

    #[test]
    fn each_kill_is_attributed_once_and_old_ones_never() {
        // More than this machine has had since.
        let counter = Counter::new(1 << 40);
        let mut kills = MemoryKills::default();
        kills.observe(&counter.file());
        assert!(!kills.has_unattributed(&counter.file()));
        counter.set((1 << 40) + 2);
        assert!(kills.has_unattributed(&counter.file()));
        assert_eq!(kills.attribute(&counter.file()), OutOfMemory::OfItsGroup);
        assert_eq!(kills.attribute(&counter.file()), OutOfMemory::OfItsGroup);
        assert!(!kills.has_unattributed(&counter.file()));
    }

    #[test]
    fn a_kill_in_a_group_that_is_seen_after_it_is_new_if_the_machine_had_it_since() {
        let counter = Counter::new(1);
        let mut kills = MemoryKills::default();
        let Some(of_machine) = &mut kills.of_machine_before else {
            return;
        };
        let Some(before) = of_machine.checked_sub(1) else {
            // This machine has had no kill. A kill of the group is old then.
            kills.observe(&counter.file());
            assert!(!kills.has_unattributed(&counter.file()));
            return;
        };
        *of_machine = before;
        kills.observe(&counter.file());
        assert_eq!(kills.attribute(&counter.file()), OutOfMemory::OfItsGroup);
    }

    #[test]
    fn a_group_without_a_counter_has_no_kill() {
        let mut kills = MemoryKills::default();
        kills.observe("/nonexistent/memory.events");
        assert!(!kills.has_unattributed("/nonexistent/memory.events"));
    }
}
