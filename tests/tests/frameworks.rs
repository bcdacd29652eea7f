//! The two cheapest trainings of frameworks: the same losses alone and recorded, all ranks, their steps, and the slow rank.
//! `make frameworks` runs all of them.

use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, process, skip, turn};
use std::process::Command;
use std::time::Duration;

#[test]
fn sharded_pytorch_and_accelerate_train_the_same_and_are_understood() {
    let _turn = turn::take();
    let Some(python) = Python::wheel() else { return };
    let script = artefacts::root().join("tests/frameworks/run.py");
    let mut command = Command::new(script);
    process::clean(&mut command);
    command
        .env("RANKSCOPE", artefacts::program())
        .arg("--python")
        .arg(&python.path)
        .args(["fsdp", "accelerate"]);
    let ended = process::run(command, Duration::from_secs(600));
    if ended.text().contains("its packages cannot be installed") {
        skip("Accelerate could not be installed");
        return;
    }
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    let text = ended.text();
    let right = text.lines().filter(|line| line.starts_with('✓')).count();
    assert_eq!(right, 2, "{text}");
}
