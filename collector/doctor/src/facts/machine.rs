//! Facts of the machine: C library, kernel, clock, memory, limits and container.

use super::elf::Elf;
use super::names;
use crate::surroundings::{Capacity, Surroundings};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Limit of a resource. `None` means unlimited.
pub type Limit = Option<u64>;

/// Facts of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Version of glibc, as major and minor number.
    pub glibc: Option<(u32, u32)>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Clock source that the kernel uses.
    pub clock_source: Option<String>,
    /// Clock sources that the kernel could use.
    pub clock_sources: Vec<String>,
    /// Size of /dev/shm. `None` if it is not mounted or not known.
    pub shared_memory: Option<Capacity>,
    /// Whether /dev/shm exists.
    pub has_shared_memory: bool,
    /// Open files of a process.
    pub open_files: Option<Limit>,
    /// Processes and threads of the user.
    pub processes: Option<Limit>,
    /// Locked memory of a process, in bytes.
    pub locked_memory: Option<Limit>,
    /// Memory limit of the control group, in bytes, and memory in use.
    pub group_memory: Option<(u64, u64)>,
    /// Line of /etc/hosts that gives the host's name a loopback address, if there is one.
    pub loopback_name: Option<String>,
    /// Kind of container, if this is one.
    pub container: Option<String>,
}

impl Machine {
    /// Reads the facts.
    pub fn read(surroundings: &Surroundings) -> Self {
        let clock = "/sys/devices/system/clocksource/clocksource0";
        let limits = surroundings.read("/proc/self/limits").unwrap_or_default();
        let sources = surroundings.read(format!("{clock}/available_clocksource"));
        Self {
            glibc: c_library(surroundings).and_then(|file| glibc_of(|| surroundings.open(&file))),
            kernel: surroundings.read("/proc/sys/kernel/osrelease"),
            clock_source: surroundings.read(format!("{clock}/current_clocksource")),
            clock_sources: sources
                .map(|list| list.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            shared_memory: surroundings.capacity("/dev/shm"),
            has_shared_memory: surroundings.exists("/dev/shm"),
            open_files: limit(&limits, "Max open files"),
            processes: limit(&limits, "Max processes"),
            locked_memory: limit(&limits, "Max locked memory"),
            group_memory: group_memory(surroundings),
            loopback_name: loopback_name(surroundings),
            container: container(surroundings),
        }
    }
}

/// Returns the C library's file.
fn c_library(surroundings: &Surroundings) -> Option<PathBuf> {
    let processor = std::env::consts::ARCH;
    let places = [
        format!("/lib/{processor}-linux-gnu/libc.so.6"),
        "/lib64/libc.so.6".to_owned(),
        "/usr/lib64/libc.so.6".to_owned(),
        "/usr/lib/libc.so.6".to_owned(),
    ];
    places
        .into_iter()
        .map(PathBuf::from)
        .find(|path| surroundings.exists(path))
}

/// Returns the highest glibc version among the symbol versions of a file: those that the C library defines, or those
/// that another library needs.
pub fn glibc_of(open: impl Fn() -> Option<File>) -> Option<(u32, u32)> {
    let elf = Elf::read(open()?)?;
    names::highest_glibc(open()?, elf.symbol_names?)
}

/// Returns the soft limit in the text of `/proc/self/limits`.
fn limit(limits: &str, name: &str) -> Option<Limit> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// Returns limit and use of the control group of this process (cgroup v2), in bytes.
fn group_memory(surroundings: &Surroundings) -> Option<(u64, u64)> {
    let groups = surroundings.read("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let inside = path.trim_start_matches('/');
    // In a container the path may be that of the host. The container's own group is then the root.
    let places = [
        Path::new("/sys/fs/cgroup").join(inside),
        PathBuf::from("/sys/fs/cgroup"),
    ];
    places.iter().find_map(|place| {
        let number = |name: &str| surroundings.read(place.join(name))?.parse::<u64>().ok();
        Some((number("memory.max")?, number("memory.current")?))
    })
}

/// Returns the line of /etc/hosts that gives the host's own name a loopback address.
fn loopback_name(surroundings: &Surroundings) -> Option<String> {
    let host = surroundings.read("/proc/sys/kernel/hostname")?;
    let hosts = surroundings.read("/etc/hosts")?;
    // The first line of a name counts.
    hosts.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?;
        words
            .any(|name| name == host)
            .then(|| (address.starts_with("127.") || address == "::1").then(|| line.to_owned()))
    })?
}

/// Returns the kind of container, from the files that container engines create.
fn container(surroundings: &Surroundings) -> Option<String> {
    if surroundings.exists("/.dockerenv") {
        return Some("Docker".to_owned());
    }
    if surroundings.exists("/run/.containerenv") {
        return Some("Podman".to_owned());
    }
    if surroundings.exists("/.singularity.d") {
        return Some("Apptainer".to_owned());
    }
    if surroundings.variable("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("Kubernetes".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_in_both_forms() {
        let text = "Max locked memory         8388608              8388608              bytes\n\
                    Max open files            unlimited            unlimited            files";
        assert_eq!(limit(text, "Max locked memory"), Some(Some(8_388_608)));
        assert_eq!(limit(text, "Max open files"), Some(None));
        assert_eq!(limit(text, "Max processes"), None);
    }

    #[test]
    fn this_machine_has_a_glibc() {
        let machine = Machine::read(&Surroundings::system());
        assert!(
            machine.glibc.is_some_and(|version| version >= (2, 28)),
            "{machine:?}"
        );
    }
}
