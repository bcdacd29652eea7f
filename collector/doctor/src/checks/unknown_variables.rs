//! Variables that the loaded libraries do not read, with the nearest name that they do.
//!
//! The names that a library can read are string literals in its file. A plugin may read further names: those of public
//! plugins are known here. So an unknown name is a warning, not a problem.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::facts::libraries::Kind;
use crate::facts::names::PREFIXES;
use crate::ignored::WhyIgnored;

/// Starts of names that public plugins of NCCL read: nccl-rdma-sharp-plugins, the plugins for GPUDirect-TCPX, TCPXO and
/// gIB, and NCCL's inspector.
const OF_PLUGINS: [&str; 9] = [
    "NCCL_SHARP_",
    "NCCL_IBEXT_",
    "NCCL_PLUGIN_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_FASTRAK_",
    "NCCL_GIB_",
    "NCCL_SHIMNET_",
    "NCCL_TUNER_",
    "NCCL_INSPECTOR_",
];
/// Names that builds, images and tests use. They are no settings of a library.
const NO_SETTINGS: [&str; 10] = [
    "NCCL_VERSION",
    "NCCL_HOME",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NCCL_DIR",
    "NCCL_PATH",
    "NCCL_INCLUDE_DIR",
    "NCCL_LIB_DIR",
    "NCCL_LIBRARY",
    "NCCL_TESTS_SPLIT",
];
/// Least similarity of a name that is proposed, from 0 to 1.
const SIMILAR: f64 = 0.7;

/// Returns the library that owns a name, if it was found.
fn owner(facts: &Facts, name: &str) -> Option<String> {
    let has = |kind| facts.libraries.first(kind).is_some();
    let kind = if name.starts_with("NCCL_") && has(Kind::Nccl) {
        Kind::Nccl
    } else if (name.starts_with("RCCL_") || name.starts_with("NCCL_")) && has(Kind::Rccl) {
        Kind::Rccl
    } else if name.starts_with("GLOO_") && has(Kind::Gloo) {
        Kind::Gloo
    } else if name.starts_with("TORCH_") && facts.libraries.has_torch_for_gpus {
        Kind::PyTorch
    } else {
        return None;
    };
    let library = facts.libraries.first(kind)?;
    Some(match (&library.version, kind) {
        (Some(version), _) => format!("{} {version}", kind.name()),
        (None, Kind::Gloo) => format!("the Gloo of {}", library.found_in),
        (None, _) => kind.name().to_owned(),
    })
}

pub fn check(facts: &Facts, why_ignored: WhyIgnored) -> Vec<Check> {
    let known = &facts.libraries.variables;
    let mut out = Vec::new();
    for (name, variable) in facts.variables.iter() {
        let is_candidate = PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && !known.contains(name)
            // These are reported as renamed.
            && !known.contains(&format!("TORCH_{name}"))
            && !NO_SETTINGS.contains(&name)
            && !OF_PLUGINS.iter().any(|prefix| name.starts_with(prefix));
        let Some(owner) = owner(facts, name).filter(|_| is_candidate) else {
            continue;
        };
        let origin = match &variable.file {
            Some(file) => format!(" (set in {})", file.display()),
            None => String::new(),
        };
        let check = Check::of_variable(
            "variable-unknown",
            format!("{owner} does not read {name}{origin}"),
        );
        let nccl = facts
            .libraries
            .first(Kind::Nccl)
            .and_then(|library| library.version.as_deref());
        // The table may know that other versions read it, or what to use instead. Similar names are searched below.
        let reason = nccl
            .and_then(|version| why_ignored(name, version))
            .filter(|reason| !reason.contains("did you mean"));
        if let Some(reason) = reason {
            out.push(check.because(reason));
            continue;
        }
        let check = check.because(
            "the name is nowhere in the library's file, so it has no effect, unless a plugin reads it",
        );
        out.push(match nearest(known.iter().map(String::as_str), name) {
            Some(nearest) => check.advise(format!("the nearest name that is read is {nearest}")),
            None => check,
        });
    }
    out
}

/// Returns the most similar name that is similar enough.
fn nearest<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    // The common prefix would make every name similar.
    let (prefix, rest) = name.split_once('_')?;
    known
        .filter_map(|other| {
            let other_rest = other.strip_prefix(prefix)?.strip_prefix('_')?;
            Some((strsim::normalized_damerau_levenshtein(other_rest, rest), other))
        })
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(one.1)))
        .map(|(_, other)| other)
}

/// Returns the line that is printed if no check of variables found anything.
pub fn nothing_found(facts: &Facts) -> Check {
    let count = facts
        .variables
        .iter()
        .filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .count();
    let title = match count {
        0 => "no variable of NCCL, RCCL, Gloo or c10d is set".to_owned(),
        1 => "1 variable of communication libraries is set, and no fault was found in it".to_owned(),
        _ => format!("{count} variables of communication libraries are set, and no fault was found in them"),
    };
    Check::new(Subject::Variables, Severity::Ok, "variables", title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_proposed() {
        let known = [
            "NCCL_NTHREADS",
            "NCCL_IB_TIMEOUT",
            "NCCL_ALGO",
            "GLOO_SOCKET_IFNAME",
        ];
        let of = |name: &str| nearest(known.into_iter(), name);
        assert_eq!(of("NCCL_THREADS"), Some("NCCL_NTHREADS"));
        assert_eq!(of("NCCL_TIMEOUT"), Some("NCCL_IB_TIMEOUT"));
        assert_eq!(of("NCCL_SOCKET_IFNAME"), None);
        assert_eq!(of("NCCL_IB_MTU"), None);
        assert_eq!(of("GLOO_SOCKET_IFNAMES"), Some("GLOO_SOCKET_IFNAME"));
    }
}
