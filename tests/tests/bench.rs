//! `rankscope bench` on real libraries: every result is right, every operation is recorded, and the figures are those of the
//! recording.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rankscope_formats::bench::{BenchResults, BenchRow, Placement};
use rankscope_formats::session::OperationRow;
use rankscope_ranklog::Operation;
use rankscope_tests::host_nccl::HostNccl;
use rankscope_tests::process::{self, Ended, Process};
use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, results, turn};

const LIMIT: Duration = Duration::from_secs(120);
/// Largest difference between a figure of the table and the same figure of the recording.
const TOLERANCE: f64 = 0.02;

/// A command line of `rankscope bench`, with the environment of `python`.
fn bench(python: Option<&Python>, arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command.arg("bench").args(arguments).arg("-o").arg(directory);
    if let Some(folder) = python.and_then(|python| python.path.parent()) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.display()));
    }
    command
}

fn succeed(ended: Ended) -> Ended {
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    ended
}

/// Returns the recorded operations of a rank by operation and own bytes, in order.
fn recorded(directory: &Path, rank: usize) -> BTreeMap<(Operation, u64), Vec<OperationRow>> {
    let mut found: BTreeMap<_, Vec<OperationRow>> = BTreeMap::new();
    for row in results::operations(directory, rank) {
        let bytes = row.bytes.unwrap_or(0);
        found.entry((row.operation, bytes)).or_default().push(row);
    }
    for rows in found.values_mut() {
        rows.sort_by_key(|row| row.enter_ns);
    }
    found
}

/// Asserts that the recording has exactly the operations of the rows.
fn expect_every_operation(results: &BenchResults, directory: &Path, element_bytes: u64) {
    for rank in 0..results.ranks as usize {
        let mut recorded: BTreeMap<_, usize> = recorded(directory, rank)
            .into_iter()
            .map(|(key, rows)| (key, rows.len()))
            .collect();
        for row in &results.rows {
            let bytes = row.elements * element_bytes;
            let operations: &[Operation] = match row.operation.as_str() {
                "send-receive" => &[Operation::Send, Operation::Receive],
                name => &[*Operation::ALL
                    .iter()
                    .find(|one| one.name() == name)
                    .expect("known")],
            };
            for &operation in operations {
                let left = recorded.entry((operation, bytes)).or_default();
                assert!(
                    *left >= row.calls as usize,
                    "rank {rank} {operation:?} of {bytes}: {left} for {}",
                    row.calls as usize
                );
                *left -= row.calls as usize;
            }
        }
        recorded.retain(|(operation, _), count| {
            *count > 0 && !matches!(operation, Operation::Connect | Operation::Disconnect)
        });
        assert!(recorded.is_empty(), "rank {rank} also has {recorded:?}");
    }
}

/// Asserts that the time of a block is the time from the first to the last of its recorded operations, averaged over the
/// ranks. `row` must be the only one with its operation and size.
fn expect_recorded_times(results: &BenchResults, row: &BenchRow, operation: Operation, directory: &Path) {
    let bytes = row.elements * 4;
    let of_ranks: Vec<_> = (0..results.ranks as usize)
        .map(|rank| {
            recorded(directory, rank)
                .remove(&(operation, bytes))
                .expect("recorded")
        })
        .collect();
    for (block, printed_ns) in row.blocks_ns.iter().enumerate() {
        // The last block ends with the last operation.
        let in_block = (results.settings.settling_iterations + row.iterations) as usize;
        let last = row.calls as usize - (row.blocks_ns.len() - 1 - block) * in_block - 1;
        let first = last + 1 - row.iterations as usize;
        let elapsed = |rows: &Vec<OperationRow>| {
            let leave = rows[last].leave_ns.expect("complete");
            (leave - rows[first].enter_ns) as f64 / f64::from(row.iterations)
        };
        let recorded_ns = of_ranks.iter().map(elapsed).sum::<f64>() / of_ranks.len() as f64;
        let difference = (printed_ns / recorded_ns - 1.0).abs();
        assert!(
            difference < TOLERANCE,
            "block {block}: {printed_ns} ns printed, {recorded_ns} ns recorded"
        );
    }
}

