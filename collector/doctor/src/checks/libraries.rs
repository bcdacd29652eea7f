//! The communication libraries that would be loaded.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::facts::libraries::{Kind, Library};

pub fn check(facts: &Facts) -> Vec<Check> {
    let mut out = Vec::new();
    let mut seen = Vec::new();
    for library in &facts.libraries.found {
        if seen.contains(&library.kind) {
            continue;
        }
        seen.push(library.kind);
        out.push(found(library));
        out.extend(others(facts, library));
    }
    let communicates = |kind: &Kind| {
        matches!(
            kind,
            Kind::PyTorch | Kind::Nccl | Kind::Rccl | Kind::Gloo | Kind::Mpi | Kind::Jax | Kind::Horovod
        )
    };
    if !seen.iter().any(communicates) && facts.has_searched_libraries() {
        let program = facts.command.as_ref().and_then(|command| command.last());
        let (severity, searched) = match (&facts.python, program) {
            (Some(python), _) => (
                if program.is_some() {
                    Severity::Warn
                } else {
                    Severity::Note
                },
                format!(
                    "searched the packages of {}, LD_LIBRARY_PATH and the loader's cache",
                    python.interpreter.display()
                ),
            ),
            (None, Some(program)) => (
                Severity::Note,
                format!(
                    "{} is linked with none of them, but may load one when it runs",
                    program.name
                ),
            ),
            (None, None) => (
                Severity::Note,
                "searched LD_LIBRARY_PATH and the loader's cache".to_owned(),
            ),
        };
        out.push(
            Check::new(
                Subject::Libraries,
                severity,
                "no-communication-library",
                "no PyTorch, NCCL, RCCL or Gloo was found, so there may be nothing to record",
            )
            .because(searched),
        );
    }
    out
}

fn named(library: &Library) -> String {
    match &library.version {
        Some(version) => format!("{} {version}", library.kind.name()),
        None => library.kind.name().to_owned(),
    }
}

fn found(library: &Library) -> Check {
    Check::new(
        Subject::Libraries,
        Severity::Ok,
        "library-found",
        format!(
            "{} ({}): {}",
            named(library),
            library.found_in,
            library.path.display()
        ),
    )
}

/// Reports a further file of a kind with another version. Which one is loaded depends on variables and on the order of
/// imports.
fn others(facts: &Facts, first: &Library) -> Option<Check> {
    let matters = matches!(first.kind, Kind::Nccl | Kind::Rccl | Kind::Gloo | Kind::Mpi);
    let mut others = facts
        .libraries
        .found
        .iter()
        .filter(|library| library.kind == first.kind && library.version != first.version);
    // An unknown version may be the same.
    let other = others.find(|library| library.version.is_some() && first.version.is_some())?;
    if !matters {
        return None;
    }
    // A library of the system next to that of PyTorch is usual. One that a variable names is a choice.
    let is_chosen = [first, other]
        .iter()
        .any(|library| ["LD_LIBRARY_PATH", "LD_PRELOAD"].contains(&library.found_in.as_str()));
    let severity = if is_chosen { Severity::Warn } else { Severity::Note };
    Some(
        Check::new(
            Subject::Libraries,
            severity,
            "several-versions",
            format!("{} and {} are both found", named(first), named(other)),
        )
        .because(format!(
            "the first is loaded, because {} comes first in the search; the other is {} ({})",
            first.found_in,
            other.path.display(),
            other.found_in
        ))
        .advise("remove one from the search path, or look at the version that the recording names"),
    )
}
