//! The NVIDIA driver, from its files in /proc and /dev.

use crate::surroundings::Surroundings;

/// The NVIDIA driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Version of the loaded kernel module.
    pub version: Option<String>,
    /// Whether the module parameter `NVreg_RestrictProfilingToAdminUsers` restricts performance counters to root. `None`
    /// if the driver does not report it.
    pub restricts_profiling: Option<bool>,
    /// Number of device files `/dev/nvidiaN`.
    pub device_files: usize,
}

impl Driver {
    /// Reads the facts.
    pub fn read(surroundings: &Surroundings) -> Self {
        let version = surroundings
            .read("/sys/module/nvidia/version")
            .or_else(|| version_in(&surroundings.read("/proc/driver/nvidia/version")?));
        let parameters = surroundings
            .read("/proc/driver/nvidia/params")
            .unwrap_or_default();
        let is_device = |name: &String| {
            name.strip_prefix("nvidia")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        Self {
            version,
            restricts_profiling: parameters
                .lines()
                .find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))
                .map(|value| value.trim() != "0"),
            device_files: surroundings
                .list("/dev")
                .iter()
                .filter(|name| is_device(name))
                .count(),
        }
    }
}

/// Returns the version in a line such as `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar …`.
fn version_in(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_for_both_kinds_of_module() {
        for line in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build",
        ] {
            assert_eq!(version_in(line).as_deref(), Some("550.54.15"));
        }
    }
}
