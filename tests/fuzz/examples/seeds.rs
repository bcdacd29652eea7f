//! Rebuilds the committed seeds of the corpus after a change of the format: `cargo run --example seeds`.

use rankscope_ranklog::area::Area;
use rankscope_ranklog::clock::{Calibration, Counter};
use rankscope_ranklog::codec::{self, Group};
use rankscope_ranklog::definition::{self, IdentitySource, Payload};
use rankscope_ranklog::layout::LiveLayout;
use rankscope_ranklog::loss::{Loss, LossCause};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::writer::LogWriter;
use rankscope_ranklog::{Library, Operation};
use std::path::Path;

fn records(count: u64, start: u64) -> Vec<Record> {
    (0..count)
        .map(|n| Record {
            operation: Operation::AllReduce as u8,
            element_bytes: 4,
            communicator: 0,
            tag: n as u32,
            bytes: 1 << (n % 3),
            aux: 0x7f00_0000 + n % 4 * 64,
            object: if n % 5 == 0 { 0x7f00_0000 } else { 0 },
            enter_ticks: start + 100 * n,
            leave_ticks: start + 100 * n + 50 + n % 7,
            ..Record::new(if n % 4 == 3 {
                RecordKind::Execute
            } else {
                RecordKind::Call
            })
        })
        .collect()
}

fn group(lane: u32, count: u64) -> Group {
    Group {
        lane,
        thread_id: lane + 100,
        ordinal: 0,
        chunk: lane,
        generation: 1,
        first: 0,
        records: records(count, 1000),
    }
}

fn communicator() -> Payload {
    let (library, source) = (Library::Gloo, IdentitySource::KeyAndBlob);
    Payload::communicator(0, library, source, 1, 2, [9; 16], 5, u32::MAX, b"store/0")
}

fn write(target: &str, name: &str, chooser: u8, bytes: &[u8]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&directory).expect("the corpus");
    let whole = [&[chooser], bytes].concat();
    std::fs::write(directory.join(format!("seed-{name}")), whole).expect("a seed");
}

/// Returns instructions for `rankscope_fuzz_bodies::packed`: 3 records of one lane, one new template.
fn packed_instructions() -> Vec<u8> {
    let mut out = vec![4, 1, 0, 1, 1, 0, 3];
    let columns: [&[u8]; 6] = [
        &[254, 0, 0],
        &[12, 8, 4],
        &[10, 20, 5, 5, 0x85, 3, 4, 0],
        &[64, 64, 1, 2],
        &[0, 1, 1, 0, 4, 64, 1, 1],
        &[0x5A; 16],
    ];
    for column in columns {
        out.extend((column.len() as u16).to_le_bytes());
        out.extend(column);
    }
    out
}

/// Returns a cache of the loader with one library.
fn loader_cache() -> Vec<u8> {
    let mut out = b"glibc-ld.so.cache1.1".to_vec();
    out.extend(1_u32.to_le_bytes());
    out.resize(48, 0);
    for number in [0x0303_u32, 72, 85, 0, 0, 0] {
        out.extend(number.to_le_bytes());
    }
    out.extend(b"libnccl.so.2\0/opt/nccl/libnccl.so.2\0");
    out
}

