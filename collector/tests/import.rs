//! Traces of torch.profiler, written here event by event so that every figure is known by hand.

use rankscope_collector::import::{self, ImportError, ImportOptions, ReadOptions};
use rankscope_collector::{MergeOptions, merge};
use rankscope_formats::session::Session;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Microseconds at which the job's first step begins.
const BEGIN: i64 = 1_000_000;
/// Steps of 1 ms.
const STEPS: i64 = 6;

fn span(category: &str, name: &str, (pid, tid): (i64, i64), ts: f64, dur: f64, args: Value) -> Value {
    json!({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})
}

/// A rank of a job of two: in each step a kernel of 100 µs, of rank 1 one of 250, and then an all-reduce of 4 MB whose
/// kernel begins when the rank is ready and ends on both ranks 500 µs into the step.
struct Rank {
    number: i64,
    events: Vec<Value>,
    correlation: i64,
}

impl Rank {
    fn new(number: i64) -> Self {
        Self {
            number,
            events: Vec::new(),
            correlation: 10,
        }
    }

    fn at(&self) -> (i64, i64) {
        (4000 + self.number, 4000 + self.number)
    }

    fn launched(&mut self, name: &str, launch: f64, stream: i64, ts: f64, dur: f64) {
        self.correlation += 1;
        let correlation = self.correlation;
        let host = json!({"cbid": 211, "correlation": correlation});
        self.events.push(span(
            "cuda_runtime",
            "cudaLaunchKernel",
            self.at(),
            launch,
            2.0,
            host,
        ));
        let device = json!({"device": self.number, "context": 1, "stream": stream, "correlation": correlation,
            "grid": [8, 1, 1], "block": [512, 1, 1]});
        self.events
            .push(span("kernel", name, (self.number, stream), ts, dur, device));
    }

    fn all_reduce(&mut self, begin: f64, ts: f64, end: f64) {
        let metadata = json!({"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1_000_000,
            "Out msg nelems": 1_000_000, "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"});
        self.events.push(span(
            "cpu_op",
            "record_param_comms",
            self.at(),
            begin,
            20.0,
            metadata,
        ));
        self.events.push(span(
            "user_annotation",
            "nccl:all_reduce",
            self.at(),
            begin + 2.0,
            16.0,
            json!({}),
        ));
        self.launched(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
            begin + 5.0,
            20,
            ts,
            end - ts,
        );
    }

    fn step(&mut self, number: i64) {
        let begin = (BEGIN + 1000 * (number - 1)) as f64;
        let name = format!("ProfilerStep#{number}");
        self.events.push(span(
            "user_annotation",
            &name,
            self.at(),
            begin,
            1000.0,
            json!({}),
        ));
        let compute = if self.number == 1 { 250.0 } else { 100.0 };
        self.launched("gemm", begin + 10.0, 7, begin + 100.0, compute);
        self.all_reduce(begin + 50.0, begin + 100.0 + compute, begin + 500.0);
    }

    fn trace(&self, host: Option<&str>) -> Value {
        let window = span(
            "Trace",
            "PyTorch Profiler (0)",
            (0, 0),
            (BEGIN - 500) as f64,
            (1000 * STEPS + 1000) as f64,
            json!({}),
        );
        let mut events = vec![window];
        events.extend(self.events.iter().cloned());
        let mut trace = json!({
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": self.number, "world_size": 2, "nccl_version": "2.21.5",
                "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]},
            "traceEvents": events,
            "baseTimeNanoseconds": 1_700_000_000_000_000_000i64,
        });
        if let Some(host) = host {
            trace["host_name"] = host.into();
        }
        trace
    }
}

/// Both ranks' traces; `extra` operations happen on rank 0 before the first step, outside of what rank 1 recorded.
fn write(directory: &Path, host: Option<&str>, extra: i64) -> Vec<PathBuf> {
    (0..2)
        .map(|number| {
            let mut rank = Rank::new(number);
            if number == 0 {
                for at in 0..extra {
                    let begin = (BEGIN - 400 + 100 * at) as f64;
                    rank.all_reduce(begin, begin + 30.0, begin + 60.0);
                }
            }
            for step in 1..=STEPS {
                rank.step(step);
            }
            let path = directory.join(format!("rank{number}.json"));
            fs::write(&path, rank.trace(host).to_string()).expect("written");
            path
        })
        .collect()
}

fn options(files: Vec<PathBuf>, output: &Path) -> ImportOptions {
    ImportOptions {
        files,
        output: output.to_path_buf(),
        read: ReadOptions {
            operators: false,
            hta: true,
        },
        ..ImportOptions::default()
    }
}

