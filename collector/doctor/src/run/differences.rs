//! Properties and variables that should be equal on all ranks, and are not.

use super::process::Process;
use crate::check::{Check, Severity, Subject};
use crate::text::first_of;
use std::collections::{BTreeMap, BTreeSet};

/// Properties that should be equal: key, name for messages, stable name of the check, and how much a difference
/// matters.
const PROPERTIES: [(&str, &str, &str, Severity); 7] = [
    (
        "library.nccl.version",
        "the version of NCCL",
        "ranks-nccl",
        Severity::Warn,
    ),
    (
        "rankscope_version",
        "the version of rankscope",
        "ranks-rankscope",
        Severity::Warn,
    ),
    ("kernel", "the kernel", "ranks-kernel", Severity::Note),
    (
        "processor_model",
        "the processor",
        "ranks-processor",
        Severity::Note,
    ),
    (
        "device.0.model",
        "the model of GPU 0",
        "ranks-gpu",
        Severity::Warn,
    ),
    ("clock.counter", "the clock", "ranks-clock", Severity::Note),
    (
        "source.nccl_plugin",
        "the interface of NCCL's plugin",
        "ranks-plugin",
        Severity::Warn,
    ),
];
/// Starts of names of variables that change how ranks communicate or run.
const COMPARED: [&str; 10] = [
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "TORCH_",
    "UCX_",
    "FI_",
    "OMP_",
    "CUDA_",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
];
/// Variables that may differ: each rank has its own device, file or number.
const OWN: [&str; 10] = [
    "UCX_NET_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "NCCL_HOSTID",
    "NCCL_DEBUG_FILE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_COMM_ID",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
];
/// Ranks that a message names per value. The rest is counted.
const MAX_NAMED: usize = 4;

pub fn check(processes: &[Process]) -> Vec<Check> {
    let mut out = Vec::new();
    for (key, what, id, severity) in PROPERTIES {
        let values = group(processes, |process| process.properties.get(key).cloned());
        // A property that only some have, such as NCCL's version, belongs to processes that used the library.
        if values.len() > 1 {
            out.push(difference(
                id,
                severity,
                format!("{what} differs between ranks"),
                &values,
            ));
        }
    }
    // A process without a rank, such as a launcher or a data loader, may have other variables.
    let ranks: Vec<Process> = processes
        .iter()
        .filter(|process| process.rank.is_some())
        .cloned()
        .collect();
    let compared = if ranks.is_empty() {
        processes
    } else {
        ranks.as_slice()
    };
    let names: BTreeSet<&str> = compared
        .iter()
        .flat_map(Process::variables)
        .map(|(name, _)| name)
        .filter(|name| COMPARED.iter().any(|prefix| name.starts_with(prefix)) && !OWN.contains(name))
        .collect();
    for name in names {
        let key = format!("env.{name}");
        let value = |process: &Process| {
            let value = process.properties.get(&key).cloned();
            Some(value.unwrap_or_else(|| "(unset)".to_owned()))
        };
        let values = group(compared, value);
        if values.len() > 1 {
            out.push(difference(
                "ranks-variable",
                Severity::Warn,
                format!("{name} differs between ranks"),
                &values,
            ));
        }
    }
    out
}

/// Returns the names of the processes by value.
fn group(processes: &[Process], value: impl Fn(&Process) -> Option<String>) -> BTreeMap<String, Vec<&str>> {
    let mut out: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for process in processes {
        if let Some(value) = value(process) {
            out.entry(value).or_default().push(&process.name);
        }
    }
    out
}

fn difference(
    id: &'static str,
    severity: Severity,
    title: String,
    values: &BTreeMap<String, Vec<&str>>,
) -> Check {
    let lines: Vec<String> = values
        .iter()
        .map(|(value, names)| format!("{value}: {}", first_of(names, MAX_NAMED, ", ")))
        .collect();
    Check::new(Subject::Ranks, severity, id, title).because(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(rank: u32, pairs: &[(&str, &str)]) -> Process {
        let mut properties: BTreeMap<String, String> = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        properties.insert("env.RANK".to_owned(), rank.to_string());
        Process::from_properties(properties, rank)
    }

    #[test]
    fn equal_ranks_have_no_differences() {
        let same = [("library.nccl.version", "2.28.9"), ("env.NCCL_ALGO", "Ring")];
        let processes: Vec<Process> = (0..4).map(|rank| process(rank, &same)).collect();
        assert!(check(&processes).is_empty());
    }

    #[test]
    fn a_rank_that_differs_is_named() {
        let processes = [
            process(
                0,
                &[("library.nccl.version", "2.28.9"), ("env.NCCL_ALGO", "Ring")],
            ),
            process(1, &[("library.nccl.version", "2.27.3")]),
        ];
        let found = check(&processes);
        let ids: Vec<&str> = found.iter().map(|check| check.id.as_ref()).collect();
        assert_eq!(ids, ["ranks-nccl", "ranks-variable"]);
        let detail = found[1].detail.as_deref().unwrap_or_default();
        assert!(
            detail.contains("(unset): rank 1") && detail.contains("Ring: rank 0"),
            "{detail}"
        );
    }

    #[test]
    fn a_library_that_one_process_did_not_use_is_no_difference() {
        let processes = [process(0, &[("library.nccl.version", "2.28.9")]), process(1, &[])];
        assert!(check(&processes).is_empty());
    }
}
