//! Tests `rankscope run` around real processes: neither the job nor a process that waits for it may notice the
//! launcher.

mod launch_support;

use launch_support::{Terminal, bash, ended, recorder, run, text};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

#[test]
fn the_exit_status_is_that_of_the_job() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for status in [0, 1, 2, 42, 126, 127, 255] {
        let output = run(dir.path())
            .args(["--", "sh", "-c", &format!("exit {status}")])
            .output()
            .expect("started");
        assert_eq!(output.status.code(), Some(status));
    }
}

#[test]
fn rankscope_dies_of_the_signal_that_killed_the_job() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for signal in [
        libc::SIGTERM,
        libc::SIGKILL,
        libc::SIGSEGV,
        libc::SIGABRT,
        libc::SIGPIPE,
        libc::SIGUSR1,
    ] {
        let output = run(dir.path())
            .args(["--", "sh", "-c", &format!("kill -{signal} $$")])
            .output()
            .expect("started");
        assert_eq!(output.status.signal(), Some(signal), "{}", text(&output.stderr));
    }
    assert!(
        !fs::read_dir(dir.path())
            .expect("readable")
            .flatten()
            .any(|entry| entry.file_name() == "core")
    );
}

#[test]
fn every_byte_passes_through() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Binary output, longer than any pipe's buffer.
    let bytes: Vec<u8> = (0..3_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let mut child = run(dir.path())
        .args(["--", "sh", "-c", "cat; echo to-stderr >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let writer = thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("ended");
    writer.join().expect("no panic").expect("written");
    assert!(output.stdout == bytes, "standard output differs");
    assert!(
        output.stderr.starts_with(b"to-stderr\nrankscope: "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_job_inherits_the_same_with_and_without_rankscope() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Signals ignored and blocked, directory, limits, descriptors, group, arguments, environment.
    let script = r#"grep -E "^(Sig(Blk|Ign|Cgt)|Threads)" /proc/self/status; pwd; ulimit -a; ls /proc/self/fd;
        cut -d" " -f5,6 /proc/$$/stat; umask; printf "%s|" "$0" "$@"; env | grep -vE "^(LD_PRELOAD|NVTX_INJECTION64_PATH|NCCL_PROFILER_PLUGIN|RANKSCOPE_.*|_)=" | sort"#;
    for trap in ["", "trap '' PIPE HUP CHLD USR1; "] {
        let plain = format!("{trap} cd /usr && sh -c '{script}' zero 'a b' '' c");
        let program = env!("CARGO_BIN_EXE_rankscope");
        let out = dir.path().join("run").display().to_string();
        let launched =
            format!("{trap} cd /usr && {program} run -o {out} -- sh -c '{script}' zero 'a b' '' c");
        let outputs = [plain, launched].map(|script| {
            let output = bash(&script).output().expect("started");
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout)
        });
        assert_eq!(outputs[0], outputs[1]);
    }
}

#[test]
fn the_preload_is_appended_and_the_directory_private() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = run(dir.path())
        .args(["--live-mib", "3", "--max-disk", "2GiB", "--", "sh", "-c"])
        .arg("echo $LD_PRELOAD; echo $RANKSCOPE_DIR; echo $RANKSCOPE_LIVE_MIB $RANKSCOPE_MAX_DISK_MIB; stat -c %a $RANKSCOPE_DIR")
        .env("LD_PRELOAD", "libdl.so.2")
        .output()
        .expect("started");
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("libdl.so.2:/"), "{lines:?}");
    assert_eq!(lines[1], dir.path().join("run").display().to_string());
    assert_eq!(lines[2..], ["3 2048", "700"]);
}

#[test]
fn a_default_directory_contains_the_time_and_is_removed_if_nothing_was_recorded() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = launch_support::program()
        .current_dir(dir.path())
        .args(["run", "--", "sh", "-c", "echo $RANKSCOPE_DIR"])
        .output()
        .expect("started");
    let named = text(&output.stdout);
    let name = named.trim().rsplit('/').next().expect("a name");
    assert!(
        named.starts_with('/') && name.starts_with("rankscope-20"),
        "{named}"
    );
    assert!(
        text(&output.stderr).contains("nothing was recorded"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
}

#[test]
fn a_library_that_hides_its_communication_is_the_reason_why_nothing_was_recorded() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = |name: &str| {
        let library = dir.path().join(name);
        fs::create_dir_all(library.parent().expect("a folder")).expect("created");
        fs::copy(launch_support::harmless_library(), &library).expect("copied");
        format!("LD_PRELOAD={}", library.display())
    };
    let jax = place("jaxlib/libjax_common.so");
    let horovod = place("horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so");
    // A child of the job's first process loads it.
    for (environment, is_named, is_horovod) in [
        (jax, true, false),
        (horovod, false, true),
        (String::new(), false, false),
    ] {
        let output = run(dir.path())
            .args(["--", "sh", "-c", &format!("{environment} sleep 1.5; true")])
            .output()
            .expect("started");
        let complaints = text(&output.stderr);
        assert!(complaints.contains("nothing was recorded"), "{complaints}");
        assert_eq!(complaints.contains("loaded jaxlib"), is_named, "{complaints}");
        assert_eq!(complaints.contains("loaded Horovod"), is_horovod, "{complaints}");
    }
}

#[test]
fn a_program_that_cannot_be_run_ends_as_in_a_shell() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let plain = dir.path().join("plain");
    fs::write(&plain, "not a program").expect("written");
    let orphan = dir.path().join("orphan");
    fs::write(&orphan, "#!/no/such/interpreter\n").expect("written");
    fs::set_permissions(&orphan, fs::Permissions::from_mode(0o755)).expect("executable");
    let here = dir.path().display();
    for (command, status, words) in [
        ("no-such-command-here".to_owned(), 127, "command not found"),
        (format!("{here}/missing"), 127, "no such file"),
        (format!("{here}/plain"), 126, "permission denied"),
        (format!("{here}/orphan"), 127, "interpreter"),
        (format!("{here}"), 126, "is a directory"),
    ] {
        let shell = bash(&command).output().expect("started");
        let output = run(dir.path()).args(["--", &command]).output().expect("started");
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
        assert_eq!(
            output.status,
            shell.status,
            "a shell says {}",
            text(&shell.stderr)
        );
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
        assert!(
            !dir.path().join("run/launches").exists(),
            "the launch left a trace"
        );
    }
}