fn session(options: &ImportOptions) -> Session {
    import::kineto(options, &|_| {}).expect("imported");
    merge(&MergeOptions::of_run(&options.output), &mut |_| {}).expect("merged")
}

#[test]
fn an_imported_job_has_the_figures_of_its_construction() {
    let work = tempfile::tempdir().expect("a folder");
    let run = work.path().join("run");
    let session = session(&options(write(work.path(), Some("node"), 0), &run));
    assert_eq!(
        session.imported.as_ref().map(|imported| imported.source.as_str()),
        Some("kineto")
    );
    assert!(
        session.problems.listed.is_empty(),
        "{:?}",
        session.problems.listed
    );
    assert_eq!(
        (session.coverage.ranks_seen, session.coverage.ranks_expected.value),
        (2, Some(2))
    );
    assert_eq!(session.hosts.len(), 1);
    assert_eq!(session.ranks[1].name, "rank 1");
    let class = &session.operations[0];
    assert_eq!(
        (class.operation.as_str(), class.operations, class.members),
        ("all-reduce", 12, 2)
    );
    // Rank 0 is there 200 µs into the step, rank 1 at 350, both leave at 500.
    assert_eq!(
        class.transfer_ns.value.as_ref().map(|times| times.p50),
        Some(150_000.0)
    );
    assert_eq!(class.exposed_wait_rank_ns, 6 * 150_000);
    // 4 MB in 150 µs is 26.7 GB/s; for two members the factor is 1.
    assert!(
        class.bus_bytes_per_s.value.is_none(),
        "a wait share of 33 % gives no bandwidth (METRICS.md, section 2)"
    );
    let rank_0 = &session.activity[0];
    assert!(rank_0.adds_up);
    let per_step = |ns: i64| ns * 1_000_000 / rank_0.window_ns;
    assert_eq!(per_step(rank_0.compute_only_ns), 100_000);
    assert_eq!(per_step(rank_0.exposed_communication_ns), 300_000);
    assert_eq!(per_step(rank_0.exposed_wait_ns), 150_000);
    assert_eq!(per_step(rank_0.idle_ns), 600_000);
    assert_eq!(session.activity[1].exposed_wait_ns, 0);
    assert_eq!(session.steps.source, "marks");
    let activity = &session.activity[0];
    assert_eq!((activity.kernels, activity.communication_kernels), (6, 6));
}

#[test]
fn a_trace_that_begins_earlier_is_matched_by_its_steps() {
    let work = tempfile::tempdir().expect("a folder");
    let run = work.path().join("run");
    let session = session(&options(write(work.path(), Some("node"), 3), &run));
    let class = &session.operations[0];
    assert_eq!(class.operations, 15);
    assert_eq!(
        class.exposed_wait_rank_ns,
        6 * 150_000,
        "the three before belong to nobody else"
    );
    assert_eq!(session.matching.incomplete, 3);
}

#[test]
fn without_a_host_there_is_no_common_clock_unless_it_is_stated() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), None, 0);
    let unknown = session(&options(files.clone(), &work.path().join("unknown")));
    assert_eq!(unknown.hosts.len(), 2);
    assert!(
        unknown
            .problems
            .listed
            .iter()
            .any(|problem| problem.what.contains("--one-host"))
    );
    let stated = ImportOptions {
        one_host: true,
        ..options(files, &work.path().join("stated"))
    };
    let stated = session(&stated);
    assert_eq!(stated.hosts.len(), 1);
    assert_eq!(stated.operations[0].exposed_wait_rank_ns, 6 * 150_000);
}

#[test]
fn hta_figures_are_computed_by_its_rules() {
    let work = tempfile::tempdir().expect("a folder");
    let session = session(&options(
        write(work.path(), Some("node"), 0),
        &work.path().join("run"),
    ));
    let figures = session
        .imported
        .and_then(|imported| imported.hta)
        .expect("asked for");
    // The last step is left out: five steps, from the first kernel at 100 to the last one's end at 4500.
    let row = &figures.temporal[0];
    assert_eq!(
        (row.kernel_us, row.compute_us, row.non_compute_us),
        (4400, 500, 1500)
    );
    assert_eq!(row.idle_us, 2400);
    assert_eq!(row.idle_pctg, Some(54.55));
    assert_eq!(figures.overlap[0].comp_comm_overlap_pctg, Some(0.0));
    let rows: Vec<(i64, &str, i64)> = figures
        .idle
        .iter()
        .filter(|row| row.rank == 0)
        .map(|row| (row.stream, row.idle_category.as_str(), row.idle_time_us))
        .collect();
    // Between kernels of one stream 900 and 700 µs, each launched after the one before had ended.
    assert_eq!(
        rows,
        [
            (7, "host_wait", 3600),
            (7, "other", 0),
            (20, "host_wait", 2800),
            (20, "other", 0)
        ]
    );
}

