//! LD_PRELOAD, and the glibc that the preloaded library needs.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::facts::machine::glibc_of;
use crate::launcher::Launcher;
use crate::surroundings::Surroundings;

pub fn check(facts: &Facts, launcher: &Launcher, surroundings: &Surroundings) -> Vec<Check> {
    let mut out = Vec::new();
    let needed = launcher.library.as_deref().and_then(glibc_of);
    match (needed, facts.machine.glibc) {
        (Some(needed), Some(found)) if needed > found => out.push(
            Check::new(
                Subject::Recording,
                Severity::Bad,
                "glibc-too-old",
                format!(
                    "the library needs glibc {}.{}, and this machine has {}.{}",
                    needed.0, needed.1, found.0, found.1
                ),
            )
            .because("the job would not start: the loader refuses a library that needs a newer glibc")
            .advise("build the portable library (make portable), which works from glibc 2.28 on"),
        ),
        (_, Some(found)) => out.push(Check::new(
            Subject::Machine,
            Severity::Ok,
            "glibc",
            format!("glibc {}.{}", found.0, found.1),
        )),
        (_, None) => out.push(
            Check::new(
                Subject::Recording,
                Severity::Warn,
                "glibc-missing",
                "no glibc was found",
            )
            .because("librankscope.so cannot be loaded without glibc, for example on Alpine Linux"),
        ),
    }
    let list = facts.variables.get("LD_PRELOAD").unwrap_or_default();
    let entries: Vec<&str> = list.split([':', ' ']).filter(|entry| !entry.is_empty()).collect();
    let is_missing =
        |entry: &&&str| entry.contains('/') && !entry.contains('$') && !surroundings.exists(entry);
    for entry in entries.iter().filter(is_missing) {
        out.push(
            Check::new(
                Subject::Recording,
                Severity::Warn,
                "preload-missing",
                format!("LD_PRELOAD names {entry}, which does not exist"),
            )
            .because("the loader prints an error in every process and goes on without it"),
        );
    }
    if !entries.is_empty() {
        out.push(Check::new(
            Subject::Recording,
            Severity::Note,
            "preload-others",
            format!("LD_PRELOAD is set already: {list}; rankscope is added at its end"),
        ));
    }
    out
}