#[test]
fn wrong_usage_starts_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("thesis.tex"), "").expect("written");
    let output = launch_support::program()
        .arg("run")
        .arg("-o")
        .arg(dir.path())
        .args(["--", "touch"])
        .arg(dir.path().join("started"))
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("name another with -o"),
        "{}",
        text(&output.stderr)
    );
    let output = run(dir.path())
        .args(["--", "touch", "x"])
        .env("RANKSCOPE_LIBRARY", "/none.so")
        .output()
        .expect("run");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("RANKSCOPE_LIBRARY"),
        "{}",
        text(&output.stderr)
    );
    assert!(!dir.path().join("started").exists());
}

#[test]
fn a_signal_reaches_the_job_exactly_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for to_the_group in [false, true] {
        let mut child = run(dir.path())
            .args([
                "--",
                "sh",
                "-c",
                &format!(
                    "exec {}",
                    launch_support::ourselves("report_signals_as_a_job_would")
                ),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut next = || lines.next().expect("a line").expect("readable");
        while next() != "ready" {}
        let target = if to_the_group {
            -(child.id() as i32)
        } else {
            child.id() as i32
        };
        for (signal, name) in [
            (libc::SIGTERM, "term"),
            (libc::SIGHUP, "hup"),
            (libc::SIGUSR1, "usr1"),
            (libc::SIGINT, "int"),
            (libc::SIGUSR2, "usr2"),
            (libc::SIGTERM, "term"),
        ] {
            // SAFETY: the process is a child of this test and was not reaped.
            unsafe { libc::kill(target, signal) };
            assert_eq!(next(), name, "to the group: {to_the_group}");
        }
        // A second copy would arrive within the time that the launcher waits for one.
        thread::sleep(Duration::from_millis(200));
        writeln!(child.stdin.take().expect("a pipe")).expect("written");
        assert_eq!(next(), "end", "to the group: {to_the_group}");
        assert_eq!(ended(&mut child).code(), Some(7));
    }
}

/// If equal signals reach the group while the group process is stopped, the kernel merges them into one for it.
#[test]
fn a_stopped_group_process_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut child = run(dir.path())
        .args(["--", "sh", "-c"])
        .arg(format!(
            "exec {}",
            launch_support::ourselves("report_signals_as_a_job_would")
        ))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("readable");
    while next() != "ready" {}
    let group = child.id() as i32;
    let children = fs::read_to_string(format!("/proc/{group}/task/{group}/children")).expect("children");
    let group_process = children
        .split_whitespace()
        .map(|pid| pid.parse::<i32>().expect("a pid"))
        .find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "rankscope-group")
        })
        .expect("the witness");
    // SAFETY: the processes were started by this test and were not reaped.
    let send = |pid: i32, signal: i32| unsafe { libc::kill(pid, signal) };
    send(group_process, libc::SIGSTOP);
    send(-group, libc::SIGTERM);
    assert_eq!(next(), "term");
    // The launcher checks after the first signal. The second stays pending until the group process has received both as
    // one.
    thread::sleep(Duration::from_millis(50));
    send(group, libc::SIGSTOP);
    send(-group, libc::SIGTERM);
    assert_eq!(next(), "term");
    send(group_process, libc::SIGCONT);
    thread::sleep(Duration::from_millis(100));
    send(group, libc::SIGCONT);
    thread::sleep(Duration::from_millis(200));
    writeln!(child.stdin.take().expect("a pipe")).expect("written");
    assert_eq!(next(), "end");
    assert_eq!(ended(&mut child).code(), Some(7));
}