fn main() {
    let mut log = LogWriter::new(Vec::new(), Counter::MonotonicRaw, 7, 1).expect("memory");
    let definitions = [
        (definition::KIND_PROPERTY, Payload::property("host", b"seed")),
        (definition::KIND_COMMUNICATOR, communicator()),
    ];
    log.definitions(&definitions).expect("memory");
    let calibration = Calibration {
        ticks: 5,
        ..Calibration::default()
    };
    log.calibrations(&[calibration]).expect("memory");
    log.records(&[(0, 42, &records(150, 1000))]).expect("memory");
    log.watermark(8000).expect("memory");
    let loss = Loss {
        cause: LossCause::NoChunk,
        kind: RecordKind::Call,
        count: 3,
        first_ticks: 1,
        last_ticks: 2,
    };
    log.losses(&[loss]).expect("memory");
    log.in_flight(&[(0, 42, records(1, 99)[0])]).expect("memory");
    let log = log.end().expect("memory");
    write("segments", "log", 0, &log);
    let mut frames = Vec::new();
    for kind in [1u8, 2, 3, 4, 5, 7, 6, 0] {
        let piece = match kind {
            2 => packed_instructions(),
            _ => vec![kind; 72],
        };
        frames.push(kind);
        frames.extend((piece.len() as u16).to_le_bytes());
        frames.extend(piece);
    }
    write("segments", "frames", 1, &frames);

    let mut payload = Vec::new();
    codec::encode(&[group(0, 30), group(3, 10)], 4, &mut payload);
    write("records", "two-lanes", 0, &payload);
    write("records", "columns", 1, &packed_instructions());

    let mut run = Vec::new();
    for (kind, payload) in definitions {
        run.push(kind);
        run.extend((payload.as_bytes().len() as u16).to_le_bytes());
        run.extend(payload.as_bytes());
    }
    run.extend([0, 9, 0]);
    run.extend([0; 9]);
    write("machine_files", "script", 2, b"#!/usr/bin/env -S python3 -u\n");
    write(
        "machine_files",
        "names",
        3,
        b"\0NCCL_ALGO\0TORCH_NCCL_BLOCKING_WAIT\0NCCL version 2.27.5+cuda12.6\0gloo/transport/tcp\0",
    );
    write("machine_files", "cache", 1, &loader_cache());
    // The seed `library` is a small ELF file that is made by hand. Its format is not of this project.
    write("definitions", "three", 1, &run);
    write("definitions", "zeros", 0, &[0; 32]);

    let layout = LiveLayout {
        lane_count: 1,
        chunk_count: 1,
        definitions_bytes: 4096,
    };
    let mut memory = vec![0u64; layout.total_bytes() as usize / 8];
    // SAFETY: the memory is zeroed, has that size, is aligned to 8, and is used by this thread alone.
    unsafe { Area::from_raw(memory.as_mut_ptr().cast(), layout) }.initialise(7, 1, 1, 1);
    // Only the header page: everything to which it points is outside the file.
    let page: Vec<u8> = memory[..1024]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    write("live_area", "header", 0, &page);
    let mut patches = packed_instructions();
    let length = (patches.len() as u16).to_le_bytes();
    patches.splice(0..0, length);
    patches.extend([10, 20]);
    for (word, bytes) in [
        (1024u16, [1, 0, 0, 0, 9, 0, 0, 0].as_slice()),
        (5u16, &[3, 0, 0, 0]),
    ] {
        patches.extend(word.to_le_bytes());
        patches.extend((bytes.len() as u16).to_le_bytes());
        patches.extend(bytes);
    }
    write("live_area", "patches", 1, &patches);

    for (name, runs) in [("one-run", 1), ("three-runs", 3)] {
        // These inputs have no leading byte of choice either.
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/baseline_entry");
        std::fs::create_dir_all(&directory).expect("the corpus");
        let bytes = entry(runs).to_bytes().expect("JSON");
        std::fs::write(directory.join(format!("seed-{name}")), bytes).expect("a seed");
    }

    for (name, spans) in [("few", 3), ("blocks", 200)] {
        // These inputs have no leading byte of choice: the file is the input.
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/view");
        std::fs::create_dir_all(&directory).expect("the corpus");
        std::fs::write(directory.join(format!("seed-{name}")), view(spans)).expect("a seed");
    }
}

/// Makes an index with one lane of spans of every shape, and an empty lane.
fn view(spans: i64) -> Vec<u8> {
    use rankscope_formats::index::{Footer, LaneKind, Name, Sample, Span, ViewWriter};
    let path = std::env::temp_dir().join(format!("seed-{}.view", std::process::id()));
    let mut writer = ViewWriter::create(&path).expect("a file");
    let lane = writer.lane(LaneKind::Operations { communicator: Some(1) }, 0);
    writer.lane(LaneKind::Parts { device: false }, 0);
    let text = "all-reduce".to_owned();
    let name = writer.name(Name { text, bytes: Some(1 << 20) });
    for number in 0..spans {
        let start_ns = number * 1000 + number % 7;
        let span = Span {
            start_ns,
            end_ns: start_ns + 100 * (number % 9),
            wait_ns: 10 * (number % 5),
            queued_ns: number % 3,
            class: (number % 7) as u8,
            name,
            instance: (number % 4 != 0).then_some(number as u64),
        };
        writer.push(lane, span).expect("a span");
    }
    let counter = writer.counter("loss", spans * 1000);
    for number in 0..spans {
        let value = if number % 5 == 4 { f64::NAN } else { number as f64 / 8.0 };
        let sample = Sample { at_ns: number * 1000, value };
        writer.sample(counter, sample).expect("a sample");
    }
    writer.finish(Footer::default()).expect("an index");
    let bytes = std::fs::read(&path).expect("an index");
    std::fs::remove_file(&path).expect("removed");
    bytes
}

