//! Tests the guarantee of the hot path for every row of the tables.
//!
//! After a thread's first event a wrapper makes no allocation, takes no lock and makes no system call. A C++ exception
//! passes through every wrapper and leaves nothing behind. The real functions are doubles (`tests/doubles/rows`), so
//! this says nothing about Gloo.

use rankscope::{gloo, nccl, torch};
use rankscope_ranklog::Operation;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::record::{FLAG_DIRECT, FLAG_FAILED, NO_COMMUNICATOR, Record, RecordKind};
use rankscope_tests::artefacts::{root, target_directory};
use rankscope_tests::process::{self, Ended};
use rankscope_tests::{skip, turn};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Returns the number of calls of each row. The environment can set it for a soak test.
fn calls() -> u64 {
    std::env::var("ROWS_CALLS")
        .ok()
        .and_then(|calls| calls.parse().ok())
        .unwrap_or(1_000_000)
}

/// Returns true under an emulator of another processor. It has no filter of system calls.
fn is_emulated() -> bool {
    std::env::var_os("TEST_IS_EMULATED").is_some()
}

/// Returns the kind of each row, in the order of the symbols.
fn kinds() -> impl Iterator<Item = &'static str> {
    gloo::FUNCTION_KINDS
        .iter()
        .chain(torch::FUNCTION_KINDS)
        .chain(nccl::FUNCTION_KINDS)
        .copied()
}

fn symbols() -> impl Iterator<Item = &'static str> {
    gloo::SYMBOLS
        .iter()
        .chain(torch::SYMBOLS)
        .chain(nccl::SYMBOLS)
        .map(|symbol| symbol.to_str().expect("ASCII"))
}

/// Rows that are exempt from the guarantee, with the reason. Each is called when a communicator is created or
/// destroyed. The tables of communicators are then edited under their own lock, and creation takes milliseconds anyway.
const COLD: [(&str, &str); 12] = [
    ("7ContextC", "a context is constructed: it gets an entry"),
    (
        "7ContextD",
        "a context is destroyed: its entry goes, its end is defined",
    ),
    (
        "15connectFullMesh",
        "a context is connected: it is defined, and the first one waits for the recorder",
    ),
    (
        "11makeContext",
        "a context is made from another: it is defined likewise",
    ),
    (
        "ncclCommInit",
        "a communicator is made: it is defined, and the first one waits for the recorder",
    ),
    ("ncclCommSplit", "a communicator is made from another"),
    ("ncclCommShrink", "a communicator is made from another"),
    ("ncclCommGrow", "a communicator is made from another"),
    (
        "ncclCommDestroy",
        "a communicator ends: its entry goes, its end is defined",
    ),
    (
        "ncclCommAbort",
        "a communicator ends: its entry goes, its end is defined",
    ),
    ("ncclCommFinalize", "waits for what is under way"),
    ("ncclCommRevoke", "ends what is under way"),
];

