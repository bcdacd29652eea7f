//! Checks of a recorded run: facts from its logs, and differences between its ranks.

mod differences;
mod process;
mod sources;

pub use process::Process;

use crate::check::{Check, Severity, Subject};
use crate::checks;
use crate::facts::variables::Variables;
use crate::facts::version::Version;
use crate::ignored::WhyIgnored;
use crate::text::counted;
use rankscope_ranklog::reader::RankLog;
use std::collections::BTreeSet;
use std::path::PathBuf;

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
            "no rank log of this run can be read",
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
    let title = format!(
        "{} from {}",
        counted(processes.len(), "log"),
        counted(hosts.len(), "host")
    );
    Check::new(Subject::Ranks, Severity::Ok, "run", title)
}

/// Reports the values that are equal in all processes which have them.
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
        ("file of NCCL", "library.nccl.file"),
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

/// Reports wall clocks that were not synchronised. Between hosts, they are the first estimate of the offsets.
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
                .is_some_and(|status| status & libc::STA_UNSYNC.cast_unsigned() != 0)
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
        .because("the times of these hosts are aligned only by the communication of the job")
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
    Some(Check::of_variable("variable-unknown", title).because(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Makes a process on its own host, with this status of the clock.
    fn on_host(host: &str, clock_status: u32) -> Process {
        let properties: BTreeMap<String, String> = [("host".to_owned(), host.to_owned())].into();
        Process {
            clock_status: Some(clock_status),
            ..Process::from_properties(properties, 1)
        }
    }

    #[test]
    fn an_unsynchronised_clock_matters_between_hosts() {
        let found = |processes: &[Process]| clocks(processes).map(|check| check.title);
        let title = found(&[on_host("a", 0x2041), on_host("b", 0x2001)]).expect("a note");
        assert!(title.contains(" a were not synchronised"), "{title}");
        assert_eq!(found(&[on_host("a", 0x2001), on_host("b", 0x2001)]), None);
        assert_eq!(found(&[on_host("a", 0x2041), on_host("a", 0x2041)]), None);
    }
}
