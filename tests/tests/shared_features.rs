//! The program and the viewer build the libraries that both need only once.
//!
//! Cargo unites features among the packages of one command. If the viewer needs a feature of a library that the program does
//! without, cargo builds it, and everything above it, a second time: Arrow and Parquet alone take minutes. The package
//! `rankscope-shared-features` requests these features for both.

use rankscope_tests::artefacts;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Packages that a build of some packages needs, with the sets of features that each is built with: one for programs, and
/// possibly one for build scripts and procedural macros.
fn built(packages: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(artefacts::root()).args([
        "tree",
        "--locked",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p} [{f}]",
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

#[test]
fn the_viewer_builds_nothing_a_second_time() {
    let program = built(&["rankscope", "rankscope-interpose"]);
    let viewer = built(&["rankscope-viewer"]);
    let shared: Vec<String> = built(&["rankscope-report", "rankscope-import"])
        .into_keys()
        .collect();
    assert!(
        shared.iter().any(|package| package.starts_with("arrow-array ")),
        "{shared:?}"
    );
    let again: Vec<String> = shared
        .iter()
        .filter_map(|package| {
            let (first, second) = (program.get(package)?, viewer.get(package)?);
            let missing = first.difference(second).next()?;
            Some(format!(
                "{package}: the program has [{missing}], the viewer {second:?}"
            ))
        })
        .collect();
    assert!(
        again.is_empty(),
        "request the same features in packaging/shared-features/Cargo.toml:\n{}",
        again.join("\n")
    );
}