#[test]
fn a_job_continues_when_rankscope_is_killed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut child = run(dir.path())
        .args(["--", "sh", "-c", "echo ready; read line; echo still here"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("readable"), "ready");
    let mut stdin = child.stdin.take().expect("a pipe");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    writeln!(stdin).expect("written");
    assert_eq!(lines.next().expect("a line").expect("readable"), "still here");
    assert!(lines.next().is_none(), "nobody else holds the pipe");
}

#[test]
fn ctrl_c_interrupts_the_job_and_not_rankscope() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut command = run(dir.path());
    command.args([
        "--",
        "bash",
        "-c",
        "trap 'echo int; exit 3' INT; echo ready; while :; do sleep 0.05; done",
    ]);
    let mut terminal = Terminal::start(command);
    terminal.expect("ready");
    terminal.type_bytes(b"\x03");
    let (seen, status) = terminal.finish();
    assert_eq!(seen.matches("int\r\n").count(), 1, "{seen}");
    assert!(seen.contains("nothing was recorded"), "{seen}");
    assert_eq!(status.code(), Some(3), "{seen}");
}

#[test]
fn rankscope_dies_of_ctrl_c_with_the_job() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut command = run(dir.path());
    command.args(["--", "sh", "-c", "echo ready; exec sleep 60"]);
    let mut terminal = Terminal::start(command);
    terminal.expect("ready");
    terminal.type_bytes(b"\x03");
    let (seen, status) = terminal.finish();
    assert_eq!(status.signal(), Some(libc::SIGINT), "{seen}");
    assert!(seen.contains("nothing was recorded"), "{seen}");
}

#[test]
fn ctrl_z_stops_both_and_fg_continues_both() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = env!("CARGO_BIN_EXE_rankscope");
    let out = dir.path().join("run").display().to_string();
    let mut shell = Command::new("bash");
    launch_support::prepare(&mut shell);
    shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ");
    let mut terminal = Terminal::start(shell);
    terminal.type_bytes(
        format!("{program} run -o {out} -- sh -c 'echo rea''dy; read line; exit 9'\n").as_bytes(),
    );
    terminal.expect("ready\r\n");
    terminal.type_bytes(b"\x1a");
    terminal.expect("Stopped");
    terminal.type_bytes(b"echo sh''ell\n");
    terminal.expect("shell\r\n");
    terminal.type_bytes(b"fg\n");
    thread::sleep(Duration::from_millis(200));
    terminal.type_bytes(b"some line\n");
    terminal.expect("nothing was recorded");
    terminal.type_bytes(b"exit $?\n");
    let (seen, status) = terminal.finish();
    assert_eq!(status.code(), Some(9), "{seen}");
}

#[test]
fn a_killed_process_is_completed_from_its_live_area() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let recorder = recorder("forever");
    let script =
        format!("{recorder} & while [ ! -e $RANKSCOPE_DIR/ready ]; do sleep 0.02; done; kill -9 $!; wait $!");
    let output = run(dir.path())
        .args(["--no-merge", "--", "sh", "-c", &script])
        .output()
        .expect("started");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(137), "{message}");
    assert!(message.contains("recorded: rankscope merge /"), "{message}");
    assert_eq!(
        launch_support::closed_logs(&dir.path().join("run")),
        1,
        "{message}"
    );
}

#[test]
fn a_full_disk_is_named_with_advice() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let message = |arguments: &[&str]| {
        let output = run(dir.path())
            .args(arguments)
            .args(["--no-merge", "--", "sh", "-c", &recorder("briefly")])
            .output()
            .expect("started");
        assert!(output.status.success());
        text(&output.stderr)
    };
    let short = message(&["--min-free", "1000000T"]);
    assert!(
        short.contains("may stop early") && short.contains("--min-free SIZE"),
        "{short}"
    );
    let enough = message(&[]);
    assert!(!enough.contains("stop early"), "{enough}");
}

#[test]
fn a_process_that_outlives_the_job_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let recorder = recorder("forever");
    let script = format!(
        "{recorder} >/dev/null 2>&1 & echo $!; while [ ! -e $RANKSCOPE_DIR/ready ]; do sleep 0.02; done"
    );
    let output = run(dir.path())
        .args(["--no-merge", "--", "sh", "-c", &script])
        .output()
        .expect("started");
    let message = text(&output.stderr);
    let pid: i32 = text(&output.stdout).trim().parse().expect("a process id");
    // SAFETY: the process belongs to this test's job.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains(&format!("process {pid} (")) && message.contains("still runs"),
        "{message}"
    );
    assert_eq!(launch_support::closed_logs(&dir.path().join("run")), 0);
}

