//! Tests programs without communication, which a preload also reaches if a job starts them.
//!
//! They must not notice it: same output, same status, no thread, no descriptor, no file, with or without a run
//! directory.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rankscope_tests::process::{self, Ended};
use rankscope_tests::turn::{self, Turn};
use rankscope_tests::{compile, skip};

/// User id of the account that owns nothing.
const NOBODY: u32 = 65534;

/// State of the preload.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Preload {
    No,
    Idle,
    Recording,
}

struct Case<'a> {
    program: &'a str,
    arguments: &'a [&'a str],
    as_nobody: bool,
}

fn run(case: &Case<'_>, preload: Preload, scratch: &Path) -> Ended {
    // The path is the same each time, because programs print it, and the directory is empty each time.
    let home = scratch.join("home");
    let recorded = scratch.join("recorded");
    let live = scratch.join("live");
    for directory in [&home, &recorded, &live] {
        if directory.exists() {
            std::fs::remove_dir_all(directory)
                .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
        std::fs::create_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        // For the case that runs as nobody.
        let everyone = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory, everyone).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut command = Command::new(case.program);
    command.args(case.arguments).current_dir(&home);
    match preload {
        Preload::No => process::clean(&mut command),
        Preload::Idle => process::preload(&mut command, None),
        Preload::Recording => process::preload(&mut command, Some(&recorded)),
    }
    if preload != Preload::No {
        // Keeps the live areas apart from those of other jobs on this machine.
        command.env("RANKSCOPE_LIVE_DIR", &live);
    }
    // The test compares programs, not this machine's settings for them.
    command
        .env("HOME", &home)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    if case.as_nobody {
        command.uid(NOBODY);
    }
    let ended = process::run(command, Duration::from_secs(120));
    let mut left = Vec::new();
    for directory in [&recorded, &live] {
        let entries = directory.read_dir();
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        left.extend(entries.flatten().map(|entry| entry.path()));
    }
    assert!(
        left.is_empty(),
        "{} {:?} left {left:?}",
        case.program,
        case.arguments
    );
    ended
}

fn compare(_turn: &Turn, case: &Case<'_>) {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let enter = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scratch.path(), enter).unwrap_or_else(|error| panic!("{error}"));
    let plain = run(case, Preload::No, scratch.path());
    for preload in [Preload::Idle, Preload::Recording] {
        let preloaded = run(case, preload, scratch.path());
        let what = format!("{} {:?}, preload {preload:?}", case.program, case.arguments);
        assert_eq!(
            preloaded.complaints(),
            plain.complaints(),
            "standard error of {what}"
        );
        assert_eq!(preloaded.text(), plain.text(), "standard output of {what}");
        assert_eq!(preloaded.status, plain.status, "status of {what}");
    }
}

/// Finds a program as the shell would.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    if found.is_none() {
        skip(&format!("{program} is not on this machine"));
    }
    found
}

fn ordinary(program: &str, scripts: &[&[&str]]) {
    let turn = turn::take();
    let Some(path) = find(program) else { return };
    let path = path.to_str().expect("programs have plain names");
    for arguments in scripts {
        compare(
            &turn,
            &Case {
                program: path,
                arguments,
                as_nobody: false,
            },
        );
    }
}

#[test]
fn shells() {
    let scripts: &[&[&str]] = &[
        &[
            "-c",
            "echo one; (echo two; exit 3); echo $?; x=$(echo three | tr a-z A-Z); echo $x; exit 5",
        ],
        &["-c", "trap 'echo trapped' TERM; kill -TERM $$; kill -KILL $$"],
        &["-c", "exec 1>&-; echo lost"],
        &[
            "-c",
            "for n in 1 2 3 4 5 6 7 8; do (echo $n | cat | cat) & wait; done",
        ],
        &["-c", "ls /proc/self/fd; ls /proc/self/task | wc -l"],
        &["-c", "ulimit -n 4; echo few; ulimit -f 0; echo none"],
        &["-c", "no-such-command"],
        &["-c", "exec ls -d /"],
    ];
    ordinary("bash", scripts);
    ordinary("sh", scripts);
}

