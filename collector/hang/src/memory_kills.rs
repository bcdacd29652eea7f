//! Kills for lack of memory, as the kernel counts them: in each memory group, and on this machine.
//!
//! The counters do not say which process was killed. Kills are attributed to processes of the group that SIGKILL ended.

use rustc_hash::FxHashMap;
use std::fs;

/// Counter of the kills on this machine, those in memory groups among them.
const MACHINE: &str = "/proc/vmstat";

/// How kills for lack of memory explain the processes that SIGKILL ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// No kill was counted.
    No,
    /// As many kills were counted in their memory group as processes were killed or ended in an unknown way, or more.
    All,
    /// Fewer kills were counted in their memory group: something else ended the others.
    Some,
    /// A kill was counted on the machine. Their memory group has no counter.
    OfTheMachine,
}

/// Kills that were counted, and those that are attributed to a process or are older than this.
#[derive(Debug)]
pub struct MemoryKills {
    /// File that counts the kills on the machine.
    machine: String,
    /// Kills on the machine when this was created; `None` if the kernel does not count them.
    of_machine_before: Option<u64>,
    /// Kills on the machine that are old or attributed.
    known_of_machine: u64,
    /// Kills in each memory group that are old or attributed, by the file of its counter.
    known_of_group: FxHashMap<String, u64>,
}

impl Default for MemoryKills {
    fn default() -> Self {
        Self::of_machine(MACHINE)
    }
}

impl MemoryKills {
    /// Counts from now on. `machine` is the file that counts the kills on the machine.
    fn of_machine(machine: &str) -> Self {
        let before = counted(machine);
        Self {
            machine: machine.to_owned(),
            of_machine_before: before,
            known_of_machine: before.unwrap_or(0),
            known_of_group: FxHashMap::default(),
        }
    }

    /// Counts in this memory group from now on. Its kills before are new if the machine has had as many since this was created:
    /// a process can be observed after the kernel has chosen it.
    pub fn observe(&mut self, group: &str) {
        if self.known_of_group.contains_key(group) {
            return;
        }
        let Some(of_group) = counted(group) else { return };
        let of_machine = counted(&self.machine).zip(self.of_machine_before);
        let are_new = of_machine.is_some_and(|(now, before)| of_group <= now.saturating_sub(before));
        let known = if are_new { 0 } else { of_group };
        self.known_of_group.insert(group.to_owned(), known);
    }

    /// Attributes the kills that were counted to the processes of this memory group that SIGKILL ended since the last call.
    /// `unknown` is the number of those that ended in an unknown way.
    pub fn attribute(&mut self, group: &str, killed: u64, unknown: u64) -> OutOfMemory {
        if let Some((known, now)) = self.known_of_group.get_mut(group).zip(counted(group)) {
            // The kernel counts every kill of a process in its group, also if the whole machine lacks memory.
            let counted = now.saturating_sub(*known);
            let new = counted.min(killed);
            *known += new;
            self.known_of_machine += new;
            return match new {
                0 => OutOfMemory::No,
                _ if counted >= killed + unknown => OutOfMemory::All,
                _ => OutOfMemory::Some,
            };
        }
        match counted(&self.machine) {
            Some(now) if self.of_machine_before.is_some() && now > self.known_of_machine => {
                self.known_of_machine = now.min(self.known_of_machine + killed);
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

    /// Counters of a group and of a machine that a test sets.
    struct Counters(tempfile::TempDir);

    impl Counters {
        fn new(group: u64, machine: u64) -> Self {
            let counters = Self(tempfile::tempdir().expect("a temporary directory"));
            counters.set("group", group);
            counters.set("machine", machine);
            counters
        }

        fn set(&self, name: &str, kills: u64) {
            fs::write(self.file(name), format!("low 0\noom 9\noom_kill {kills}\n")).expect("it is written");
        }

        fn file(&self, name: &str) -> String {
            self.0.path().join(name).display().to_string()
        }

        fn kills(&self) -> MemoryKills {
            MemoryKills::of_machine(&self.file("machine"))
        }
    }

    #[test]
    fn each_kill_is_attributed_once_and_old_ones_never() {
        let counters = Counters::new(5, 7);
        let group = counters.file("group");
        let mut kills = counters.kills();
        kills.observe(&group);
        assert!(!kills.has_unattributed(&group));
        assert_eq!(kills.attribute(&group, 1, 0), OutOfMemory::No);
        counters.set("group", 7);
        counters.set("machine", 9);
        assert!(kills.has_unattributed(&group));
        assert_eq!(kills.attribute(&group, 1, 0), OutOfMemory::All);
        assert_eq!(kills.attribute(&group, 3, 0), OutOfMemory::Some);
        assert_eq!(kills.attribute(&group, 1, 0), OutOfMemory::No);
        // The kill may be that of the process whose end is not known.
        counters.set("group", 8);
        assert_eq!(kills.attribute(&group, 1, 1), OutOfMemory::Some);
        assert!(!kills.has_unattributed(&group));
    }

    #[test]
    fn kills_before_a_group_is_seen_are_new_if_the_machine_had_as_many_since() {
        let counters = Counters::new(1, 7);
        let group = counters.file("group");
        let (mut new, mut old) = (counters.kills(), counters.kills());
        old.observe(&group);
        assert_eq!(old.attribute(&group, 1, 0), OutOfMemory::No);
        counters.set("machine", 8);
        new.observe(&group);
        assert_eq!(new.attribute(&group, 1, 0), OutOfMemory::All);
    }

    #[test]
    fn the_machine_is_asked_only_where_the_group_has_no_counter() {
        let counters = Counters::new(0, 7);
        let group = counters.file("group");
        let mut kills = counters.kills();
        kills.observe(&group);
        // A kill in another group.
        counters.set("machine", 8);
        assert_eq!(kills.attribute(&group, 1, 0), OutOfMemory::No);
        assert_eq!(kills.attribute("/nonexistent", 2, 0), OutOfMemory::OfTheMachine);
        assert_eq!(kills.attribute("/nonexistent", 1, 0), OutOfMemory::No);
    }
}
