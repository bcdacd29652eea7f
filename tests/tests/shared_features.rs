//! The program and the viewer build the libraries that both need only once.
//!
//! Cargo unites features among the packages of one command. If the viewer needs a feature of a library that the program does
//! without, cargo builds it, and everything above it, a second time: Arrow and Parquet alone take minutes. The package
//! `rankscope-shared-features` requests these features for both.

use rankscope_tests::artefacts;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Dependencies of the programs themselves, without procedural macros and build scripts.
const OF_PROGRAMS: &str = "normal,no-proc-macro";
/// All dependencies. Procedural macros and build scripts may have sets of features of their own.
const ALL: &str = "normal,build";

/// Packages that a build of some packages needs, with the sets of features that each is built with.
fn built(packages: &[&str], edges: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(artefacts::root()).args([
        "tree",
        "--locked",
        "--prefix",
        "none",
        "--format",
        "{p} [{f}]",
        "--edges",
        edges,
    ]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output = command.output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut built: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_end_matches(" (*)");
        if let Some((package, features)) = line.rsplit_once(" [") {
            let features = features.trim_end_matches(']').to_owned();
            built.entry(package.to_owned()).or_default().insert(features);
        }
    }
    built
}

/// Packages below the reports and imports, which the viewer builds with other features than the program.
fn built_again(edges: &str) -> Vec<String> {
    let program = built(&["rankscope", "rankscope-interpose"], edges);
    let viewer = built(&["rankscope-viewer"], edges);
    let shared = built(&["rankscope-report", "rankscope-import"], edges);
    assert!(
        shared.keys().any(|package| package.starts_with("arrow-array ")),
        "{shared:?}"
    );
    let packages = shared.into_keys();
    packages
        .filter_map(|package| {
            let (first, second) = (program.get(&package)?, viewer.get(&package)?);
            // The viewer has procedural macros and build scripts that the program does without.
            let is_same = first == second || edges == ALL && first.is_subset(second);
            (!is_same).then(|| format!("{package}: the program has {first:?}, the viewer {second:?}"))
        })
        .collect()
}

#[test]
fn the_viewer_builds_nothing_a_second_time() {
    for edges in [OF_PROGRAMS, ALL] {
        let again = built_again(edges);
        assert!(
            again.is_empty(),
            "request the same features in packaging/shared-features/Cargo.toml:\n{}",
            again.join("\n")
        );
    }
}