#[test]
fn operators_are_kept_where_they_are_asked_for() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), Some("node"), 0);
    let spans = |operators: bool, name: &str| {
        let run = work.path().join(name);
        let options = ImportOptions {
            read: ReadOptions {
                operators,
                hta: false,
            },
            ..options(files.clone(), &run)
        };
        let session = session(&options);
        assert!(session.imported.is_some_and(|imported| imported.hta.is_none()));
        session
            .tables
            .iter()
            .find(|table| table.name == "spans")
            .map_or(0, |table| table.rows)
    };
    assert_eq!(
        spans(true, "with") - spans(false, "without"),
        12,
        "record_param_comms of six steps and two ranks"
    );
}

#[test]
fn what_a_torn_trace_still_says_is_kept_and_the_rest_is_named() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), Some("node"), 0);
    let whole = fs::read(&files[1]).expect("a trace");
    // serde_json writes members in the order of their names: what says whose it is stands before the events.
    let cut = whole.len() * 2 / 3;
    let torn = work.path().join("torn.json.gz");
    let mut gzip = flate2::write::GzEncoder::new(
        fs::File::create(&torn).expect("a file"),
        flate2::Compression::fast(),
    );
    gzip.write_all(&whole[..cut]).expect("written");
    gzip.finish().expect("written");
    let run = work.path().join("run");
    let imported =
        import::kineto(&options(vec![files[0].clone(), torn.clone()], &run), &|_| {}).expect("imported");
    assert_eq!(imported.problems.len(), 1);
    let problem = &imported.problems[0];
    assert!(
        problem
            .file
            .as_deref()
            .is_some_and(|file| file.ends_with("torn.json.gz"))
    );
    let offset = problem.offset_bytes.expect("an offset") as usize;
    assert!(
        offset <= cut && whole[offset] == b'{',
        "where the event begins that is cut: {offset}"
    );
    let session = merge(&MergeOptions::of_run(&run), &mut |_| {}).expect("merged");
    assert!(
        session
            .problems
            .listed
            .iter()
            .any(|problem| problem.what.contains("events before it were kept"))
    );
    assert!(session.activity[1].kernels > 0 && session.activity[1].kernels < 6);
    // A gzip stream that ends early is told too.
    let bytes = fs::read(&torn).expect("a file");
    fs::write(&torn, &bytes[..bytes.len() / 2]).expect("written");
    let imported =
        import::kineto(&options(vec![torn], &work.path().join("half")), &|_| {}).expect("imported");
    assert!(!imported.problems.is_empty());
}

#[test]
fn what_cannot_be_imported_says_why() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), Some("node"), 0);
    let run = work.path().join("run");
    let twice = work.path().join("again.json");
    fs::copy(&files[0], &twice).expect("copied");
    let error =
        import::kineto(&options(vec![files[0].clone(), twice], &run), &|_| {}).expect_err("two of a rank");
    assert!(
        matches!(error, ImportError::TwoOfARank { rank: 0, .. }),
        "{error}"
    );
    let other = work.path().join("other.json");
    fs::write(&other, r#"{"a": [1, 2]}"#).expect("written");
    let error = import::kineto(&options(vec![other], &run), &|_| {}).expect_err("no trace");
    assert!(
        matches!(error, ImportError::NoTrace(_)) && error.to_string().contains("other.json"),
        "{error}"
    );
    let error = import::kineto(&options(vec![work.path().join("none")], &run), &|_| {}).expect_err("no file");
    assert!(matches!(error, ImportError::Io { .. }), "{error}");
}