/// Generates the double's source: every symbol of the tables as a function that passes its arguments to a registered
/// callback.
fn double() -> String {
    let mut out = String::from(
        "// Generated: a double of Gloo and PyTorch that has every function of rankscope's tables and does nothing.\n\
         #include <stddef.h>\n\
         extern \"C\" {\n\
         size_t (*rows_inside)(int row, const size_t* arguments) = nullptr;\n\
         }\n",
    );
    let (parameters, arguments): (Vec<String>, Vec<String>) =
        (0..12).map(|n| (format!("size_t a{n}"), format!("a{n}"))).unzip();
    for (row, (symbol, kind)) in symbols().zip(kinds()).enumerate() {
        let (parameters, arguments) = (parameters.join(", "), arguments.join(", "));
        // Where the address of a returned object has a register of its own, the function moves it to the front.
        let (name, visibility) = if cfg!(target_arch = "aarch64") && kind.ends_with("object") {
            let _ = writeln!(
                out,
                "asm(\".globl {symbol}\\n.type {symbol},%function\\n{symbol}:\\n\"\n    \
                 \"mov x7, x6\\nmov x6, x5\\nmov x5, x4\\nmov x4, x3\\nmov x3, x2\\nmov x2, x1\\nmov x1, x0\\n\"\n    \
                 \"mov x0, x8\\nb row_{row}\\n\");"
            );
            (format!("row_{row}"), "__attribute__((visibility(\"hidden\"))) ")
        } else {
            (symbol.to_owned(), "")
        };
        let _ = writeln!(
            out,
            "extern \"C\" size_t row_{row}({parameters}) __asm__(\"{name}\");\n\
             {visibility}size_t row_{row}({parameters}) {{\n  \
             const size_t all[12] = {{{arguments}}};\n  \
             return rows_inside ? rows_inside({row}, all) : 1;\n}}"
        );
    }
    out.push_str(
        "extern \"C\" {\nextern const char* const rows_symbols[];\nconst char* const rows_symbols[] = {\n",
    );
    for symbol in symbols() {
        let _ = writeln!(out, "    \"{symbol}\",");
    }
    out.push_str("};\nextern const bool rows_return_object[];\nconst bool rows_return_object[] = {\n");
    for kind in kinds() {
        let _ = writeln!(out, "    {},", kind.ends_with("object"));
    }
    let _ = writeln!(
        out,
        "}};\nextern const int rows_count;\nconst int rows_count = {};\n}}",
        symbols().count()
    );
    out
}

/// Compiles the driver, linked to the double, once per test run.
fn driver() -> Option<&'static Path> {
    static DRIVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            let directory = target_directory().join("test-programs/rows");
            std::fs::create_dir_all(&directory).expect("a directory for the double");
            let source = directory.join("rows.cc");
            std::fs::write(&source, double()).expect("the double's source");
            let driver = directory.join("driver");
            compile(
                Command::new("c++")
                    .args(["-O1", "-g", "-fexceptions", "-fPIC", "-shared", "-o"])
                    .arg(directory.join("librows.so"))
                    .arg(&source),
            )?;
            compile(
                Command::new("c++")
                    // Not with -O2: the compiler assumes the standard behaviour of malloc.
                    .args([
                        "-std=c++17",
                        "-O1",
                        "-g",
                        "-fno-builtin",
                        "-rdynamic",
                        "-pthread",
                        "-o",
                    ])
                    .arg(&driver)
                    .arg(root().join("tests/doubles/rows/driver.cc"))
                    .arg("-L")
                    .arg(&directory)
                    .args(["-lrows", "-Wl,-rpath,$ORIGIN", "-ldl"]),
            )?;
            Some(driver)
        })
        .as_deref()
}

fn compile(command: &mut Command) -> Option<()> {
    match command.output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            Some(())
        }
        Err(error) => {
            skip(&format!("no c++ here: {error}"));
            None
        }
    }
}

/// Runs the driver under the preload. Returns its log.
fn run(driver: &Path, arguments: &[&str]) -> (Ended, Option<RankLog>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let live = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
    let mut command = Command::new(driver);
    command.args(arguments);
    process::preload(&mut command, Some(directory.path()));
    command
        .env("RANKSCOPE_LIVE_DIR", live.path())
        .env("RANKSCOPE_EXIT_WAIT_MS", "30000");
    let ended = process::run(command, Duration::from_secs(240));
    let log = std::fs::read_dir(directory.path())
        .expect("the run directory")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "rslog"))
        .map(|path| RankLog::open(&path).expect("a rank log"));
    (ended, log)
}

/// Number of records, and of records that the log reports as lost, by kind. Counts from the hot thread's first event
/// on.
struct Kept {
    records: [u64; RecordKind::COUNT],
    lost: [u64; RecordKind::COUNT],
    named: u64,
    /// Number of enqueues on a communicator that the wrapper did not recognise.
    of_no_communicator: u64,
}