#[test]
fn of_two_launches_in_one_directory_the_last_to_end_merges() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let recorder = recorder("briefly");
    let first = run(dir.path())
        .args([
            "--no-merge",
            "--",
            "sh",
            "-c",
            &format!("echo ready; read line; {recorder}"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut first = first.expect("started");
    let mut stdout = first.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0; 6]).expect("ready");
    let second = run(dir.path())
        .args(["--", "sh", "-c", &recorder])
        .output()
        .expect("started");
    assert!(second.status.success());
    assert!(
        text(&second.stderr).contains("still recording into this directory"),
        "{}",
        text(&second.stderr)
    );
    writeln!(first.stdin.take().expect("a pipe")).expect("written");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    let output = first.wait_with_output().expect("ended");
    assert!(
        text(&output.stderr).contains("recorded: rankscope merge"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(launch_support::closed_logs(&dir.path().join("run")), 2);
}

#[test]
fn an_interrupted_merge_keeps_the_recording_and_says_how_to_continue() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // A named pipe in place of a log: a reader that opens it waits for ever.
    let script = "mkfifo $RANKSCOPE_DIR/host-1-0000000000000001.rslog; exit 5";
    let mut child = run(dir.path())
        .args(["--", "sh", "-c", script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stderr = child.stderr.take().expect("a pipe");
    let launches = dir.path().join("run/launches");
    launch_support::wait_until("the job has ended", || {
        let files = fs::read_dir(&launches).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_to_string(file.path()).ok())
            .any(|text| text.contains("\"status\": 5"))
    });
    thread::sleep(Duration::from_millis(200));
    // SAFETY: the process is a child of this test and was not reaped.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(ended(&mut child).code(), Some(5), "the job's status, also now");
    let mut message = String::new();
    stderr.read_to_string(&mut message).expect("text");
    let run = dir.path().join("run");
    assert!(
        message.contains(&format!("rankscope merge {}", run.display())),
        "{message}"
    );
    assert!(!run.join("merging.json").exists() && !run.join("session.unfinished").exists());
    assert!(run.join("host-1-0000000000000001.rslog").exists());
}

#[test]
fn a_run_ends_with_a_summary_a_session_and_a_page() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = run(dir.path())
        .args(["--", "sh", "-c", &recorder("briefly")])
        .output()
        .expect("started");
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(message.trim_start().starts_with("Coverage"), "{message}");
    let run = dir.path().join("run");
    assert!(
        run.join("session/session.json").is_file() && run.join("report.html").is_file(),
        "{message}"
    );
    assert!(!run.join("merging.json").exists() && !run.join("session.unfinished").exists());

    let report = launch_support::program()
        .args(["report", "--json"])
        .arg(&run)
        .output()
        .expect("started");
    assert!(report.status.success(), "{}", text(&report.stderr));
    assert!(text(&report.stdout).contains("\"coverage\""));
    let trace = run.join("trace.pftrace");
    assert!(trace.is_file(), "{message}");
    let export = launch_support::program()
        .args(["export", "--perfetto", "--json"])
        .arg(&run)
        .output()
        .expect("run");
    assert!(export.status.success(), "{}", text(&export.stderr));
    let reported: serde_json::Value = serde_json::from_slice(&export.stdout).expect("JSON");
    assert_eq!(
        reported["bytes"].as_u64(),
        Some(fs::metadata(&trace).expect("written").len())
    );
    let again = launch_support::program()
        .arg("merge")
        .arg(&run)
        .output()
        .expect("started");
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(
        text(&again.stdout).trim_start().starts_with("Coverage"),
        "{}",
        text(&again.stdout)
    );
}

#[test]
fn a_statically_linked_job_is_named_as_the_reason() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = dir.path().join("static.c");
    fs::write(&source, "int main(void) { return 5; }\n").expect("written");
    let program = dir.path().join("static");
    let built = Command::new("gcc")
        .arg("-static")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "gcc -static does not work"
    );
    let output = run(dir.path()).arg("--").arg(&program).output().expect("started");
    assert_eq!(output.status.code(), Some(5));
    assert!(
        text(&output.stderr).contains("statically linked"),
        "{}",
        text(&output.stderr)
    );
}

/// Not a test: a process that prints the name of each signal that it receives.
#[test]
#[ignore = "started by other tests"]
fn report_signals_as_a_job_would() {
    launch_support::report_signals();
}

/// Not a test: a process that records. The tests above start it as the job.
#[test]
#[ignore = "started by other tests"]
fn record_as_a_job_would() {
    launch_support::record();
}
