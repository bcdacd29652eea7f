//! Tests merges by a real scheduler and real executors: the sessions are those of a merge on this machine, byte for byte.

mod support;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::empty::EmptyExec;
use rankscope_analysis::merge::in_periods::{PeriodOptions, merge_in_periods};
use rankscope_analysis::merge::units::parts;
use rankscope_analysis::{merge, merge_by};
use rankscope_cluster::access::Access;
use rankscope_cluster::submit;
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::damage::damage_two;
use rankscope_fixtures::logs::kernels;
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_fixtures::session_files::{assert_same, files};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Cluster, PROGRAM, Submit, options};

/// Writes a run of this many ranks and steps, one of whose logs is damaged and one cut.
fn damaged_run(run: &Path, ranks: u32, steps: u32) {
    let ddp = Ddp {
        ranks,
        steps,
        slow: Some((3, 50_000)),
        ..Ddp::default()
    };
    ddp.write(run).expect("write");
    damage_two(run);
}

#[test]
fn sessions_of_executors_and_of_this_process_are_the_same() {
    let cluster = Cluster::start(&[]);
    let (one, _) = cluster.executor(&[]);
    let (_other, _) = cluster.executor(&[]);
    let folder = &cluster.folder;
    type Write = fn(&Path);
    let synthetic: [(&str, Write); 3] = [
        ("ddp", |run| damaged_run(run, 150, 30)),
        ("pipeline", |run| Pipelined::default().write(run)),
        ("kernels", |run| {
            (0..3).for_each(|rank| kernels::write(run, rank, 3, 40).expect("write"));
        }),
    ];
    let mut runs = Vec::new();
    for (name, write) in synthetic {
        let run = folder.path().join(name);
        write(&run);
        runs.push(run);
    }
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/recordings");
    let recordings = fs::read_dir(recordings).expect("recordings of real jobs");
    runs.extend(recordings.map(|entry| entry.expect("a recording").path()));
    assert!(runs.len() > 10, "{runs:?}");
    for run in runs {
        let name = run.file_name().expect("a name").display();
        let session = |name: &str| folder.path().join("sessions").join(name);
        fs::create_dir_all(session("")).expect("a folder");
        merge(&options(&run, &session("here")), &mut |_| {}).expect("merge");
        let here = files(&session("here"));
        let in_process = Submit {
            scheduler: "in-process".to_owned(),
            access: Vec::new(),
        };
        for (how, runner) in [("cluster", cluster.runner()), ("in-process", in_process)] {
            merge_by(Arc::new(runner), &options(&run, &session(how)), &mut |_| {}).expect("merge");
            assert_same(&here, &files(&session(how)), &format!("{name} by {how}"));
        }
        fs::remove_dir_all(session("")).expect("removed");
    }
    assert!(one.stop(), "an executor ends when it is asked to");
}

/// Merges a run again and again while executors are killed at different times, and compares each session.
fn assert_same_with_killed_executors(ranks: u32, steps: u32, times: u32) -> Cluster {
    let cluster = Cluster::start(&[]);
    let run = cluster.folder.path().join("run");
    damaged_run(&run, ranks, steps);
    let (here, there) = (
        cluster.folder.path().join("here"),
        cluster.folder.path().join("there"),
    );
    merge(&options(&run, &here), &mut |_| {}).expect("merge");
    let here = files(&here);
    let (_survivor, _) = cluster.executor(&[]);
    // As long as an undisturbed merge takes.
    let start = Instant::now();
    merge_by(Arc::new(cluster.runner()), &options(&run, &there), &mut |_| {}).expect("merge");
    let undisturbed = start.elapsed();
    for turn in 0..times {
        let (mut victim, _) = cluster.executor(&[]);
        let after = undisturbed * (turn % 10) / 10;
        let done = std::thread::scope(|scope| {
            let merging = scope.spawn(|| {
                merge_by(Arc::new(cluster.runner()), &options(&run, &there), &mut |_| {}).map(drop)
            });
            std::thread::sleep(after);
            victim.kill();
            merging.join().expect("no panic")
        });
        done.unwrap_or_else(|error| panic!("killed after {after:?}: {error}"));
        assert_same(&here, &files(&there), &format!("killed after {after:?}"));
        println!("turn {turn}: killed after {after:?}, the same session");
    }
    cluster
}

#[test]
fn a_killed_executor_changes_nothing() {
    assert_same_with_killed_executors(200, 200, 2);
}