impl Kept {
    fn of(log: &RankLog) -> Self {
        let mut kept = Self {
            records: [0; RecordKind::COUNT],
            lost: [0; RecordKind::COUNT],
            named: 0,
            of_no_communicator: 0,
        };
        let mut stream = log.records();
        let mut batch = Vec::new();
        while stream.next_batch(&mut batch) {
            for held in &batch {
                // Connecting is part of the preparation.
                if held.record.operation != Operation::Connect as u8 {
                    kept.records[usize::from(held.record.kind)] += 1;
                    kept.named +=
                        u64::from(held.record.kind == RecordKind::Issue as u8 && held.record.operation != 0);
                    kept.of_no_communicator += u64::from(
                        held.record.kind == RecordKind::Enqueue as u8
                            && held.record.communicator == NO_COMMUNICATOR,
                    );
                }
            }
        }
        assert!(
            stream.problems().is_empty() && log.problems.is_empty(),
            "{:?}",
            log.problems
        );
        for loss in log.losses.iter().filter(|loss| loss.cause != LossCause::Starting) {
            kept.lost[loss.kind as usize] += loss.count;
        }
        kept
    }

    fn of_kind(&self, kind: RecordKind) -> u64 {
        self.records[kind as usize] + self.lost[kind as usize]
    }
}

#[test]
fn no_allocation_no_lock_no_system_call_after_a_threads_first_event() {
    let turn = turn::take();
    let Some(driver) = driver() else { return };
    // Check that the guards detect violations.
    let system_call = format!("caught: system call {}", libc::SYS_getpid);
    for (what, caught) in [
        ("malloc", "caught: malloc 10"),
        ("lock", "caught: pthread_mutex_lock"),
        ("call", &system_call),
    ] {
        if what == "call" && is_emulated() {
            continue;
        }
        let (ended, _) = run(driver, &["caught", what]);
        if ended.code() == 87 {
            skip(&format!("hot path: {}", ended.complaints().trim()));
            return;
        }
        assert_eq!(ended.code(), 86, "{what}: {}", ended.complaints());
        assert!(
            ended.complaints().contains(caught),
            "{what}: {}",
            ended.complaints()
        );
    }
    let calls = calls();
    let [hot, recorded, lost] = [const { AtomicU64::new(0) }; 3];
    // A row keeps one core busy.
    turn::side_by_side(symbols(), |symbol| {
        let (ended, log) = run(driver, &["hot", symbol, &calls.to_string()]);
        assert_eq!(ended.code(), 0, "{symbol}: {}", ended.complaints());
        let text = ended.text();
        let kind = text.trim();
        let is_cold = COLD.iter().any(|(part, _)| symbol.contains(part));
        assert_eq!(kind == "cold", is_cold, "{symbol} is {kind}");
        if is_cold {
            return;
        }
        hot.fetch_add(1, Ordering::Relaxed);
        let log = log.unwrap_or_else(|| panic!("{symbol}: no log"));
        assert_eq!(log.ending, Ending::Closed, "{symbol}");
        let kept = Kept::of(&log);
        // Each function was called once more before the guards were active, and there was one barrier.
        let n = calls + 1;
        let expected: &[(RecordKind, u64)] = match kind {
            "collective" => &[(RecordKind::Call, n + 1)],
            "store" | "buffer" => &[(RecordKind::Call, 1)],
            "post" => &[(RecordKind::Post, n)],
            "complete" => &[(RecordKind::Complete, n)],
            "issue" | "asked" => &[(RecordKind::Issue, n)],
            "execute" => &[(RecordKind::Execute, n), (RecordKind::Call, n + 1)],
            "blocked" => &[(RecordKind::Blocked, n)],
            "enqueue" => &[(RecordKind::Enqueue, n), (RecordKind::Call, 1)],
            "group" => &[(RecordKind::Group, n), (RecordKind::Call, 1)],
            "memory" => &[(RecordKind::Memory, n), (RecordKind::Call, 1)],
            "failure" => &[(RecordKind::Failure, 1), (RecordKind::Call, 1)],
            "mark" => &[(RecordKind::Mark, n), (RecordKind::Call, 1)],
            other => panic!("{symbol}: {other}"),
        };
        for &(kind, count) in expected {
            assert_eq!(
                kept.of_kind(kind),
                count,
                "{symbol}: {kind:?} records and losses after {n} calls"
            );
            // Calls in a tight loop are faster than the recorder thread. Both paths run: the one that records and the
            // one that counts losses.
            let records = kept.records[kind as usize];
            assert!(
                records >= count.min(10_000),
                "{symbol}: only {records} {kind:?} records"
            );
        }
        if kind == "asked" {
            assert_eq!(kept.named, kept.records[RecordKind::Issue as usize], "{symbol}");
        }
        // With wrong positions, the test would only call the short path of an unknown communicator.
        assert_eq!(
            kept.of_no_communicator, 0,
            "{symbol}: buildNccl in tests/doubles/rows/driver.cc has the communicator elsewhere than the row's Roles"
        );
        recorded.fetch_add(kept.records.iter().sum(), Ordering::Relaxed);
        lost.fetch_add(kept.lost.iter().sum(), Ordering::Relaxed);
    });
    let [hot, recorded, lost] = [hot, recorded, lost].map(AtomicU64::into_inner);
    drop(turn);
    println!(
        "{hot} rows, {calls} calls each: {recorded} records kept, {lost} counted as lost; exempt: {}",
        COLD.map(|(part, why)| format!("{part} ({why})")).join(", ")
    );
}