/// A report of two processes of one host, in the schema that Nsight Systems 2024.5 writes: each asks for an all-reduce in a group,
/// whose end launches it; the kernel of process 500 waits 200 µs for the other's.
fn report(path: &Path) {
    let database = rusqlite::Connection::open(path).expect("a database");
    database
        .execute_batch(
            "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT NOT NULL, value TEXT NOT NULL);
             CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
             CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
                demangledName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
             CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER);
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
             CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
                globalTid INTEGER, textId INTEGER, domainId INTEGER);
             INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'),
                (3, 'cudaLaunchKernel_v7000'), (4, 'cudaLaunchKernelExC_v11060'), (5, 'ncclAllReduce');
             INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node7');
             INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);",
        )
        .expect("tables");
    let kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, 8, 1, 1)";
    let call = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, ?3, ?4, ?5, 0)";
    let range = "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    for (device, pid, late) in [(0i64, 500i64, 0i64), (1, 501, 200_000)] {
        let process = pid << 24;
        let thread = process | pid;
        let put = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            database.execute(sql, values).expect("a row");
        };
        put(
            "INSERT INTO PROCESSES VALUES (?1, ?2, 'python train.py')",
            &[&process, &pid],
        );
        put(
            range,
            &[&0, &None::<i64>, &75, &"NCCL", &thread, &None::<i64>, &3],
        );
        for step in 0..8i64 {
            let begin = 1_000_000 * (step + 1);
            let correlation = 10 * step + 1;
            put(
                range,
                &[
                    &begin,
                    &(begin + 900_000),
                    &59,
                    &format!("step #{step}"),
                    &thread,
                    &None::<i64>,
                    &0,
                ],
            );
            put(
                call,
                &[&(begin + 1000), &(begin + 3000), &thread, &correlation, &3],
            );
            put(
                kernel,
                &[
                    &(begin + 10_000),
                    &(begin + 60_000 + late),
                    &device,
                    &7,
                    &correlation,
                    &process,
                    &1,
                ],
            );
            for (from, to, name, id) in [
                (70_000, 71_000, Some("ncclGroupStart"), None),
                (72_000, 73_000, None, Some(5i64)),
                (74_000, 90_000, Some("ncclGroupEnd"), None),
            ] {
                put(
                    range,
                    &[&(begin + from), &(begin + to), &59, &name, &thread, &id, &3],
                );
            }
            let correlation = correlation + 1;
            put(
                call,
                &[&(begin + 80_000), &(begin + 85_000), &thread, &correlation, &4],
            );
            put(
                kernel,
                &[
                    &(begin + 100_000 + late),
                    &(begin + 400_000),
                    &device,
                    &20,
                    &correlation,
                    &process,
                    &2,
                ],
            );
        }
    }
}

#[test]
fn a_report_of_nsight_systems_is_a_run_of_all_its_processes() {
    let work = tempfile::tempdir().expect("a folder");
    let path = work.path().join("node7.sqlite");
    report(&path);
    let run = work.path().join("run");
    let imported = import::nsys(&options(vec![path], &run), &|_| {}).expect("imported");
    assert_eq!(imported.logs.len(), 2);
    let session = merge(&MergeOptions::of_run(&run), &mut |_| {}).expect("merged");
    assert_eq!(
        (session.coverage.ranks_seen, session.coverage.ranks_expected.value),
        (2, Some(2))
    );
    assert_eq!(session.hosts[0].name, "node7");
    assert_eq!(
        session.imported.as_ref().map(|imported| imported.source.as_str()),
        Some("nsys")
    );
    let class = &session.operations[0];
    assert_eq!((class.operation.as_str(), class.operations), ("all-reduce", 16));
    // Rank 0's kernel begins 100 µs into the step, rank 1's at 300, both end at 400.
    assert_eq!(class.exposed_wait_rank_ns, 8 * 200_000);
    assert_eq!(
        class.transfer_ns.value.as_ref().map(|times| times.p50),
        Some(100_000.0)
    );
    assert!(class.bytes.value.is_none(), "ranges tell no sizes");
    let rank_1 = &session.activity[1];
    assert_eq!((rank_1.kernels, rank_1.communication_kernels), (8, 8));
    assert!(rank_1.adds_up);
}

#[test]
fn a_damaged_report_says_what_was_kept() {
    let work = tempfile::tempdir().expect("a folder");
    let path = work.path().join("report.sqlite");
    report(&path);
    let database = rusqlite::Connection::open(&path).expect("a database");
    // A row of another type, as damage leaves it, in the middle of a table.
    database
        .execute(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'x' WHERE rowid = 20",
            [],
        )
        .expect("damaged");
    drop(database);
    let imported =
        import::nsys(&options(vec![path.clone()], &work.path().join("run")), &|_| {}).expect("imported");
    assert_eq!(imported.problems.len(), 1);
    assert!(
        imported.problems[0].what.contains("CUPTI_ACTIVITY_KIND_KERNEL"),
        "{:?}",
        imported.problems
    );
    assert!(
        imported.problems[0].what.contains("19 rows"),
        "{:?}",
        imported.problems
    );
    for (content, word) in [
        (
            &b"no database at all, but long enough to be looked at"[..],
            "nsys export",
        ),
        (b"", "StringIds"),
    ] {
        fs::write(&path, content).expect("written");
        let error = import::nsys(&options(vec![path.clone()], &work.path().join("other")), &|_| {})
            .expect_err("no report");
        assert!(error.to_string().contains(word), "{error}");
    }
}
