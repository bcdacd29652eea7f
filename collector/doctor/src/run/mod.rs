//! The same facts from the logs of a recorded run, and what differs between its ranks.

mod differences;
mod process;
mod sources;

pub use process::Process;

use crate::check::{Check, Severity, Subject};
use crate::checks;
use crate::facts::variables::Variables;
use crate::facts::version::Version;
use crate::ignored::WhyIgnored;
use rankscope_ranklog::reader::RankLog;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Bit of adjtimex's status: the wall clock is not synchronised.
const UNSYNCHRONISED: u32 = 0x40;

/// Examines the rank logs of a run. Logs that cannot be read are reported.
pub fn examine(logs: &[PathBuf], why_ignored: WhyIgnored) -> Vec<Check> {
    let mut out = Vec::new();
    let mut processes = Vec::new();
    for path in logs {
        match RankLog::open(path) {
            Ok(log) => processes.push(Process::of(&log)),
            Err(error) => out.push(Check::new(
                Subject::Ranks,
                Severity::Warn,
                "log-unreadable",
                format!("{}: {error}", path.display()),
            )),
        }
    }
    processes.sort_by_key(|process| (process.rank, process.name.clone()));
    if processes.is_empty() {
        out.push(Check::new(
            Subject::Ranks,
            Severity::Bad,
            "no-logs",
            "no rank log can be read here",
        ));
        return out;
    }
    out.push(summary(&processes));
    out.extend(facts(&processes));
    out.extend(sources::check(&processes));
    out.extend(differences::check(&processes));
    out.extend(clocks(&processes));
    out.extend(variables(&processes, why_ignored));
    out.sort_by_key(|check| (check.subject, std::cmp::Reverse(check.severity)));
    out
}

fn summary(processes: &[Process]) -> Check {
    let hosts: BTreeSet<&str> = processes.iter().map(|process| process.host.as_str()).collect();
    let counted = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    };
    let title = format!(
        "{} from {}",
        counted(processes.len(), "log"),
        counted(hosts.len(), "host")
    );
    Check::new(Subject::Ranks, Severity::Ok, "run", title)
}

/// Names the values that all processes share.
fn facts(processes: &[Process]) -> Vec<Check> {
    let shared = |label: &str, key: &str| {
        let mut values = processes.iter().filter_map(|process| process.properties.get(key));
        let first = values.next()?;
        values.all(|value| value == first).then(|| {
            Check::new(
                Subject::Ranks,
                Severity::Ok,
                "run-fact",
                format!("{label}: {first}"),
            )
        })
    };
    [
        ("NCCL", "library.nccl.version"),
        ("NCCL is in", "library.nccl.file"),
        ("GPU 0", "device.0.model"),
        ("processor", "processor_model"),
        ("kernel", "kernel"),
        ("rankscope", "rankscope_version"),
        ("clock", "clock.counter"),
        ("NCCL's plugin interface", "source.nccl_plugin"),
        ("CUPTI was refused", "source.cupti_refused"),
    ]
    .into_iter()
    .filter_map(|(label, key)| shared(label, key))
    .collect()
}

/// Reports wall clocks that are not synchronised: with several hosts they give the first guess of the offsets.
fn clocks(processes: &[Process]) -> Option<Check> {
    let hosts: BTreeSet<&str> = processes.iter().map(|process| process.boot.as_str()).collect();
    if hosts.len() < 2 {
        return None;
    }
    let bad: BTreeSet<&str> = processes
        .iter()
        .filter(|process| {
            process
                .clock_status
                .is_some_and(|status| status & UNSYNCHRONISED != 0)
        })
        .map(|process| process.host.as_str())
        .collect();
    (!bad.is_empty()).then(|| {
        let list: Vec<&str> = bad.into_iter().collect();
        Check::new(
            Subject::Ranks,
            Severity::Note,
            "clock-unsynchronised",
            format!("the wall clocks of {} were not synchronised", list.join(", ")),
        )
        .because("times of ranks on several hosts are aligned by the job's own communication only")
    })
}

/// Judges the variables of the ranks, each finding once.
fn variables(processes: &[Process], why_ignored: WhyIgnored) -> Vec<Check> {
    let mut out: Vec<Check> = Vec::new();
    for process in processes {
        let pairs = process.variables().map(|(name, value)| (name, value.as_str()));
        let nccl = process.properties.get("library.nccl.version").map(String::as_str);
        let version = nccl.and_then(Version::parse);
        let mut found = checks::of_variables(&Variables::from_pairs(pairs), version, None);
        if let Some(nccl) = nccl.filter(|_| !process.has_rccl()) {
            found.extend(
                process
                    .variables()
                    .filter_map(|(name, _)| ignored(name, nccl, why_ignored)),
            );
        }
        for check in found {
            if !out.contains(&check) {
                out.push(check);
            }
        }
    }
    out
}

/// Reports a variable that the recorded NCCL does not read.
fn ignored(name: &str, nccl: &str, why_ignored: WhyIgnored) -> Option<Check> {
    let reason = Some(name)
        .filter(|name| name.starts_with("NCCL_"))
        .and_then(|name| why_ignored(name, nccl))?;
    let title = format!("NCCL {nccl} does not read {name}");
    Some(Check::new(Subject::Variables, Severity::Warn, "variable-unknown", title).because(reason))
}