#[test]
fn coreutils() {
    ordinary("seq", &[&["1", "1000"]]);
    ordinary("sort", &[&["--parallel=2", "-r", "/etc/passwd"]]);
    ordinary("sha256sum", &[&["/etc/passwd", "/no/such/file"]]);
    ordinary("timeout", &[&["0.1", "sleep", "5"]]);
    ordinary("ls", &[&["-l", "/etc/passwd", "/no/such/file"]]);
    ordinary("false", &[&[]]);
    ordinary(
        "head",
        &[&["-c", "100", "/dev/full"], &["-n", "1", "/etc/passwd"]],
    );
    ordinary("find", &[&["/etc/default", "-type", "f"]]);
}

#[test]
fn python() {
    ordinary(
        "python3",
        &[
            &[
                "-c",
                "import os; print(os.listdir('/proc/self/fd'), len(os.listdir('/proc/self/task')))",
            ],
            &[
                "-c",
                "import subprocess as s; print(s.run(['sh', '-c', 'echo out; exit 3'], capture_output=True))",
            ],
            &[
                "-c",
                "import subprocess as s; s.run(['ls', '/'], close_fds=True, start_new_session=True)",
            ],
            &["-c", MULTIPROCESSING],
            &[
                "-c",
                "import os; os.fork() or os._exit(4); print(os.waitstatus_to_exitcode(os.wait()[1]))",
            ],
            &["-c", "import os; os.closerange(3, 1000); print(os.open('/', 0))"],
            &["-c", "import ctypes; print(ctypes.CDLL(None).no_such_function)"],
            &["-c", "import sys; sys.exit('wrong')"],
        ],
    );
}

const MULTIPROCESSING: &str = "
import multiprocessing
for method in 'fork', 'forkserver':
    with multiprocessing.get_context(method).Pool(2) as pool:
        print(method, pool.map(abs, range(-20, 0)))
";

#[test]
fn node() {
    ordinary(
        "node",
        &[
            &[
                "-e",
                "console.log(process.version, require('child_process').execSync('echo child').toString())",
            ],
            &[
                "-e",
                "const {Worker} = require('worker_threads'); new Worker('console.log(6 * 7)', {eval: true})",
            ],
            &[
                "-e",
                "process.exitCode = 3; setTimeout(() => console.log('late'), 20)",
            ],
        ],
    );
}

#[test]
fn java() {
    ordinary(
        "java",
        &[
            &["-version"],
            &["-Xshare:auto", "-XX:+UseSerialGC", "no.such.Class"],
        ],
    );
}

#[test]
fn git() {
    let repository = "git init -q . && git config user.name n && git config user.email e && echo a > a && \
        git add a && git commit -q -m m --date=2000-01-01T00:00:00Z && git gc -q && git log --format=%s%T && \
        git status --short && git clone -q . copy && ls copy";
    ordinary("sh", &[&["-c", repository]]);
    ordinary("git", &[&["no-such-command"], &["log"]]);
}

#[test]
fn compilers() {
    let build = "printf 'int main(void) { return 42; }' > a.c && gcc -O2 -o a a.c && ./a";
    ordinary("sh", &[&["-c", build]]);
    ordinary("gcc", &[&["no-such-file.c"], &["-print-multiarch"]]);
}

#[test]
fn perl() {
    ordinary(
        "perl",
        &[
            &[
                "-e",
                "print `echo child`; system('exit 3'); print $? >> 8; exit 6",
            ],
            &[
                "-e",
                "$SIG{TERM} = sub { print qq(got it\\n); exit 2 }; kill TERM => $$; sleep 5",
            ],
            &[
                "-e",
                "if (my $child = fork) { waitpid $child, 0; print $? } else { exec 'false' }",
            ],
        ],
    );
}

#[test]
fn setuid() {
    let turn = turn::take();
    for (program, arguments) in [
        ("mount", &["--version"] as &[&str]),
        ("su", &["--version"]),
        ("passwd", &["--status"]),
    ] {
        let Some(path) = find(program) else { continue };
        let path = path.to_str().expect("programs have plain names");
        // setuid only takes effect for another user. The loader then ignores the preload.
        // SAFETY: geteuid accesses no memory.
        let as_nobody = unsafe { libc::geteuid() } == 0;
        compare(
            &turn,
            &Case {
                program: path,
                arguments,
                as_nobody,
            },
        );
    }
}

#[test]
fn statically_linked() {
    let turn = turn::take();
    let Some(path) = compile::c("static.c", &["-static"]) else {
        return;
    };
    let path = path.to_str().expect("programs have plain names");
    compare(
        &turn,
        &Case {
            program: path,
            arguments: &[],
            as_nobody: false,
        },
    );
}
