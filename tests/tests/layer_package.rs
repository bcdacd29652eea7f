//! Tests that the layer can be published: its crates build from their packages alone, its documentation has no warning, and it
//! compiles for aarch64 if that target is installed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rankscope_tests::artefacts::root;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::turn;

const LIMIT: Duration = Duration::from_secs(300);
/// Crates that a program with the layer needs from this repository.
const CRATES: [&str; 3] = ["rankscope-ranklog", "rankscope-recorder", "rankscope-layer"];
const OTHER_TARGET: &str = "aarch64-unknown-linux-gnu";

/// Runs cargo with a target directory of its own. All dependencies were downloaded to build this test.
fn cargo(target: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO"));
    process::clean(&mut command);
    command
        .args(arguments)
        .args(["--offline", "--quiet", "--target-dir"])
        .arg(target)
        .current_dir(root())
        .env("RUSTDOCFLAGS", "-D warnings");
    process::run(command, LIMIT)
}

#[test]
fn the_layer_can_be_published() {
    let turn = turn::share();
    let target = tempfile::tempdir().expect("a directory");
    let packages: Vec<&str> = CRATES.iter().flat_map(|name| ["-p", name]).collect();
    let packaged = cargo(
        target.path(),
        &[&["package", "--allow-dirty"], &packages[..]].concat(),
    );
    assert_eq!(packaged.code(), 0, "{}", packaged.complaints());
    for name in CRATES {
        let file = format!("package/{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        let bytes = target.path().join(&file).metadata().expect("a package").len();
        assert!((1_000..500_000).contains(&bytes), "{file}: {bytes} bytes");
    }
    let documented = cargo(target.path(), &["doc", "--no-deps", "-p", "rankscope-layer"]);
    assert_eq!(documented.code(), 0, "{}", documented.complaints());
    drop(turn);
}

#[test]
fn the_layer_compiles_for_another_processor() {
    let turn = turn::share();
    let mut libraries = Command::new("rustc");
    libraries
        .args(["--print", "target-libdir", "--target", OTHER_TARGET])
        .current_dir(root());
    let printed = process::run(libraries, LIMIT).text();
    if !Path::new(printed.trim()).is_dir() {
        // Not every toolchain can be extended. So this is no failure in CI.
        println!("not checked: rustup target add {OTHER_TARGET}");
        return;
    }
    let target = tempfile::tempdir().expect("a directory");
    let checked = cargo(
        target.path(),
        &["check", "-p", "rankscope-layer", "--target", OTHER_TARGET],
    );
    assert_eq!(checked.code(), 0, "{}", checked.complaints());
    drop(turn);
}
