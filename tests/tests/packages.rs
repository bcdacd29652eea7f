//! The packages: they are packed from the tested artefacts, installed, and used for a job.

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

/// Packs a package with a script of `packaging/` into a directory.
fn pack(script: &str, out: &Path) -> PathBuf {
    let (program, library) = (artefacts::program(), artefacts::library());
    let script = artefacts::root().join("packaging").join(script);
    let arguments = [
        "--program",
        text(&program),
        "--library",
        text(&library),
        "--out",
        text(out),
    ];
    let mut command = Command::new(script);
    process::clean(&mut command);
    // The level changes only the size and the time.
    command.args(arguments).env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    let ended = process::run(command, Duration::from_secs(300));
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    PathBuf::from(ended.text().trim())
}

/// Packs a package twice. Both files must be the same, byte for byte.
fn pack_twice(script: &str, folder: &Path) -> PathBuf {
    let [one, two] = ["one", "two"].map(|name| folder.join(name));
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| pack(script, &two));
        let first = pack(script, &one);
        (first, second.join().expect("the second one is packed"))
    });
    assert!(fs::read(&first).expect("a package") == fs::read(second).expect("a package"));
    first
}

/// Records a training with an installed program. Returns the run directory.
fn record(program: &Path, training: &Path, folder: &Path) -> PathBuf {
    let (run_directory, store) = (folder.join("run"), folder.join("store"));
    fs::create_dir(&store).expect("a directory");
    let mut command = Command::new(program);
    process::clean(&mut command);
    command
        .env("TRUTH_DIR", folder)
        .args([
            "run",
            "-o",
            text(&run_directory),
            "--",
            text(training),
            "0",
            "1",
            text(&store),
        ])
        .args(["ddp", "20", "2000", "none", "1", "0", "7"]);
    let recorded = process::run(command, Duration::from_secs(120));
    assert_eq!(recorded.code(), 0, "{}", recorded.complaints());
    run_directory
}

#[test]
fn the_wheel_records_a_job_in_a_clean_environment() {
    let _turn = turn::share();
    let Some(training) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let wheel = pack_twice("wheel.py", folder.path());
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
        "share/man/man1/rankscope.1",
        "share/man/man1/rankscope-run.1",
    ] {
        assert!(environment.join(file).is_file(), "{file}");
    }
    let library = environment.join("lib/rankscope/librankscope.so");
    let bytes = fs::metadata(&library).expect("the library").len();
    assert!(bytes <= 2_000_000, "{bytes} bytes");

    // The installed program finds its library, and the module reads the session.
    let run_directory = record(&environment.join("bin/rankscope"), &training, folder.path());
    let code = "import rankscope, sys; print(rankscope.open(sys.argv[1]).value('/totals/operations'))";
    let read = run(&python, &["-c", code, text(&run_directory)]);
    assert_eq!(read.text().trim(), "82", "{}", read.complaints());
}

#[test]
fn the_debian_package_records_a_job() {
    let _turn = turn::share();
    let Some(training) = compile::gloo("gloo_train.cc") else {
        return;
    };
    if run(Path::new("sh"), &["-c", "command -v dpkg-deb"]).code() != 0 {
        skip("dpkg-deb is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let package = pack_twice("deb.py", folder.path());
    let root = folder.path().join("root");
    let dpkg = |arguments: &[&str]| {
        let ended = run(Path::new("dpkg-deb"), arguments);
        assert_eq!(ended.code(), 0, "{}", ended.complaints());
        ended.text()
    };
    dpkg(&["--extract", text(&package), text(&root)]);
    let version = dpkg(&["--field", text(&package), "Version"]);
    let depends = dpkg(&["--field", text(&package), "Depends"]);
    assert!(depends.contains("libc6 (>= 2."), "{depends}");

    let program = root.join("usr/bin/rankscope");
    let stated = run(&program, &["-V"]).text();
    assert_eq!(stated.trim(), format!("rankscope {}", version.trim()));
    for file in [
        "lib/rankscope/librankscope.so",
        "include/rankscope.h",
        "share/doc/rankscope/copyright",
        "share/zsh/vendor-completions/_rankscope",
    ] {
        assert!(root.join("usr").join(file).is_file(), "{file}");
    }
    let page = root.join("usr/share/man/man1/rankscope-run.1.gz");
    let page = run(Path::new("gzip"), &["-dc", text(&page)]).text();
    assert!(page.contains(".SH OPTIONS") && page.contains("hang"), "{page}");
    assert!(!page.contains("commit:"), "every commit would change every page");

    let run_directory = record(&program, &training, folder.path());
    assert!(run_directory.join("session/session.json").is_file());
}

#[test]
fn the_archive_records_a_job_from_any_folder() {
    let _turn = turn::share();
    let Some(training) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let archive = pack_twice("tarball.py", folder.path());
    let unpacked = run(
        Path::new("tar"),
        &["-xzf", text(&archive), "-C", text(folder.path())],
    );
    assert_eq!(unpacked.code(), 0, "{}", unpacked.complaints());
    let root = folder.path().join("rankscope");
    for file in ["LICENSE-MIT", "include/rankscope.h", "share/man/man1/rankscope.1"] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let run_directory = record(&root.join("bin/rankscope"), &training, folder.path());
    assert!(run_directory.join("session/session.json").is_file());
}

#[test]
fn the_version_states_the_commit_and_the_formats() {
    let ended = run(&artefacts::program(), &["--version"]);
    let text = ended.text();
    assert_eq!(ended.code(), 0);
    for line in [
        "commit: ",
        "machine: ",
        "rank logs: ",
        "NCCL plugin: ",
        "viewer: ",
    ] {
        assert!(text.contains(line), "{text}");
    }
    for source in ["kineto", "nsys", "flight-recorder", "inspector", "ras", "ray"] {
        let imports = text.lines().find(|line| line.starts_with("imports: "));
        assert!(imports.is_some_and(|line| line.contains(source)), "{text}");
    }
    let library = artefacts::library();
    let mut elsewhere = Command::new(artefacts::program());
    elsewhere.env("RANKSCOPE_LIBRARY", &library).arg("--version");
    let named = process::run(elsewhere, Duration::from_secs(20)).text();
    assert!(named.contains(library.to_str().expect("a plain name")), "{named}");
    let mut nowhere = Command::new(artefacts::program());
    nowhere
        .env("RANKSCOPE_LIBRARY", "/nowhere/librankscope.so")
        .arg("--version");
    let ended = process::run(nowhere, Duration::from_secs(20));
    assert!(
        ended.text().contains("library:      not found"),
        "{}",
        ended.text()
    );
    assert_eq!(run(&artefacts::program(), &["-V"]).text().lines().count(), 1);
}