/// Makes a baseline's entry, with one of everything in each run.
fn entry(runs: u32) -> rankscope_formats::comparison::StoredBatch {
    use rankscope_formats::comparison::*;
    use rankscope_formats::session::{Figure, Scope, Severity, Surrounding, Tool};
    let mean = |variance| Mean { mean: 1.5e6, variance, blocks: 4 };
    let measured = |metric: &str, subject: Option<&str>, value| Measured {
        metric: metric.to_owned(),
        subject: subject.map(str::to_owned),
        value,
        quantiles: subject.is_none().then_some([1.0, 2.0, 3.0, 4.5, 5.0, 6.0, 7.0]),
    };
    let run = |number: u32| RunSummary {
        tool: Tool { name: "rankscope".into(), version: "0.1.0".into() },
        run: RunName {
            id: format!("{number:016x}"),
            directory: format!("runs/run-{number}"),
            started_unix_ns: 1_795_255_201_000_000_000 + i64::from(number),
            duration_ns: 9_000_000_000,
        },
        kind: "nccl".into(),
        surroundings: vec![Surrounding { property: "processors".into(), value: "64".into(), ranks: 2 }],
        world: WorldOfRun {
            worlds: 1,
            size: 2,
            ranks_seen: 2,
            hosts: vec!["host-a".into()],
            crowded_hosts: 0,
            records: 1000,
            lost: 0,
            failed: 0,
        },
        steps: StepsUsed {
            source: "pattern".into(),
            reason: None,
            train: 20,
            partial: 0,
            evaluate: 1,
            checkpoint: 0,
            warm_up_rule: "the first two".into(),
            warm_up: 2,
            counted: 18,
            outlier_rule: "far from the median".into(),
            outliers: 1,
            sequence: Some("0123456789abcdef".into()),
        },
        parts: vec!["host".into(), "exposed-wait".into()],
        ranks: (0..2).map(|number| RankOfRun { number, host: 0, steps: 18, parts_ns: vec![7, -1] }).collect(),
        metrics: vec![
            measured(
                "step_time",
                None,
                Figure::known(Value { all: mean(Some(3.5)), without_outliers: mean(None) }),
            ),
            measured("busbw", Some("all-reduce 1-2 MiB"), Figure::unknown("no device times")),
        ],
        operations: vec![OperationOfRun {
            class: "all-reduce 1-2 MiB".into(),
            operation: "all-reduce".into(),
            role: "world".into(),
            scope: Scope::InsideHost,
            size_from_bytes: Some(1 << 20),
            instances_per_step: 3.0,
            bytes_per_step: 3e6,
        }],
        communicators: vec![CommunicatorsOfRun {
            library: "nccl".into(),
            role: "world".into(),
            scope: Scope::InsideHost,
            size: 2,
            count: 1,
        }],
        findings: vec![FindingOfRun {
            kind: "late-rank".into(),
            subject: Some("rank 1".into()),
            title: "rank 1 is late".into(),
            severity: Severity::Warning,
            cost_of_step: Some(0.25),
        }],
    };
    StoredBatch {
        version: STORED_VERSION,
        readable_from: READABLE_FROM,
        branch: "main".into(),
        machine: "a machine, 64 processors".into(),
        job: "train-2-ranks".into(),
        commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
        added_unix_ns: 1_795_255_300_000_000_000,
        runs: (0..runs).map(run).collect(),
    }
}