#[test]
fn gloo_is_measured_in_pytorch_and_as_a_library_of_the_system() {
    let turn = turn::take();
    for python in Python::all() {
        let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
        let directory = folder.path().join("bench");
        let all = "all-reduce,all-gather,all-to-all,broadcast,reduce,gather,scatter,send-receive";
        let arguments = [
            "--backend",
            "gloo",
            "--ranks",
            "3",
            "--max",
            "64K",
            "--factor",
            "32",
            "--blocks",
            "3",
            "--iterations",
            "5",
            "--operations",
            all,
            "--pairs",
        ];
        let ended = succeed(process::run(bench(Some(&python), &arguments, &directory), LIMIT));
        let found = BenchResults::read(&directory).expect("results");
        assert!(found.is_complete && found.ranks == 3, "{found:?}");
        assert_eq!(found.library.name, "gloo");
        let wrong: Vec<_> = found
            .rows
            .iter()
            .filter(|row| row.wrong_elements != Some(0))
            .collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", python.name);
        // Eight operations at three sizes, and four of them also in place.
        assert_eq!(found.rows.len(), (8 + 4) * 3, "{}", ended.text());
        assert_eq!(found.pairs.len(), 6);
        assert!(
            found
                .pairs
                .iter()
                .all(|pair| pair.latency_ns > 0.0 && pair.bytes_per_s > 1e6)
        );
        let pair_bytes = [8, 8 << 20];
        let measured = BenchResults {
            pairs: Vec::new(),
            ..found.clone()
        };
        // Messages between pairs are recorded, too. They are the only ones of their sizes except 8 bytes.
        let sent: usize = (0..3)
            .map(|rank| {
                let of_rank = recorded(&directory, rank);
                of_rank.get(&(Operation::Send, pair_bytes[1])).map_or(0, Vec::len)
            })
            .sum();
        assert_eq!(sent, 6 * 22, "20 messages and 2 before them in each direction");
        let without_pairs = tempfile::tempdir_in(process::memory()).expect("a directory");
        let directory = without_pairs.path().join("bench");
        succeed(process::run(
            bench(Some(&python), &arguments[..arguments.len() - 1], &directory),
            LIMIT,
        ));
        let found = BenchResults::read(&directory).expect("results");
        expect_every_operation(&found, &directory, 4);
        assert_eq!(found.rows.len(), measured.rows.len());
        for file in ["bench.svg", "bench.png", "report.html", "trace.pftrace"] {
            assert!(directory.join(file).is_file(), "{file}");
        }
    }
    drop(turn);
}

#[test]
fn figures_are_those_of_the_recording_and_of_the_definition() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    let directory = folder.path().join("bench");
    let arguments = [
        "--backend",
        "gloo",
        "--ranks",
        "2",
        "--min",
        "1M",
        "--max",
        "1M",
        "--placement",
        "out-of-place",
        "--operations",
        "all-reduce,all-gather,broadcast",
    ];
    succeed(process::run(bench(Some(&python), &arguments, &directory), LIMIT));
    let found = BenchResults::read(&directory).expect("results");
    let operations = [Operation::AllReduce, Operation::AllGather, Operation::Broadcast];
    let named: Vec<&str> = found.rows.iter().map(|row| row.operation.as_str()).collect();
    assert_eq!(named, operations.map(Operation::name));
    for (row, operation) in found.rows.iter().zip(operations) {
        expect_recorded_times(&found, row, operation, &directory);
        // nccl-tests: algbw = S / t; busbw = algbw · f, with two ranks f is 1, 1/2 and 1.
        let algorithm = row.size_bytes as f64 / row.time_ns.p50 * 1e9;
        assert!((row.algorithm_bytes_per_s / algorithm - 1.0).abs() < 1e-9);
        let factor = if operation == Operation::AllGather {
            0.5
        } else {
            1.0
        };
        let bus = row.bus_bytes_per_s.expect("two ranks");
        assert!((bus / (algorithm * factor) - 1.0).abs() < 1e-9);
    }
    // The scorecard of a run takes the peak and the latency. That of the bench itself gets the full latency score.
    let scored = results::rankscope(["report", "--json", "--peaks", text(&directory), text(&directory)]);
    let scored: serde_json::Value = serde_json::from_slice(&succeed(scored).stdout).expect("JSON");
    let peak = found.peak.expect("a peak").bus_bytes_per_s;
    let bandwidth = &scored["scorecard"]["dimensions"][0];
    assert_eq!(bandwidth["name"], "bandwidth");
    let (moved, possible) = (
        bandwidth["numerator"]["value"].as_f64(),
        bandwidth["denominator"]["value"].as_f64(),
    );
    assert!(
        moved
            .zip(possible)
            .is_some_and(|(moved, possible)| moved > 0.0 && possible > 0.0),
        "{bandwidth}"
    );
    // A broadcast does not show the path: its root runs ahead.
    let of_the_path = found.rows[..2].iter().filter_map(|row| row.bus_bytes_per_s);
    assert_eq!(peak, of_the_path.fold(0.0, f64::max));
    assert!(peak > 1e6);
    drop(turn);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_slower_row_and_a_missed_expectation_fail() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    let run = |name: &str, more: &[&str]| {
        let mut arguments = vec![
            "--backend",
            "gloo",
            "--ranks",
            "2",
            "--min",
            "64K",
            "--max",
            "64K",
            "--operations",
            "all-reduce",
            "--no-record",
            "--blocks",
            "3",
        ];
        arguments.extend(more);
        process::run(bench(Some(&python), &arguments, &folder.path().join(name)), LIMIT)
    };
    succeed(run("first", &["--expect", "0.000001"]));
    let first = folder.path().join("first");
    let mut before = BenchResults::read(&first).expect("results");
    // Ten times as fast as measured: beyond any noise.
    for row in &mut before.rows {
        row.blocks_ns.iter_mut().for_each(|ns| *ns /= 10.0);
        let time = &mut row.time_ns;
        for ns in [
            &mut time.min,
            &mut time.p25,
            &mut time.p50,
            &mut time.p75,
            &mut time.max,
        ] {
            *ns /= 10.0;
        }
    }
    let faster = folder.path().join("faster");
    fs::create_dir(&faster).expect("created");
    before.write(&faster).expect("written");
    let ended = run("second", &["--against", text(&faster)]);
    assert_eq!(ended.code(), 1, "{}", ended.text());
    assert!(
        ended.text().contains("2 rows: 2 slower and 0 faster"),
        "{}",
        ended.text()
    );
    let ended = run("third", &["--expect", "all-reduce=100000"]);
    assert_eq!(ended.code(), 1, "{}", ended.text());
    assert!(
        ended.complaints().contains("expected 100000"),
        "{}",
        ended.complaints()
    );
    let ended = run("fourth", &["--against", text(&folder.path().join("nothing"))]);
    assert_eq!(ended.code(), 2);
    assert!(!folder.path().join("fourth").exists(), "nothing was measured");
    drop(turn);
}