#[test]
#[ignore = "ten minutes: `make cluster-study`"]
fn twenty_killed_executors_change_nothing() {
    let cluster = assert_same_with_killed_executors(512, 600, 20);
    // Kills between two units would show nothing.
    let lost = cluster.scheduler_said("lost Executor");
    println!("{lost} times units were running on a killed executor");
    assert!(lost > 0, "no unit was running on a killed executor");
}

/// Executors merge whole periods, also if one is killed.
#[test]
fn executors_merge_periods() {
    let cluster = Cluster::start(&[]);
    let run = cluster.folder.path().join("run");
    let job = Ddp {
        ranks: 300,
        steps: 300,
        forward_ns: 60_000_000,
        flushed_records: 60,
        ..Ddp::default()
    };
    job.write(&run).expect("write");
    damage_two(&run);
    let (here, there) = (run.join("here"), run.join("there"));
    let local = PeriodOptions::new(3_000_000_000);
    let expected = merge_in_periods(&options(&run, &here), &local, &mut |_| {}).expect("merge");
    assert!(expected.periods.len() > 5, "{}", expected.periods.len());
    let (_survivor, _) = cluster.executor(&[]);
    let (mut victim, _) = cluster.executor(&[]);
    let by_cluster = PeriodOptions {
        runner: Some(Arc::new(cluster.runner())),
        ..local
    };
    let options = options(&run, &there);
    let list = std::thread::scope(|scope| {
        let merging = scope.spawn(|| merge_in_periods(&options, &by_cluster, &mut |_| {}));
        while !has_begun(&there) && !merging.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        victim.kill();
        merging.join().expect("no panic").expect("merge")
    });
    assert_eq!(list.periods, expected.periods);
    for period in &list.periods {
        let comparable = |session: &Path| {
            let mut all = files(&period.path(session));
            // The viewer's index has the time of the merge.
            all.retain(|path, _| !path.starts_with("view"));
            all
        };
        assert_same(&comparable(&here), &comparable(&there), &period.name);
    }
}

#[test]
fn without_the_token_nothing_works() {
    let cluster = Cluster::start(&[]);
    let wrong = cluster.folder.path().join("wrong");
    fs::write(&wrong, "another token of enough characters").expect("a token");
    let wrong = ["--token-file".to_owned(), wrong.display().to_string()];
    let mut command = Command::new(PROGRAM);
    let output = command
        .args(["executor", &cluster.address])
        .args(&wrong)
        .output()
        .expect("an end");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("wrong or missing token"), "{text}");
    let (_executor, _) = cluster.executor(&[]);
    let run = cluster.folder.path().join("run");
    damaged_run(&run, 8, 5);
    let stranger = Submit {
        scheduler: cluster.address.clone(),
        access: wrong.to_vec(),
    };
    let options = options(&run, &cluster.folder.path().join("session"));
    let error = merge_by(Arc::new(stranger), &options, &mut |_| {})
        .map(drop)
        .expect_err("no token");
    assert!(error.to_string().contains("wrong or missing token"), "{error}");
    // Without any token, the program says how to make one.
    let mut command = Command::new(PROGRAM);
    let output = command
        .args(["scheduler"])
        .env_remove("RANKSCOPE_CLUSTER_TOKEN")
        .output()
        .expect("an end");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("openssl rand"), "{text}");
}

#[test]
fn executors_use_no_files_outside_their_directories() {
    let cluster = Cluster::start(&[]);
    let allowed = cluster.folder.path().join("allowed");
    fs::create_dir(&allowed).expect("a folder");
    let root = allowed.display().to_string();
    let (_executor, _) = cluster.executor(&["--root", &root]);
    let run = allowed.join("run");
    damaged_run(&run, 8, 5);
    let fine = options(&run, &allowed.join("session"));
    merge_by(Arc::new(cluster.runner()), &fine, &mut |_| {}).expect("merge");
    let outside = options(&run, &cluster.folder.path().join("session"));
    let error = merge_by(Arc::new(cluster.runner()), &outside, &mut |_| {})
        .map(drop)
        .expect_err("not allowed");
    assert!(error.to_string().contains("--root"), "{error}");
}

#[test]
fn executors_run_no_other_plans() {
    let cluster = Cluster::start(&[]);
    let (_executor, _) = cluster.executor(&[]);
    let access = Access {
        token_file: Some(cluster.access[1].clone().into()),
        ..Access::default()
    };
    let schema = Arc::new(Schema::new(vec![Field::new("column", DataType::UInt32, false)]));
    let other = Arc::new(EmptyExec::new(schema));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let error = runtime
        .block_on(submit::run(&cluster.address, &access, other))
        .expect_err("refused");
    assert!(error.to_string().contains("only runs units"), "{error}");
}

