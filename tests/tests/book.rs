//! The book: every link leads somewhere, its examples run, and its outputs are those of the program.

use rankscope_tests::process::{self, Ended};
use rankscope_tests::{artefacts, turn};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn python(script: &str, arguments: &[&Path]) -> Ended {
    let mut command = Command::new("python3");
    process::clean(&mut command);
    command
        .arg(artefacts::root().join("docs/book").join(script))
        .args(arguments);
    process::run(command, Duration::from_secs(300))
}

#[test]
fn every_link_of_every_document_leads_somewhere() {
    let ended = python("check_links.py", &[]);
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    let text = ended.text() + &ended.complaints();
    let links = text
        .lines()
        .find_map(|line| line.split_once(" links in "))
        .and_then(|(count, _)| count.parse::<u32>().ok());
    assert!(links.is_some_and(|count| count > 300), "{text}");
}

#[test]
fn the_examples_of_the_book_run() {
    let _turn = turn::take();
    let run = artefacts::root().join("tests/fixtures/ddp_gloo");
    let ended = python(
        "run_examples.py",
        &[artefacts::program().as_path(), run.as_path()],
    );
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
}

#[test]
fn the_outputs_in_the_book_equal_those_of_the_program() {
    let _turn = turn::take();
    let ended = python(
        "outputs.py",
        &[artefacts::program().as_path(), Path::new("--check")],
    );
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    let text = ended.text() + &ended.complaints();
    assert!(text.contains(" outputs, 0 wrong"), "{text}");
}
