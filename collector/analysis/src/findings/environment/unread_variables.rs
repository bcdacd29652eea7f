//! Environment variables that are meant for NCCL, and that the loaded version does not read.

use super::nccl_variables::{VARIABLES, VERSIONS};
use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use std::collections::{BTreeMap, BTreeSet};

/// Well known, and read by no version.
const NEVER_READ: [(&str, &str); 4] = [
    ("NCCL_TIMEOUT", "the time limit is init_process_group(timeout=…)"),
    ("NCCL_IB_MTU", "NCCL takes the port's own MTU"),
    (
        "NCCL_BLOCKING_WAIT",
        "PyTorch reads TORCH_NCCL_BLOCKING_WAIT since 2.2",
    ),
    (
        "NCCL_ASYNC_ERROR_HANDLING",
        "PyTorch reads TORCH_NCCL_ASYNC_ERROR_HANDLING since 2.2",
    ),
];
/// Letters by which a misspelt name may differ from a right one.
const MOST_WRONG_LETTERS: usize = 2;
/// Shorter names have too many neighbours.
const SHORTEST_NAME: usize = 10;

/// Variables that nobody reads.
pub const RULE: Rule = Rule {
    id: "unread-variables",
    title: "Variables are set for NCCL that the loaded version does not read",
    means: "A setting that was meant to change something changes nothing.",
    fires: "A rank's environment has an NCCL_* variable that other versions of NCCL read and the loaded one does not, one that \
            differs from a variable of this version by two letters at most, or a well-known one that no version reads. From a table \
            made of the sources of NCCL 2.18.1 to 2.30.7.",
    silent: "Variables that the loaded version reads, names that resemble none (plugins and build scripts have their own), programs \
             whose NCCL did not say its version, RCCL, and versions before 2.18; of later ones than the table only what was gone \
             before.",
    find: Some(find),
    of_stated: None,
};

/// Why a variable is not read by a version; `None` if it is, or if that is not known.
fn why_unread(name: &str, version: u32) -> Option<String> {
    let (&first, &last) = (VERSIONS.first()?, VERSIONS.last()?);
    if version < first {
        return None;
    }
    // Patch releases that are not in the table read what the one before reads.
    let at = VERSIONS.partition_point(|&known| known <= version) - 1;
    let told = |at: usize| {
        VERSIONS
            .get(at)
            .map_or_else(String::new, |&number| dotted(number))
    };
    match VARIABLES.iter().find(|known| known.0 == name) {
        Some(&(_, from, until)) => {
            let (from, until) = (usize::from(from), usize::from(until));
            if at > until {
                Some(format!("read until {}", told(until)))
            } else if at < from {
                Some(format!("read from {} on", told(from)))
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
            if name.len() < SHORTEST_NAME {
                return None;
            }
            let reads = VARIABLES
                .iter()
                .filter(|known| (usize::from(known.1)..=usize::from(known.2)).contains(&at));
            let (near, distance) = reads
                .map(|known| (known.0, distance(name, known.0)))
                .min_by_key(|&(_, distance)| distance)?;
            (distance <= MOST_WRONG_LETTERS).then(|| format!("read by no version; {near} is"))
        }
    }
}

/// `2.28.9` from 22809.
fn dotted(version: u32) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

/// A version like 22809 from `2.28.9`.
fn numbered(version: &str) -> Option<u32> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    let (major, minor, patch) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    (minor < 100 && patch < 100).then_some(major * 10_000 + minor * 100 + patch)
}

/// Letters to insert, remove or change.
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
    // Name and reason → value, ranks.
    let mut unread: BTreeMap<(String, String), (String, Vec<u32>)> = BTreeMap::new();
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
                entry.1.push(rank as u32);
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
        format!("{} set, and NCCL {} does not read {}", some(&names), some(&versions), if names.len() == 1 { "it" } else { "them" }),
    )
    .severity("note")
    .cause("settings that were copied from a guide for another version, or a misspelt name")
    .advice("remove them or use the right name; what a version reads is in its documentation, \"Environment Variables\"")
    .holds("variables that are set and not read", names.len() as f64, ">", 0.0, "");
    let mut ranks = BTreeSet::new();
    for ((name, why), (value, of)) in &unread {
        draft = draft.evidence(format!("{name}={value} on {}: {why}", some(&facts.names(of))));
        ranks.extend(of.iter().copied());
    }
    vec![
        draft
            .ranks(ranks)
            .without_cost("what the setting would have changed is not known"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_what_each_version_reads() {
        // Present since the first version of the table, and to the last.
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
        // Came with a version.
        assert_eq!(
            why_unread("NCCL_CTA_POLICY", 22105).as_deref(),
            Some("read from 2.27.3 on")
        );
        assert_eq!(why_unread("NCCL_CTA_POLICY", 22809), None);
        // Went with one; a later version than the table still says so.
        assert_eq!(why_unread("NCCL_WORK_FIFO_DEPTH", 21803), None);
        assert!(why_unread("NCCL_WORK_FIFO_DEPTH", 22809).is_some_and(|why| why.starts_with("read until")));
        assert!(why_unread("NCCL_WORK_FIFO_DEPTH", 23203).is_some());
        // Misspelt.
        assert_eq!(
            why_unread("NCCL_THREADS", 22809).as_deref(),
            Some("read by no version; NCCL_NTHREADS is")
        );
        assert!(why_unread("NCCL_TIMEOUT", 22809).is_some());
        // Others' own, versions that are not known, and what is too short to tell.
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
    fn distances_are_letters() {
        assert_eq!(distance("NCCL_THREADS", "NCCL_NTHREADS"), 1);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