#[test]
fn a_scheduler_stops_when_it_is_asked_to() {
    let mut cluster = Cluster::start(&[]);
    let (_executor, _) = cluster.executor(&[]);
    assert!(cluster.scheduler.take().expect("a scheduler").stop());
}

#[test]
fn a_merge_waits_for_the_first_executor() {
    let cluster = Cluster::start(&[]);
    let run = cluster.folder.path().join("run");
    damaged_run(&run, 8, 5);
    let options = options(&run, &cluster.folder.path().join("session"));
    std::thread::scope(|scope| {
        let merging = scope.spawn(|| merge_by(Arc::new(cluster.runner()), &options, &mut |_| {}).map(drop));
        std::thread::sleep(Duration::from_secs(2));
        assert!(!merging.is_finished());
        let (_executor, _) = cluster.executor(&[]);
        merging.join().expect("no panic").expect("merge");
    });
}

#[test]
fn a_merge_fails_without_a_scheduler_and_after_the_last_executor() {
    let cluster = Cluster::start(&[]);
    let run = cluster.folder.path().join("run");
    damaged_run(&run, 200, 200);
    let options = options(&run, &cluster.folder.path().join("session"));
    let nowhere = Submit {
        scheduler: "127.0.0.1:9".to_owned(),
        access: cluster.access.clone(),
    };
    let error = merge_by(Arc::new(nowhere), &options, &mut |_| {})
        .map(drop)
        .expect_err("no scheduler");
    assert!(error.to_string().contains("127.0.0.1:9"), "{error}");
    let (mut executor, _) = cluster.executor(&[]);
    let error = std::thread::scope(|scope| {
        let merging = scope.spawn(|| merge_by(Arc::new(cluster.runner()), &options, &mut |_| {}).map(drop));
        while !has_begun(&options.output) {
            std::thread::sleep(Duration::from_millis(1));
        }
        executor.kill();
        merging.join().expect("no panic").expect_err("no executor")
    });
    assert!(error.to_string().to_lowercase().contains("executor"), "{error}");
}

/// Returns true if an executor has begun a unit of the merge into a session directory.
fn has_begun(session: &Path) -> bool {
    let entries = fs::read_dir(session).into_iter().flatten().flatten();
    let mut parts = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(parts::PREFIX));
    parts.any(|entry| parts::has_begun(&entry.path(), &(0..u32::MAX)))
}

/// Makes an authority and a certificate with openssl. Returns the options with them.
fn certificates(folder: &Path) -> Vec<String> {
    let openssl = |arguments: &[&str]| {
        let status = Command::new("openssl")
            .args(arguments)
            .current_dir(folder)
            .output();
        let output = status.expect("openssl");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").expect("a file");
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=authority",
    ]);
    openssl(&[
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "node.key",
        "-out",
        "node.csr",
        "-subj",
        "/CN=localhost",
    ]);
    openssl(&[
        "x509",
        "-req",
        "-in",
        "node.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "node.pem",
        "-extfile",
        "names",
    ]);
    let path = |name: &str| folder.join(name).display().to_string();
    let options = [
        ("--tls-ca", "ca.pem"),
        ("--tls-cert", "node.pem"),
        ("--tls-key", "node.key"),
    ];
    options
        .into_iter()
        .flat_map(|(option, name)| [option.to_owned(), path(name)])
        .collect()
}

#[test]
fn connections_are_encrypted_with_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = certificates(folder.path());
    let cluster = Cluster::start(&tls);
    let (_executor, _) = cluster.executor(&[]);
    let run = cluster.folder.path().join("run");
    damaged_run(&run, 8, 5);
    let session = |name: &str| -> PathBuf { cluster.folder.path().join(name) };
    merge(&options(&run, &session("here")), &mut |_| {}).expect("merge");
    merge_by(
        Arc::new(cluster.runner()),
        &options(&run, &session("there")),
        &mut |_| {},
    )
    .expect("merge");
    assert_same(
        &files(&session("here")),
        &files(&session("there")),
        "with certificates",
    );
    // The token alone does not suffice.
    let without = Submit {
        scheduler: cluster.address.clone(),
        access: cluster.access[..2].to_vec(),
    };
    merge_by(Arc::new(without), &options(&run, &session("there")), &mut |_| {})
        .map(drop)
        .expect_err("no certificate");
}
