//! The program, as a user starts it.

use rankscope_analysis::merge::{MergeOptions, merge};
use rankscope_fixtures::logs::Ddp;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rankscope-sql");

static RUN: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    Ddp::default().write(folder.path()).expect("logs");
    let options = MergeOptions {
        directories: vec![folder.path().to_path_buf()],
        output: folder.path().join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    merge(&options, &mut |_| {}).expect("a session");
    folder
});

fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg(RUN.path()).stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code().expect("a status"), text(stdout), text(stderr))
}

#[test]
fn a_query_prints_a_table_or_csv() {
    let query = "select operation, count(*) as n from operations group by operation order by n";
    let (status, table, _) = output(command().arg(query));
    assert_eq!(status, 0);
    assert!(table.contains("| all-reduce | 604 |"), "{table}");
    let (_, csv, _) = output(command().args([query, "--format", "csv"]));
    assert_eq!(csv, "operation,n\nbroadcast,8\nall-reduce,604\n");
    let mut piped = command();
    let mut child = piped
        .args(["-", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = child.stdin.take().expect("an input");
    input.write_all(query.as_bytes()).expect("it reads");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), csv);
}

#[test]
fn a_file_gets_all_rows_and_a_screen_some() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.csv");
    let query = "select * from operations";
    let (status, nothing, said) = output(command().arg(query).arg("-o").arg(&file).args(["--rows", "5"]));
    assert_eq!((status, nothing.as_str()), (0, ""));
    assert!(said.contains("612 rows"), "{said}");
    assert_eq!(
        std::fs::read_to_string(&file).expect("a file").lines().count(),
        613
    );
    let lists = "select operation, make_array(1, 2) as list from instances limit 1";
    let (_, csv, _) = output(command().args([lists, "--format", "csv"]));
    assert!(csv.ends_with(",\"[1, 2]\"\n"), "{csv}");
    let (_, csv, _) = output(command().args(["select 1 as \"a,b\" where false", "--format", "csv"]));
    assert_eq!(csv, "\"a,b\"\n");
    let (_, table, said) = output(command().arg(query).args(["--rows", "5"]));
    assert_eq!(table.lines().count(), 9);
    assert!(said.contains("first 5 rows; use --rows"), "{said}");
}

#[test]
fn failures_say_what_to_do_and_leave_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.csv");
    for (arguments, expected) in [
        (vec!["select nothing from operations"], "nothing"),
        (
            vec!["select 1 from operations", "--format", "parquet"],
            "-o FILE.parquet",
        ),
        (
            vec!["select 1 from operations", "-o", "rows.odd"],
            ".csv, .json, .parquet",
        ),
        (
            vec!["select 1/0 from operations", "-o", file.to_str().expect("text")],
            "zero",
        ),
        (vec![], "standard input is no terminal"),
        (
            vec!["no such directory"],
            "not a query that starts with SELECT or WITH",
        ),
        (
            vec!["select 1", "select 2"],
            "give one query, as the last argument",
        ),
        (vec!["select 1; select 2"], "give one query; the prompt"),
        (vec!["/* note */ select nothing from operations"], "nothing"),
    ] {
        let (status, _, said) = output(command().args(&arguments));
        assert_eq!(status, 2, "{arguments:?}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
        // Advice on damaged tables belongs to damaged tables.
        assert!(!said.contains("damaged"), "{arguments:?}: {said}");
    }
    assert!(!file.exists());
    assert_eq!(folder.path().read_dir().expect("a folder").count(), 0);
    let (status, _, said) = output(Command::new(PROGRAM).arg("select 1 from operations"));
    assert_eq!(status, 2);
    assert!(said.contains("a query needs a run"), "{said}");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    for format in ["json", "csv", "table"] {
        let mut child = command()
            .args(["select * from operations", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{format}");
        assert!(ended.status.success(), "{format}");
    }
}

#[test]
fn a_signal_ends_a_query_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "select count(*) from operations a, operations b, operations c, operations d \
                 where a.bytes + b.bytes + c.bytes > d.bytes";
    let mut child = command()
        .env("TMPDIR", folder.path())
        .arg(query)
        .arg("-o")
        .arg(folder.path().join("n.csv"))
        .spawn()
        .expect("it runs");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let mut kill = Command::new("kill");
    assert_eq!(output(kill.args(["-INT", &child.id().to_string()])).0, 0);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(folder.path().read_dir().expect("a folder").count(), 0);
}

#[test]
fn long_queries_are_answered() {
    let terms = vec!["1"; 1500].join(" + ");
    let (_, sum, said) =
        output(command().args([&format!("select {terms} as n from runs"), "--format", "csv"]));
    assert_eq!(sum, "n\n1500\n", "{said}");
    let parts = vec!["select 1 from runs"; 600].join(" union all ");
    let (_, count, said) =
        output(command().args([&format!("select count(*) as n from ({parts})"), "--format", "csv"]));
    assert_eq!(count, "n\n600\n", "{said}");
}

/// The wheel of the query engine, installed by pip.
#[test]
fn the_wheel_has_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().expect("a folder");
    let mut pack = Command::new("python3");
    pack.arg(root.join("packaging/companion_wheel.py"))
        .args(["--program", PROGRAM, "--out"])
        .arg(folder.path());
    let (status, wheel, said) = output(&mut pack);
    assert_eq!(status, 0, "{said}");
    let target = folder.path().join("installed");
    let mut install = Command::new("python3");
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
        ])
        .arg(&target)
        .arg(PathBuf::from(wheel.trim()));
    let (status, _, said) = output(&mut install);
    assert_eq!(status, 0, "{said}");
    let (status, version, _) = output(Command::new(target.join("bin/rankscope-sql")).arg("--version"));
    assert_eq!(status, 0);
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}
