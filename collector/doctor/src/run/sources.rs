//! Sources that were active in a run, and why NCCL has no device times.

use super::process::Process;
use crate::check::{Check, Severity, Subject};
use crate::checks::sources::FIRST_WITH_TIMES;
use crate::facts::version::Version;
use std::collections::BTreeMap;

/// Property with the version of the plugin's interface that NCCL used.
const PLUGIN: &str = "source.nccl_plugin";
/// First version of the plugin's interface that reports device times.
const FIRST_INTERFACE_WITH_TIMES: u32 = 4;
const NCCL_VERSION: &str = "library.nccl.version";

pub fn check(processes: &[Process]) -> Vec<Check> {
    let mut out = Vec::new();
    let mut communicators: BTreeMap<&str, usize> = BTreeMap::new();
    for process in processes {
        for (library, count) in &process.communicators {
            *communicators.entry(library).or_default() += count;
        }
    }
    for (library, count) in communicators {
        out.push(Check::new(
            Subject::Ranks,
            Severity::Ok,
            "run-communicators",
            format!("communicators of {library}: {count}, counted on each rank"),
        ));
    }
    out.extend(device_times(processes));
    out
}

fn device_times(processes: &[Process]) -> Option<Check> {
    let with_nccl: Vec<&Process> = processes
        .iter()
        .filter(|process| process.properties.contains_key(NCCL_VERSION))
        .collect();
    let version_of_plugin =
        |process: &Process| -> Option<u32> { process.properties.get(PLUGIN)?.parse().ok() };
    let without = with_nccl.iter().find(|process| {
        version_of_plugin(process).is_none_or(|version| version < FIRST_INTERFACE_WITH_TIMES)
    })?;
    let nccl = without.properties.get(NCCL_VERSION)?;
    let (major, minor) = FIRST_WITH_TIMES;
    let is_old = Version::parse(nccl).is_some_and(|version| !version.is_at_least(major, minor));
    let plugin = without.properties.get("env.NCCL_PROFILER_PLUGIN");
    let line = Check::new(
        Subject::Ranks,
        Severity::Note,
        "run-no-device-times",
        format!("{} has no device times of NCCL {nccl}", without.name),
    );
    Some(match plugin {
        _ if is_old => line
            .because(format!("NCCL reports them from {major}.{minor} on"))
            .advise("rankscope run --nccl-events times the launches instead"),
        Some(plugin) => line.because(format!(
            "NCCL did not load rankscope as its plugin: NCCL_PROFILER_PLUGIN={plugin}"
        )),
        None => line.because("NCCL did not load rankscope as its plugin: NCCL_PROFILER_PLUGIN was not set"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_plugin_has_a_reason() {
        let of = |pairs: &[(&str, &str)]| {
            let properties = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            let found = check(&[Process::from_properties(properties, 1)]);
            found
                .into_iter()
                .find_map(|check| check.detail)
                .unwrap_or_default()
        };
        assert!(of(&[(NCCL_VERSION, "2.21.5")]).contains("from 2.27 on"));
        assert!(of(&[(NCCL_VERSION, "2.28.9"), ("env.NCCL_PROFILER_PLUGIN", "none")]).contains("=none"));
        assert!(of(&[(NCCL_VERSION, "2.28.9")]).contains("was not set"));
        assert_eq!(of(&[(NCCL_VERSION, "2.28.9"), (PLUGIN, "5")]), "");
        assert_eq!(of(&[]), "");
    }
}