#[test]
fn an_interrupted_bench_and_one_that_loses_a_rank_keep_their_rows() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    for kills_a_rank in [false, true] {
        let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
        let directory = folder.path().join("bench");
        let arguments = [
            "--backend",
            "gloo",
            "--ranks",
            "2",
            "--operations",
            "all-reduce,all-gather",
        ];
        let running = Process::start(bench(Some(&python), &arguments, &directory));
        let deadline = Instant::now() + LIMIT;
        while BenchResults::read(&directory).map_or(0, |results| results.rows.len()) < 3 {
            assert!(Instant::now() < deadline, "no rows");
            std::thread::sleep(Duration::from_millis(20));
        }
        if kills_a_rank {
            let ranks = ranks_of(running.id());
            assert_eq!(ranks.len(), 2);
            // SAFETY: kill accesses no memory.
            unsafe { libc::kill(ranks[1], libc::SIGKILL) };
        } else {
            running.signal_group(libc::SIGINT);
        }
        let ended = running.wait(LIMIT);
        assert_eq!(ended.code(), 2, "{}{}", ended.text(), ended.complaints());
        assert!(
            ended.complaints().contains("ended early"),
            "{}",
            ended.complaints()
        );
        let found = BenchResults::read(&directory).expect("results");
        assert!(!found.is_complete && found.rows.len() >= 3, "{found:?}");
        assert!(directory.join("session/session.json").is_file());
    }
    drop(turn);
}

/// Returns the processes of the ranks: the grandchildren of the command.
fn ranks_of(command: u32) -> Vec<i32> {
    let children = |parent: i32| -> Vec<i32> {
        let mut found: Vec<i32> = fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid: &i32| {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
                after.split_whitespace().nth(1) == Some(&parent.to_string())
            })
            .collect();
        found.sort_unstable();
        found
    };
    children(command.cast_signed())
        .into_iter()
        .flat_map(children)
        .collect()
}

#[test]
fn the_ranks_of_a_launcher_are_measured() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0")
        .and_then(|one| one.local_addr())
        .expect("a port");
    let meeting = free.to_string();
    let ranks: Vec<_> = (0..2)
        .map(|rank| {
            let arguments = [
                "--backend",
                "gloo",
                "--max",
                "64",
                "--operations",
                "all-reduce",
                "--rendezvous",
                &meeting,
            ];
            let mut command = bench(Some(&python), &arguments, folder.path());
            // As Open MPI announces them.
            command
                .env("OMPI_COMM_WORLD_RANK", rank.to_string())
                .env("OMPI_COMM_WORLD_SIZE", "2");
            Process::start(command)
        })
        .collect();
    let ended: Vec<_> = ranks.into_iter().map(|rank| succeed(rank.wait(LIMIT))).collect();
    assert!(ended[0].text().contains("all-reduce") && ended[1].text().is_empty());
    let found = BenchResults::read(folder.path()).expect("results");
    assert!(
        found.is_complete && found.ranks == 2 && found.rows.len() == 8,
        "{found:?}"
    );
    drop(turn);
}

