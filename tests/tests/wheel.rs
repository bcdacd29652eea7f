//! The wheel: it is packed from the tested artefacts, installed into a clean environment, and used for a job.

use rankscope_tests::process::{self, Ended};
use rankscope_tests::{artefacts, compile, skip, turn};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn run(program: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program);
    process::clean(&mut command);
    command.args(arguments);
    process::run(command, Duration::from_secs(300))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

/// Packs the wheel into a directory.
fn pack(out: &Path) -> PathBuf {
    let (program, library) = (artefacts::program(), artefacts::library());
    let script = artefacts::root().join("packaging/wheel.py");
    let arguments = [
        "--program",
        text(&program),
        "--library",
        text(&library),
        "--out",
        text(out),
    ];
    let ended = run(&script, &arguments);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    PathBuf::from(ended.text().trim())
}

#[test]
fn the_wheel_records_a_job_in_a_clean_environment() {
    let _turn = turn::take();
    let Some(training) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let wheel = pack(&folder.path().join("one"));
    let again = pack(&folder.path().join("two"));
    assert_eq!(
        fs::read(&wheel).expect("a wheel"),
        fs::read(again).expect("a wheel")
    );
    let name = wheel.file_name().expect("a name").to_string_lossy();
    assert!(
        name.starts_with("rankscope-") && name.contains("-py3-none-manylinux_2_"),
        "{name}"
    );

    let environment = folder.path().join("environment");
    let made = run(Path::new("python3"), &["-m", "venv", text(&environment)]);
    if made.code() != 0 {
        skip("python3 has no venv");
        return;
    }
    let python = environment.join("bin/python");
    let installed = run(
        &python,
        &["-m", "pip", "install", "--quiet", "--no-index", text(&wheel)],
    );
    assert_eq!(installed.code(), 0, "{}", installed.complaints());
    for file in [
        "include/rankscope.h",
        "share/bash-completion/completions/rankscope",
        "share/zsh/site-functions/_rankscope",
        "share/fish/vendor_completions.d/rankscope.fish",
    ] {
        assert!(environment.join(file).is_file(), "{file}");
    }
    let library = environment.join("lib/rankscope/librankscope.so");
    let bytes = fs::metadata(&library).expect("the library").len();
    assert!(bytes <= 2_000_000, "{bytes} bytes");

    // The installed program finds its library, and the module reads the session.
    let (run_directory, store) = (folder.path().join("run"), folder.path().join("store"));
    fs::create_dir(&store).expect("a directory");
    let mut command = Command::new(environment.join("bin/rankscope"));
    process::clean(&mut command);
    command
        .env("TRUTH_DIR", folder.path())
        .args([
            "run",
            "-o",
            text(&run_directory),
            "--",
            text(&training),
            "0",
            "1",
            text(&store),
        ])
        .args(["ddp", "20", "2000", "none", "1", "0", "7"]);
    let recorded = process::run(command, Duration::from_secs(120));
    assert_eq!(recorded.code(), 0, "{}", recorded.complaints());
    let code = "import rankscope, sys; print(rankscope.open(sys.argv[1]).value('/totals/operations'))";
    let read = run(&python, &["-c", code, text(&run_directory)]);
    assert_eq!(read.text().trim(), "82", "{}", read.complaints());
}