/// Measures every row: `cargo test -p rankscope-tests --test hot_path price -- --ignored --nocapture`. With
/// PRICE_OF=nccl it measures the rows whose symbol starts with it.
#[test]
#[ignore = "a benchmark of several minutes, which needs a machine of its own"]
fn the_price_of_every_row() {
    let turn = turn::take();
    let Some(driver) = driver() else { return };
    let mut ratios: Vec<(f64, &str)> = Vec::new();
    let prefix = std::env::var("PRICE_OF").unwrap_or_default();
    for symbol in symbols().filter(|symbol| symbol.starts_with(&prefix)) {
        let (ended, _) = run(driver, &["price", symbol]);
        assert_eq!(ended.code(), 0, "{symbol}: {}", ended.complaints());
        let text = ended.text();
        if text.is_empty() {
            continue;
        }
        let reported: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(reported["intercepted"], true, "{symbol}");
        let ratio = reported["ratio"].as_f64().expect("a ratio");
        println!("{ratio:6.2} {symbol}");
        ratios.push((ratio, symbol));
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (middle, dearest) = (ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    println!(
        "{} rows, in the middle {:.2}, the dearest {dearest:?}",
        ratios.len(),
        middle.0
    );
    assert!(middle.0 <= 2.0, "{middle:?}");
    drop(turn);
}

/// Returns the record that the failed call of a row leaves, if any.
fn failed(symbol: &str) -> Option<RecordKind> {
    let is = |part: &str| symbol.contains(part);
    if symbol.starts_with("nccl") {
        let is_silent = is("GroupStart")
            || is("AsyncError")
            || is("Mem")
            || is("egister")
            || is("Suspend")
            || is("Resume");
        return match symbol {
            _ if is_silent => None,
            _ if is("Group") => Some(RecordKind::Group),
            _ if is("ncclComm") => Some(RecordKind::Call),
            _ => Some(RecordKind::Enqueue),
        };
    }
    if is("15connectFullMesh") {
        Some(RecordKind::Call)
    } else if is("rendezvous") || is("7Context") || is("Store") {
        None
    } else if is("UnboundBuffer8wait") {
        Some(RecordKind::Complete)
    } else if is("UnboundBuffer4") {
        Some(RecordKind::Post)
    } else if symbol.starts_with("_ZN4gloo") {
        Some(RecordKind::Call)
    } else if is("7executeE") {
        Some(RecordKind::Execute)
    } else if is("4waitENSt6chrono") || is("17finalize_backwardEv") || is("16monitoredBarrierE") {
        Some(RecordKind::Blocked)
    } else if is("search_unused_parameters")
        || is("prepare_for_forward")
        || is("14writeEndOfFile")
        || is("PyTorchStreamReaderD1")
    {
        Some(RecordKind::Mark)
    } else {
        None
    }
}

#[test]
fn an_exception_goes_through_every_wrapper_and_leaves_nothing_behind() {
    let turn = turn::take();
    let Some(driver) = driver() else { return };
    let (ended, log) = run(driver, &["throw"]);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    drop(turn);
    let log = log.expect("a log");
    assert_eq!(log.ending, Ending::Closed);
    assert_eq!(log.in_flight, vec![]);
    let losses: Vec<_> = log
        .losses
        .iter()
        .filter(|loss| loss.cause != LossCause::Starting)
        .collect();
    // If each exception increased the depth, the in-flight slots would be exhausted.
    assert!(losses.is_empty(), "{losses:?}");
    let (records, _, problems) = log.all_records();
    assert!(problems.is_empty() && log.problems.is_empty());
    let mut records = records.iter().map(|held| &held.record).filter(|record| {
        // The call prepares the next row.
        let prepares = record.operation == Operation::Connect as u8 && record.flags & FLAG_FAILED == 0;
        !prepares && record.kind != RecordKind::Continuation as u8
    });
    for (number, symbol) in symbols().enumerate() {
        let mut take = |what: &str| -> Record {
            *records
                .next()
                .unwrap_or_else(|| panic!("{symbol}: no record of {what}"))
        };
        if let Some(kind) = failed(symbol) {
            let record = take("the call that threw");
            assert_eq!(record.kind, kind as u8, "{symbol}: {record:?}");
            assert_ne!(record.flags & FLAG_FAILED, 0, "{symbol}: {record:?}");
            assert!(record.leave_ticks >= record.enter_ticks, "{symbol}: {record:?}");
        }
        if symbol.contains("enqueue") {
            assert_eq!(take("the issue that threw").kind, RecordKind::Issue as u8);
        }
        if symbol.contains("Store") && !symbol.contains("15connectFullMesh") {
            // The store's exception passed through this rendezvous.
            let record = take("the rendezvous that failed");
            assert_eq!(record.operation, Operation::Connect as u8, "{symbol}: {record:?}");
            assert_ne!(record.flags & FLAG_FAILED, 0, "{symbol}: {record:?}");
        }
        let barrier = take("the barrier after it");
        assert_eq!(
            (
                barrier.kind,
                barrier.operation,
                barrier.tag,
                barrier.flags,
                barrier.aux
            ),
            (
                RecordKind::Call as u8,
                Operation::Barrier as u8,
                1000 + number as u32,
                FLAG_DIRECT,
                0
            ),
            "{symbol}: {barrier:?}"
        );
        assert_ne!(barrier.communicator, NO_COMMUNICATOR, "{symbol}");
        let wait = take("the wait after it");
        assert_eq!(
            (wait.kind, wait.flags),
            (RecordKind::Blocked as u8, 0),
            "{symbol}: {wait:?}"
        );
        let issue = take("the issue after it");
        assert_eq!(
            (issue.kind, issue.operation),
            (RecordKind::Issue as u8, 0),
            "{symbol}: {issue:?}"
        );
        let post = take("the post after it");
        assert_eq!(
            (post.kind, post.flags, post.peer, post.bytes),
            (RecordKind::Post as u8, 0, 2, 512),
            "{symbol}: {post:?}"
        );
        let execute = take("the execution after it");
        assert_eq!(
            (execute.kind, execute.flags),
            (RecordKind::Execute as u8, 0),
            "{symbol}: {execute:?}"
        );
        let enqueue = take("the NCCL call after it");
        assert_eq!(
            (
                enqueue.kind,
                enqueue.flags,
                enqueue.tag,
                enqueue.bytes,
                enqueue.aux as u32
            ),
            (RecordKind::Enqueue as u8, FLAG_DIRECT, 0, 4000, 0),
            "{symbol}: {enqueue:?}"
        );
        assert_ne!(enqueue.communicator, NO_COMMUNICATOR, "{symbol}");
    }
    assert_eq!(records.next(), None);
}
