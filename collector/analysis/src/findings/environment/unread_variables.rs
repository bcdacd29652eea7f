//! NCCL environment variables that the loaded version does not read.

use super::nccl_variables::{VARIABLES, VERSIONS};
use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;
use rankscope_ranklog::nccl_version;
use std::collections::{BTreeMap, BTreeSet};

/// Well-known variables that no version reads, and what to use instead.
const NEVER_READ: [(&str, &str); 4] = [
    (
        "NCCL_TIMEOUT",
        "set the time limit with init_process_group(timeout=…)",
    ),
    ("NCCL_IB_MTU", "NCCL uses the MTU of the port"),
    (
        "NCCL_BLOCKING_WAIT",
        "PyTorch reads TORCH_NCCL_BLOCKING_WAIT since 2.2",
    ),
    (
        "NCCL_ASYNC_ERROR_HANDLING",
        "PyTorch reads TORCH_NCCL_ASYNC_ERROR_HANDLING since 2.2",
    ),
];
/// Maximum edit distance between a misspelt name and a known one.
const MAX_WRONG_LETTERS: usize = 2;
/// Minimum length of a name that is checked for misspelling. Shorter names resemble too many others.
const MIN_NAME: usize = 10;

/// Set variables that are not read.
pub const RULE: Rule = Rule {
    id: "unread-variables",
    title: "NCCL variables are set that the loaded version does not read",
    means: "The setting has no effect.",
    fires: "A rank's environment contains an NCCL_* variable of one of three kinds: other versions of NCCL read it \
            and the loaded version does not; its name differs by at most two letters from a variable of the loaded \
            version; or it is a well-known name that no version reads. The table is made from the sources of NCCL \
            2.18.1 to 2.30.7.",
    silent: "Variables that the loaded version reads. Names that resemble no variable of NCCL, such as those of \
            plugins and build scripts. Programs whose NCCL version is unknown, RCCL, and versions before 2.18. For \
            versions after the table, only variables that were removed before are reported.",
    find: Some(find),
    find_declared: None,
};

/// Returns why a version does not read a variable, or `None` if it does or if that is unknown.
fn why_unread(name: &str, version: u32) -> Option<String> {
    let (&first, &last) = (VERSIONS.first()?, VERSIONS.last()?);
    if version < first {
        return None;
    }
    // A patch release that is not in the table reads the same variables as the release before it.
    let at = VERSIONS.partition_point(|&known| known <= version) - 1;
    let time_shown = |at: usize| {
        VERSIONS
            .get(at)
            .map_or_else(String::new, |&number| dotted(number))
    };
    match VARIABLES.iter().find(|known| known.0 == name) {
        Some(&(_, from, until)) => {
            let (from, until) = (usize::from(from), usize::from(until));
            if at > until {
                Some(format!("read until {}", time_shown(until)))
            } else if at < from {
                Some(format!("read from {} on", time_shown(from)))
            } else {
                None
            }
        }
        None if version > last => None,
        None => {
            let never = NEVER_READ.iter().find(|known| known.0 == name);
            if let Some((_, instead)) = never {
                return Some(format!("read by no version: {instead}"));
            }
            if name.len() < MIN_NAME {
                return None;
            }
            let reads = VARIABLES
                .iter()
                .filter(|known| (usize::from(known.1)..=usize::from(known.2)).contains(&at));
            let (near, distance) = reads
                .map(|known| (known.0, distance(name, known.0)))
                .min_by_key(|&(_, distance)| distance)?;
            (distance <= MAX_WRONG_LETTERS).then(|| format!("read by no version; did you mean {near}?"))
        }
    }
}

/// Returns why NCCL of this version, such as `2.28.9`, does not read a variable; `None` if it does or if that is
/// unknown.
pub fn why_nccl_ignores(name: &str, version: &str) -> Option<String> {
    why_unread(name, numbered(version)?)
}

/// Formats 22809 as `2.28.9`.
fn dotted(version: u32) -> String {
    let [major, minor, patch] = nccl_version::parts(version);
    format!("{major}.{minor}.{patch}")
}

/// Parses `2.28.9` as 22809.
fn numbered(version: &str) -> Option<u32> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    let (major, minor, patch) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    (minor < 100 && patch < 100).then_some(major * 10_000 + minor * 100 + patch)
}