#[test]
fn the_interface_of_gloo_is_used_or_named() {
    let turn = turn::take();
    for python in Python::all() {
        let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
        let run = |interface: &str, name: &str| {
            let arguments = [
                "--backend",
                "gloo",
                "--ranks",
                "2",
                "--max",
                "64",
                "--operations",
                "all-reduce",
            ];
            let mut command = bench(Some(&python), &arguments, &folder.path().join(name));
            command.env("GLOO_SOCKET_IFNAME", interface);
            process::run(command, LIMIT)
        };
        succeed(run("lo", "known"));
        let ended = run("nosuchinterface", "unknown");
        assert_eq!(ended.code(), 2, "{}", ended.complaints());
        let complaints = ended.complaints();
        assert!(
            complaints.contains("GLOO_SOCKET_IFNAME is nosuchinterface"),
            "{complaints}"
        );
    }
    drop(turn);
}

#[test]
fn wrong_use_is_explained() {
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    for (arguments, message) in [
        (vec!["--min", "2M", "--max", "1M"], "no size"),
        (vec!["--backend", "nccl"], "NCCL needs a GPU"),
        (vec!["--library", "/nothing/libgloo.so"], "/nothing/libgloo.so"),
        (vec!["--operations", "al-reduce"], "unknown operation"),
        (vec!["--row-limit", "0"], "above 0"),
    ] {
        let ended = process::run(bench(None, &arguments, &folder.path().join("bench")), LIMIT);
        assert_eq!(ended.code(), 2, "{arguments:?}: {}", ended.text());
        assert!(
            ended.complaints().contains(message),
            "{arguments:?}: {}",
            ended.complaints()
        );
        assert!(!folder.path().join("bench").exists(), "{arguments:?}");
    }
}

/// NCCL's host code is real. The device and CUDA are stand-ins, so that its times have no meaning here.
#[test]
fn nccl_is_measured_through_the_cuda_driver() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
        let directory = folder.path().join("bench");
        let library = nccl.directory.join("libnccl.so.2");
        let operations =
            "all-reduce,all-gather,reduce-scatter,all-to-all,broadcast,reduce,gather,scatter,send-receive";
        let arguments = [
            "--backend",
            "nccl",
            "--library",
            text(&library),
            "--ranks",
            "3",
            "--min",
            "96",
            "--max",
            "6K",
            "--factor",
            "64",
            "--blocks",
            "2",
            "--iterations",
            "2",
            "--row-limit",
            "0.01",
            "--operations",
            operations,
        ];
        let mut command = bench(None, &arguments, &directory);
        command.env("LD_LIBRARY_PATH", &nccl.directory);
        succeed(process::run(command, LIMIT));
        let found = BenchResults::read(&directory).expect("results");
        assert_eq!(found.library.version.as_deref(), Some(nccl.version.as_str()));
        assert!(
            found.rows.iter().all(|row| row.wrong_elements == Some(0)),
            "NCCL {}: {found:?}",
            nccl.version
        );
        let in_place = found
            .rows
            .iter()
            .filter(|row| row.placement == Placement::InPlace)
            .count();
        assert_eq!(
            (found.rows.len(), in_place),
            ((9 + 5) * 2, 5 * 2),
            "NCCL {}",
            nccl.version
        );
        // All-to-all, gather and scatter are groups of messages here.
        let collectives = BenchResults {
            rows: found
                .rows
                .iter()
                .filter(|row| {
                    !["all-to-all", "gather", "scatter", "send-receive"].contains(&row.operation.as_str())
                })
                .cloned()
                .collect(),
            ..found.clone()
        };
        for rank in 0..3 {
            let recorded = recorded(&directory, rank);
            for row in &collectives.rows {
                let key = |name: &str| {
                    Operation::ALL
                        .iter()
                        .copied()
                        .find(|one| one.name() == name)
                        .expect("known")
                };
                let rows: usize = collectives
                    .rows
                    .iter()
                    .filter(|other| other.operation == row.operation && other.elements == row.elements)
                    .map(|other| other.calls as usize)
                    .sum();
                let count = recorded
                    .get(&(key(&row.operation), row.elements * 4))
                    .map_or(0, Vec::len);
                assert_eq!(count, rows, "NCCL {} rank {rank} {}", nccl.version, row.operation);
            }
        }
    }
    drop(turn);
}
