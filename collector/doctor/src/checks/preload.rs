//! LD_PRELOAD, and the glibc that the library to preload needs.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::launcher::Launcher;

pub fn check(facts: &Facts, launcher: &Launcher) -> Vec<Check> {
    let mut out = Vec::new();
    match (launcher.needed_glibc, facts.machine.glibc) {
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
    for entry in facts.preloads.iter().filter(|entry| entry.is_missing) {
        out.push(
            Check::new(
                Subject::Recording,
                Severity::Warn,
                "preload-missing",
                format!("LD_PRELOAD names {}, which does not exist", entry.name),
            )
            .because("the loader prints an error in every process, and continues without it"),
        );
    }
    if !facts.preloads.is_empty() {
        let names: Vec<&str> = facts.preloads.iter().map(|entry| entry.name.as_str()).collect();
        out.push(Check::new(
            Subject::Recording,
            Severity::Note,
            "preload-others",
            format!(
                "LD_PRELOAD is set already: {}; rankscope is added at its end",
                names.join(":")
            ),
        ));
    }
    out
}
