//! Memory of the process, and available memory.

use super::samples::Samples;
use std::fs;
use std::path::{Path, PathBuf};

/// Samples of memory.
pub struct Memory {
    page_bytes: u64,
    samples_host: bool,
    /// Directory of the process's control group under version 2.
    group: Option<PathBuf>,
}

impl Memory {
    /// Prepares the samples. With `samples_host`, available memory is sampled, too.
    pub fn new(samples_host: bool) -> Self {
        // SAFETY: sysconf has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            page_bytes: u64::try_from(page_bytes).unwrap_or(4096),
            samples_host,
            group: samples_host.then(group).flatten(),
        }
    }

    /// Samples the memory of the process, and the available memory.
    pub fn sample(&self, samples: &Samples) {
        // `/proc/self` is the main thread, and without memory once that has ended.
        if let Some((resident, shared)) = read("/proc/thread-self/statm")
            .as_deref()
            .and_then(resident_pages)
        {
            let bytes = |pages: u64| (pages * self.page_bytes) as f64;
            samples.put(&[b"process_resident_memory_bytes"], bytes(resident));
            samples.put(
                &[b"process_private_memory_bytes"],
                bytes(resident.saturating_sub(shared)),
            );
        }
        if self.samples_host
            && let Some(bytes) = self.memory_available_bytes()
        {
            samples.put(&[b"host_available_memory_bytes"], bytes as f64);
        }
    }

    /// Returns the available memory: of the host, or below the limits of the control groups if that is less.
    fn memory_available_bytes(&self) -> Option<u64> {
        let on_host = read("/proc/meminfo").as_deref().and_then(host_available_bytes)?;
        // Each group above this one may have a limit.
        let groups = self.group.iter().flat_map(|group| group.ancestors());
        let in_groups = groups
            .take_while(|group| group.starts_with(GROUPS))
            .filter_map(available_in_group);
        Some(in_groups.fold(on_host, u64::min))
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns the resident pages, and those of them that belong to files or are shared: the second and third number of
/// `/proc/PID/statm` (proc_pid_statm(5)).
fn resident_pages(statm: &str) -> Option<(u64, u64)> {
    let mut numbers = statm.split_whitespace().skip(1).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns `MemAvailable` of `/proc/meminfo` (proc_meminfo(5)).
fn host_available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Directory of the control groups of version 2.
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns the directory of this process's control group. `/proc/thread-self/cgroup` has the line `0::PATH` under version 2
/// (cgroups(7)).
fn group() -> Option<PathBuf> {
    let groups = read("/proc/thread-self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(GROUPS).join(path))
}

/// Returns the memory below the group's limit; `None` without a limit. Reclaimable page cache does not count as used.
fn available_in_group(directory: &Path) -> Option<u64> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let limit: u64 = text("memory.max")?.trim().parse().ok()?;
    let used: u64 = text("memory.current")?.trim().parse().ok()?;
    let reclaimable = text("memory.stat")?
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "))
        .and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(resident_pages("5000 1234 300 1 0 900 0\n"), Some((1234, 300)));
        assert_eq!(resident_pages("5000 1"), None);
        let meminfo = "MemTotal:       100 kB\nMemFree:   1 kB\nMemAvailable:      70 kB\n";
        assert_eq!(host_available_bytes(meminfo), Some(70 << 10));
        assert_eq!(host_available_bytes("MemTotal: 100 kB\n"), None);
    }

    #[test]
    fn reclaimable_memory_of_a_group_is_available() {
        let directory = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
        put("memory.max", "max\n");
        put("memory.current", "600\n");
        put("memory.stat", "anon 400\ninactive_file 150\n");
        assert_eq!(available_in_group(directory.path()), None, "no limit");
        put("memory.max", "1000\n");
        assert_eq!(available_in_group(directory.path()), Some(550));
    }
}