/// Returns the edit distance: letters to insert, remove or replace.
fn distance(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, &theirs) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != theirs);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    // Name and reason → value and ranks.
    let mut unread: BTreeMap<(String, String), (String, Vec<RankIndex>)> = BTreeMap::new();
    let mut versions: BTreeSet<String> = BTreeSet::new();
    for rank in 0..facts.session.ranks.len() {
        let Some(properties) = facts.properties(rank) else {
            continue;
        };
        let is_rccl = properties
            .get("library.nccl.file")
            .is_some_and(|file| file.contains("rccl"));
        let Some(version) = properties.get("library.nccl.version").filter(|_| !is_rccl) else {
            continue;
        };
        let Some(number) = numbered(version) else { continue };
        for (key, value) in properties {
            let Some(name) = key.strip_prefix("env.").filter(|name| name.starts_with("NCCL_")) else {
                continue;
            };
            if let Some(why) = why_unread(name, number) {
                versions.insert(version.clone());
                let entry = unread
                    .entry((name.to_owned(), why))
                    .or_insert_with(|| (value.clone(), Vec::new()));
                entry.1.push(RankIndex::of(rank));
            }
        }
    }
    if unread.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = unread.keys().map(|(name, _)| name.clone()).collect();
    let versions: Vec<String> = versions.into_iter().collect();
    let mut draft = Draft::new(
        RULE.id,
        some(&names),
        format!(
            "{} set, but NCCL {} does not read {}",
            some(&names),
            some(&versions),
            if names.len() == 1 { "it" } else { "them" }
        ),
    )
    .severity(Severity::Note)
    .cause("the settings come from a guide for another version, or a name is misspelt")
    .advice(
        "remove them or correct the names; NCCL's documentation, \"Environment Variables\", lists what each \
             version reads",
    )
    .holds(
        "set variables that are not read",
        names.len() as f64,
        ">",
        0.0,
        "",
    );
    let mut ranks = BTreeSet::new();
    for ((name, why), (value, of)) in &unread {
        draft = draft.evidence(format!("{name}={value} on {}: {why}", some(&facts.names(of))));
        ranks.extend(of.iter().copied());
    }
    vec![
        draft
            .ranks(ranks)
            .without_cost("the intended effect of the setting is unknown"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_variables_that_each_version_reads() {
        // Read by all versions, from the first of the table to the last.
        for name in [
            "NCCL_DEBUG",
            "NCCL_ALGO",
            "NCCL_BUFFSIZE",
            "NCCL_NTHREADS",
            "NCCL_IB_HCA",
            "NCCL_SOCKET_IFNAME",
        ] {
            for version in [21803, 22105, 22809, 23007, 23203] {
                assert_eq!(why_unread(name, version), None, "{name} {version}");
            }
        }
        // Added by a version.
        assert_eq!(
            why_unread("NCCL_CTA_POLICY", 22105).as_deref(),
            Some("read from 2.27.3 on")
        );
        assert_eq!(why_unread("NCCL_CTA_POLICY", 22809), None);
        // Removed by a version; versions after the table report it too.
        assert_eq!(why_unread("NCCL_WORK_FIFO_DEPTH", 21803), None);
        assert!(why_unread("NCCL_WORK_FIFO_DEPTH", 22809).is_some_and(|why| why.starts_with("read until")));
        assert!(why_unread("NCCL_WORK_FIFO_DEPTH", 23203).is_some());
        // Misspelt.
        assert_eq!(
            why_unread("NCCL_THREADS", 22809).as_deref(),
            Some("read by no version; did you mean NCCL_NTHREADS?")
        );
        assert!(why_unread("NCCL_TIMEOUT", 22809).is_some());
        // Variables of other programs, unknown versions, and names that are too short.
        for name in [
            "NCCL_VERSION",
            "NCCL_ROOT_DIR",
            "NCCL_TESTS_DEVICE",
            "NCCL_FASTRAK_IFNAME",
            "NCCL_HOME",
        ] {
            assert_eq!(why_unread(name, 22809), None, "{name}");
        }
        assert_eq!(why_unread("NCCL_THREADS", 21008), None);
        assert_eq!(why_unread("NCCL_THREADS", 23203), None);
        assert_eq!(numbered("2.28.9"), Some(22809));
        assert_eq!(numbered("2.28"), None);
    }

    #[test]
    fn distances_count_letters() {
        assert_eq!(distance("NCCL_THREADS", "NCCL_NTHREADS"), 1);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
