//! Tests that formats/ranklog/RANKLOG.md suffices to read a rank log.
//!
//! `ranklog_reader.py` was written from that document alone. For real and synthetic logs its output equals that of the
//! Rust reader, record by record.

use rankscope_ranklog::Library;
use rankscope_ranklog::area::Area;
use rankscope_ranklog::clock::{Calibration, Counter};
use rankscope_ranklog::codec::{self, Group};
use rankscope_ranklog::definition::{self, IdentitySource, Payload};
use rankscope_ranklog::free_ring::FreeRing;
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::layout::{self, LiveLayout};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::segment::{self, FileHeader, FrameKind};
use rankscope_tests::artefacts::root;
use rankscope_tests::job::Job;
use rankscope_tests::{compile, turn};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Converts the Rust reader's result to the Python reader's form.
fn read_by_rust(log: &RankLog) -> Vec<Value> {
    let ending = match log.ending {
        Ending::Closed => "closed",
        Ending::LiveArea => "live area",
        Ending::Torn => "torn",
        Ending::Running => "running",
    };
    let mut out = vec![
        json!({"what": "log", "counter": log.counter as u32, "nonce": log.nonce, "pid": log.pid,
        "ending": ending}),
    ];
    for (key, value) in &log.properties {
        out.push(json!({"what": "property", "key": key, "value": value}));
    }
    for (index, it) in &log.communicators {
        let identity: String = it.identity.iter().map(|byte| format!("{byte:02x}")).collect();
        out.push(json!({"what": "communicator", "index": index, "library": it.library as u8,
            "identity_source": it.identity_source as u8, "rank": it.rank, "size": it.size, "identity": identity,
            "created_ticks": it.created_ticks, "parent": it.parent, "name": it.name,
            "ended_ticks": log.communicator_ends.get(index)}));
    }
    for (alias, index) in &log.communicator_aliases {
        let alias: String = alias.iter().map(|byte| format!("{byte:02x}")).collect();
        out.push(json!({"what": "alias", "identity": alias, "index": index}));
    }
    for (index, value) in &log.texts {
        out.push(json!({"what": "text", "index": index, "value": value}));
    }
    for (index, it) in &log.streams {
        out.push(
            json!({"what": "stream", "index": index, "device": it.device, "context": it.context,
            "number": it.number}),
        );
    }
    for it in &log.calibrations {
        out.push(
            json!({"what": "calibration", "ticks": it.ticks, "monotonic_raw_ns": it.monotonic_raw_ns,
            "realtime_ns": it.realtime_ns, "half_width_ticks": it.half_width_ticks,
            "realtime_half_width_ticks": it.realtime_half_width_ticks,
            "realtime_maxerror_us": it.realtime_maxerror_us, "adjtimex_status": it.adjtimex_status,
            "counter_trusted": it.counter_trusted, "boottime_ns": it.boottime_ns}),
        );
    }
    for it in &log.losses {
        out.push(
            json!({"what": "loss", "cause": it.cause as u8, "kind": it.kind as u8, "count": it.count,
            "first_ticks": it.first_ticks, "last_ticks": it.last_ticks}),
        );
    }
    for it in &log.in_flight {
        out.push(
            json!({"what": "in flight", "lane": it.lane, "thread_id": it.thread_id,
            "record": fields(&it.record)}),
        );
    }
    let (records, threads, problems) = log.all_records();
    for it in &records {
        let thread = &threads[it.thread as usize];
        let mut line = fields(&it.record);
        line["what"] = json!("record");
        line["lane"] = json!(it.lane);
        line["thread_id"] = json!(thread.id);
        line["thread"] = json!(thread.name);
        out.push(line);
    }
    out.push(json!({"what": "problems", "count": log.problems.len() + problems.len()}));
    out
}

fn fields(record: &Record) -> Value {
    json!({"kind": record.kind, "operation": record.operation, "flags": record.flags,
        "element_bytes": record.element_bytes, "enter_ticks": record.enter_ticks, "leave_ticks": record.leave_ticks,
        "bytes": record.bytes, "object": record.object, "communicator": record.communicator, "tag": record.tag,
        "sequence": record.sequence, "peer": record.peer, "aux": record.aux})
}

fn read_by_python(log: &Path, live: Option<&Path>) -> Vec<Value> {
    let output = Command::new("python3")
        .arg("-B")
        .arg(root().join("tests/ranklog_reader.py"))
        .arg(log)
        .args(live)
        .output()
        .expect("python3");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// Reads a log with both readers. Returns the number of records that both found.
fn agree(path: &Path, live: Option<&Path>) -> usize {
    let log = RankLog::open_with_live(path, live).expect("a rank log");
    agree_on(&log)
}

fn agree_on(log: &RankLog) -> usize {
    let rust = read_by_rust(log);
    let python = read_by_python(&log.path, log.live_path.as_deref());
    for (number, (rust, python)) in rust.iter().zip(&python).enumerate() {
        assert_eq!(
            rust,
            python,
            "line {number} of {}: Rust left, Python right; Rust's problems: {:?}",
            log.path.display(),
            log.problems
        );
    }
    assert_eq!(rust.len(), python.len(), "lines about {}", log.path.display());
    rust.iter().filter(|line| line["what"] == "record").count()
}

fn logs(directory: &Path) -> Vec<PathBuf> {
    let mut logs: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the run directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rslog"))
        .collect();
    logs.sort();
    logs
}

#[test]
fn a_closed_log_of_a_real_program() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_all.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::program(&program, 2)
        .record_into(directory.path())
        .env("RANKSCOPE_EXIT_WAIT_MS", "10000")
        .run(&turn);
    finished.expect_status(0);
    let logs = logs(directory.path());
    assert_eq!(logs.len(), 2);
    for path in logs {
        let log = RankLog::open(&path).expect("a rank log");
        assert_eq!(log.ending, Ending::Closed);
        // On a busy machine the recorder may start late. Earlier records are counted as lost.
        let early: u64 = log
            .losses
            .iter()
            .filter(|loss| loss.cause == LossCause::Starting)
            .map(|loss| loss.count)
            .sum();
        let records = agree_on(&log);
        assert!(
            records as u64 + early > 10,
            "{records} records, {early} came too early"
        );
    }
}

#[test]
fn a_killed_program_leaves_segments_and_a_live_area() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let running = Job::program(&program, 2)
        .record_into(directory.path())
        .env("RANKSCOPE_PARTIAL_MS", "50")
        .counted()
        .start(&turn);
    // By then, some records are in segments, in whole and half chunks, and some only in the live area.
    let deadline = Instant::now() + Duration::from_secs(60);
    while running.counter(0).so_far() < 5000 || logs(directory.path()).iter().any(|path| bytes(path) < 20_000)
    {
        assert!(
            Instant::now() < deadline,
            "only {} operations",
            running.counter(0).so_far()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    for rank in 0..2 {
        running.rank(rank).signal(libc::SIGKILL);
    }
    let finished = running.wait();
    for path in logs(directory.path()) {
        let log = RankLog::open(&path).expect("a rank log");
        assert_eq!(log.ending, Ending::LiveArea, "{:?}", log.problems);
        let records = agree_on(&log);
        let least = finished.counts.iter().min().copied().unwrap_or(0) as usize;
        assert!(records >= least, "{records} records of {least} operations");
        // Without their live area, the same segments are incomplete, and the reader reports that.
        let torn = agree(&path, None);
        assert!(torn > 0 && torn <= records, "{torn} of {records} in segments");
    }
}

fn bytes(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Marsaglia's xorshift: the same numbers on every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns a small number in most cases, and sometimes any number.
    fn any(&mut self) -> u64 {
        let bits = self.below(65) as u32;
        self.next().checked_shr(64 - bits).unwrap_or(0)
    }

    fn record(&mut self, leave: u64) -> Record {
        let kinds = [1, 1, 1, 2, 3, 4, 5, 6, 7, 9, 10, 14, 15, 16, 16, 200];
        let choose = |numbers: &mut Self, common: u64| {
            if numbers.below(8) == 0 {
                numbers.any()
            } else {
                numbers.below(common)
            }
        };
        Record {
            generation: 0,
            kind: kinds[self.below(kinds.len() as u64) as usize],
            operation: choose(self, 3) as u8,
            flags: choose(self, 2) as u8,
            element_bytes: choose(self, 2) as u8,
            enter_ticks: leave.wrapping_sub(self.any() >> self.below(30)),
            leave_ticks: leave,
            bytes: choose(self, 4),
            object: choose(self, 90),
            communicator: choose(self, 3).wrapping_sub(1) as u32,
            tag: choose(self, 5) as u32,
            sequence: choose(self, 100) as u32,
            peer: choose(self, 4) as i32 - 1,
            aux: choose(self, 5),
        }
    }

    /// Makes chunks of two lanes, one after another, as a recorder packs them.
    fn groups(&mut self, time: &mut u64, generation: u32) -> Vec<Group> {
        (0..self.below(12) as u32 + 1)
            .map(|number| Group {
                lane: number % 3 * 7,
                thread_id: 100 + number % 3 + self.below(2) as u32,
                ordinal: u64::from(number),
                chunk: number,
                generation,
                first: 0,
                records: (0..self.below(127) + 1)
                    .map(|_| {
                        *time += self.below(1000);
                        self.record(*time)
                    })
                    .collect(),
            })
            .collect()
    }
}

struct Segments(Vec<u8>);

impl Segments {
    fn new(nonce: u64) -> Self {
        let header = FileHeader {
            version: layout::FORMAT_VERSION,
            counter: 2,
            nonce,
            pid: 77,
        };
        Self(header.to_bytes().to_vec())
    }

    fn frame(&mut self, kind: FrameKind, payload: &[u8]) {
        segment::put_frame(kind, 0, payload, &mut self.0);
    }

    fn groups(&mut self, groups: &[Group], quantum_bits: u32) {
        let mut payload = Vec::new();
        codec::encode(groups, quantum_bits, &mut payload);
        self.frame(FrameKind::Records, &payload);
    }

    fn write(&self, directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, &self.0).expect("a log written");
        path
    }
}

fn defined(definitions: &[(u8, Payload)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in definitions {
        let (start, payload) = (out.len(), payload.as_bytes());
        out.extend_from_slice(&definition::commit_word(*kind, payload).to_le_bytes());
        out.extend_from_slice(payload);
        out.resize(start + definition::framed_bytes(payload.len()), 0);
    }
    out
}

fn some_definitions() -> Vec<(u8, Payload)> {
    let communicator = Payload::communicator(
        3,
        Library::Gloo,
        IdentitySource::Partial,
        1,
        4,
        [0xA5; 16],
        u64::MAX,
        u32::MAX,
        "größe/0".as_bytes(),
    );
    let mut short = Payload::new();
    short.push(&[9, b'x']);
    vec![
        (definition::KIND_PROPERTY, Payload::property("host", b"first")),
        (
            definition::KIND_PROPERTY,
            Payload::property("host", "zwölf \u{fffd}".as_bytes()),
        ),
        (
            definition::KIND_PROPERTY,
            Payload::property("broken", b"a\xff\xc3b"),
        ),
        (
            definition::KIND_PROPERTY,
            Payload::property("env.LONG", "ä".repeat(5000).as_bytes()),
        ),
        (definition::KIND_PROPERTY, short),
        (definition::KIND_COMMUNICATOR, communicator),
        (definition::KIND_TEXT, Payload::text(7, b"")),
        (
            definition::KIND_COMMUNICATOR_END,
            Payload::communicator_end(3, 12),
        ),
        (
            definition::KIND_COMMUNICATOR_ALIAS,
            Payload::communicator_alias(3, [0x5A; 16]),
        ),
        (
            definition::KIND_COMMUNICATOR_ALIAS,
            Payload::text(3, b"too short"),
        ),
        (
            definition::KIND_STREAM,
            Payload::stream(definition::Stream {
                index: 4,
                device: 1,
                context: 2,
                number: 13,
            }),
        ),
        (definition::KIND_STREAM, Payload::text(3, b"short")),
        (99, Payload::text(1, b"of the future")),
    ]
}

fn calibration(ticks: u64) -> Calibration {
    Calibration {
        ticks,
        monotonic_raw_ns: -5,
        realtime_ns: i64::MAX,
        half_width_ticks: 3,
        realtime_half_width_ticks: u32::MAX,
        realtime_maxerror_us: 16_000_000,
        adjtimex_status: 0x41,
        counter_trusted: 1,
        reserved: 0,
        boottime_ns: i64::MIN,
    }
}

#[test]
fn segment_files_with_every_frame_and_with_damage() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for seed in 1..=6u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut out = Segments::new(seed);
        out.frame(FrameKind::Definitions, &defined(&some_definitions()));
        let mut torn = defined(&some_definitions()[..1]);
        torn.extend([0; 40]);
        torn.extend(defined(&some_definitions()[5..6]));
        torn.extend([1; 9]);
        out.frame(FrameKind::Definitions, &torn);
        let mut time = numbers.any() >> 1;
        for round in 0..4u32 {
            let groups = numbers.groups(&mut time, round + 1);
            let quantum_bits = numbers.below(7) as u32;
            out.groups(&groups, quantum_bits);
            if round == 1 {
                // A failed write is repeated, with more data.
                out.groups(&groups, quantum_bits);
            }
            out.frame(
                FrameKind::Watermark,
                &(time - numbers.below(2000).min(time)).to_le_bytes(),
            );
            let entries = [
                calibration(500 - u64::from(round)).to_bytes(),
                [0; 64],
                calibration(9).to_bytes(),
            ];
            out.frame(FrameKind::Calibrations, &entries.concat()[..170]);
            let mut losses = [0u8; 64];
            losses[0] = 7;
            losses[8] = 8;
            losses[16] = 9;
            losses[24..26].copy_from_slice(&[LossCause::Disk as u8, RecordKind::Post as u8]);
            losses[32 + 24] = 77;
            out.frame(FrameKind::Losses, &losses);
        }
        let mut call = vec![1, 0, 0, 0, 9, 0, 0, 0];
        for word in numbers.record(0).to_words() {
            call.extend(word.to_le_bytes());
        }
        out.frame(FrameKind::InFlight, &call);
        out.frame(FrameKind::End, &[]);
        assert!(agree(&out.write(directory.path(), "whole.rslog"), None) > 0);

        let whole = out.0.clone();
        for _ in 0..4 {
            // Flips a bit, cuts out a piece, or truncates the end.
            out.0.clone_from(&whole);
            let at = 32 + numbers.below(whole.len() as u64 - 32) as usize;
            match numbers.below(3) {
                0 => out.0[at] ^= 1 << numbers.below(8),
                1 => drop(
                    out.0
                        .drain(at..(at + numbers.below(5000) as usize).min(whole.len())),
                ),
                _ => out.0.truncate(at),
            }
            agree(&out.write(directory.path(), "damaged.rslog"), None);
        }
    }
}

#[test]
fn damage_inside_a_payload_of_records_is_found_at_the_same_record() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut numbers = Numbers(88_172_645_463_325_252);
    let mut out = Segments::new(5);
    let mut time = 1 << 40;
    for generation in 1..200 {
        let mut payload = Vec::new();
        codec::encode(&numbers.groups(&mut time, generation), 3, &mut payload);
        let at = numbers.below(payload.len() as u64) as usize;
        payload[at] ^= 1 << numbers.below(8);
        out.frame(FrameKind::Records, &payload);
    }
    assert!(agree(&out.write(directory.path(), "damaged.rslog"), None) > 0);
}

/// Returns the offset of the record count of group `number` in a payload of few small groups.
fn count_byte(number: usize) -> usize {
    2 + 7 * number + 6
}

#[test]
fn a_damaged_group_is_completed_from_the_live_area() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (set, memory) = live_area(11);
    let lane = set.acquire(101, [0; 16], 5).expect("a lane");
    for n in 1..=30 {
        let record = Record {
            enter_ticks: 100 * n,
            leave_ticks: 100 * n + 1,
            ..Record::new(RecordKind::Call)
        };
        assert!(lane.commit(set, &record));
    }
    let index = (0..set.area.layout().chunk_count)
        .find(|&index| set.area.chunk_header(index).state != 0)
        .expect("a chunk in use");
    let header = set.area.chunk_header(index);
    let mut records = Vec::new();
    set.area.copy_records(index, header.generation, 0, &mut records);
    assert_eq!(records.len(), 31, "the thread's record, and thirty calls");
    for record in &mut records {
        record.generation = 0;
    }
    let group = |first: usize, end: usize| Group {
        lane: header.lane,
        thread_id: header.thread_id,
        ordinal: header.ordinal,
        chunk: index,
        generation: header.generation,
        first: first as u32,
        records: records[first..end].to_vec(),
    };
    // Two groups are from one chunk, and the second claims five records that do not exist. The first is nevertheless
    // complete.
    let mut payload = Vec::new();
    codec::encode(&[group(0, 10), group(10, 20)], 0, &mut payload);
    assert_eq!(payload[count_byte(1)], 10);
    payload[count_byte(1)] = 15;
    let mut out = Segments::new(11);
    out.frame(FrameKind::Records, &payload);
    let path = out.write(directory.path(), "log.rslog");
    let live = directory.path().join("log.rslive");
    std::fs::write(&live, memory).expect("a live area written");
    assert_eq!(agree(&path, Some(&live)), 30);
    let (found, _, problems) = RankLog::open_with_live(&path, Some(&live))
        .expect("a rank log")
        .all_records();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let leaves: Vec<u64> = found.iter().map(|found| found.record.leave_ticks).collect();
    assert_eq!(leaves, (1..=30).map(|n| 100 * n + 1).collect::<Vec<_>>());
}

#[test]
fn a_group_whose_records_are_damaged_still_names_its_thread() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let group = |thread_id: u32, chunk: u32, first: u32, leaves: &[u64]| Group {
        lane: 0,
        thread_id,
        ordinal: u64::from(chunk),
        chunk,
        generation: 1,
        first,
        records: leaves
            .iter()
            .map(|&leave_ticks| Record {
                enter_ticks: leave_ticks,
                leave_ticks,
                ..Record::new(RecordKind::Call)
            })
            .collect(),
    };
    let mut out = Segments::new(12);
    out.groups(&[group(10, 0, 0, &[100])], 0);
    let mut payload = Vec::new();
    codec::encode(&[group(20, 1, 0, &[])], 0, &mut payload);
    assert_eq!(payload[count_byte(0)], 0);
    payload[count_byte(0)] = 5;
    out.frame(FrameKind::Records, &payload);
    out.groups(&[group(20, 1, 5, &[300])], 0);
    let path = out.write(directory.path(), "log.rslog");
    assert_eq!(agree(&path, None), 2);
    let (found, threads, _) = RankLog::open(&path).expect("a rank log").all_records();
    let ids: Vec<u32> = found
        .iter()
        .map(|found| threads[found.thread as usize].id)
        .collect();
    assert_eq!(ids, [10, 20]);
}

#[test]
fn ticks_that_rounding_makes_equal_keep_their_packed_order() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let group = |lane: u32, leave_ticks: u64| Group {
        lane,
        thread_id: 100 + lane,
        ordinal: 0,
        chunk: lane,
        generation: 1,
        first: 0,
        records: vec![Record {
            enter_ticks: leave_ticks,
            leave_ticks,
            ..Record::new(RecordKind::Call)
        }],
    };
    let mut out = Segments::new(13);
    out.groups(&[group(0, 1609), group(1, 1603)], 4);
    let path = out.write(directory.path(), "log.rslog");
    assert_eq!(agree(&path, None), 2);
    let (found, ..) = RankLog::open(&path).expect("a rank log").all_records();
    let order: Vec<(u32, u64)> = found
        .iter()
        .map(|found| (found.lane, found.record.leave_ticks))
        .collect();
    assert_eq!(order, [(1, 1600), (0, 1600)]);
}

#[test]
fn more_templates_than_a_byte_can_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let record = |n: u64| Record {
        bytes: n % 700,
        enter_ticks: n,
        leave_ticks: n + 1,
        ..Record::new(RecordKind::Call)
    };
    let groups: Vec<Group> = (0..20)
        .map(|ordinal| Group {
            lane: 5,
            thread_id: 6,
            ordinal,
            chunk: ordinal as u32,
            generation: 1,
            first: 0,
            records: (0..100).map(|n| record(100 * ordinal + n)).collect(),
        })
        .collect();
    let mut out = Segments::new(1);
    out.groups(&groups, 0);
    assert_eq!(agree(&out.write(directory.path(), "wide.rslog"), None), 2000);
}

/// Makes a live area in ordinary memory, from which a file is written. It is leaked, as in a process.
fn live_area(nonce: u64) -> (&'static LaneSet, &'static [u8]) {
    let live = LiveLayout::for_bytes(512 * 1024).expect("large enough");
    let zeroed = |bytes: usize| -> *mut u8 {
        let memory = vec![[0u64; 512]; bytes.div_ceil(4096) + 1].leak();
        let address = memory.as_mut_ptr().cast::<u8>();
        address.wrapping_add(address.align_offset(4096))
    };
    let base = zeroed(live.total_bytes() as usize);
    let lanes = zeroed(LaneSet::bytes_for(live.lane_count));
    let ring = zeroed(FreeRing::bytes_for(live.chunk_count));
    // SAFETY: the memory is leaked, zeroed, large enough and aligned to a page.
    let area = unsafe { Area::from_raw(base, live) };
    area.initialise(nonce, 77, Counter::MonotonicRaw as u32, 3);
    // SAFETY: as above, the memory for lanes and ring is leaked, zeroed, large enough and aligned.
    let set: &LaneSet = Box::leak(Box::new(unsafe {
        LaneSet::new(
            area,
            lanes,
            ring.cast::<std::sync::atomic::AtomicU32>().cast_const(),
        )
    }));
    // SAFETY: this is the area's own memory, which is never freed. The test reads it only while it does not write.
    let bytes = unsafe { std::slice::from_raw_parts(base, live.total_bytes() as usize) };
    (set, bytes)
}

#[test]
fn records_in_segments_and_live_area_are_read_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (set, memory) = live_area(9);
    let mut out = Segments::new(9);
    let mut numbers = Numbers(4711);
    for (kind, payload) in some_definitions() {
        assert!(set.area.define(kind, payload.as_bytes()));
    }
    let mut flushed = Vec::new();
    let end = set.area.copy_definitions(0, &mut flushed);
    out.frame(FrameKind::Definitions, &flushed);
    set.area.set_definitions_flushed(end);
    assert!(
        set.area
            .define(definition::KIND_TEXT, Payload::text(1, b"only live").as_bytes())
    );
    for ticks in 1..40 {
        set.area.push_calibration(&calibration(ticks));
    }
    out.frame(FrameKind::Calibrations, &calibration(39).to_bytes());
    set.area
        .count_loss(LossCause::NoLane, RecordKind::Thread, 4, 10, 20);

    let name = |text: &[u8]| {
        let mut name = [0; 16];
        name[..text.len()].copy_from_slice(text);
        name
    };
    let lanes = [
        set.acquire(1001, name(b"trainer"), 5).expect("a lane"),
        set.acquire(1002, name(b"sixteen bytes!!!"), 6).expect("a lane"),
        set.acquire(1003, name(b""), 7).expect("a lane"),
    ];
    let mut committed = 0;
    let mut time = 100;
    let mut commit = |numbers: &mut Numbers, count: u32| {
        for n in 0..count {
            time += 10;
            let mut record = numbers.record(time);
            record.kind = record.kind.clamp(1, 6);
            assert!(lanes[n as usize % 3].commit(set, &record));
            committed += 1;
        }
    };
    commit(&mut numbers, 1500);
    // The work of the recorder thread: half-full chunks are written too, full ones are recycled, and some of those are
    // filled again.
    for round in 0..3 {
        let mut groups = Vec::new();
        for index in 0..set.area.layout().chunk_count {
            let header = set.area.chunk_header(index);
            if header.state == 0 || (index + round) % 3 == 0 {
                continue;
            }
            let mut records = Vec::new();
            set.area
                .copy_records(index, header.generation, header.flushed, &mut records);
            let seen = header.flushed + records.len() as u32;
            for record in &mut records {
                record.generation = 0;
            }
            groups.push(Group {
                lane: header.lane,
                thread_id: header.thread_id,
                ordinal: header.ordinal,
                chunk: index,
                generation: header.generation,
                first: header.flushed,
                records,
            });
            if header.state == 2 {
                set.area.recycle_chunk(index);
                set.free.push(index);
            } else {
                set.area.set_chunk_flushed(index, seen);
            }
        }
        groups.sort_by_key(|group| (group.lane, group.ordinal));
        out.groups(&groups, 0);
        commit(&mut numbers, 700);
    }
    for (depth, lane) in [0, 0, 0, 0, 0, 1].into_iter().zip([0, 0, 0, 0, 0, 2]) {
        let mut record = numbers.record(depth);
        record.leave_ticks = 0;
        lanes[lane].enter(set, &record);
    }
    set.release(lanes[1]);

    let path = out.write(directory.path(), "log.rslog");
    let live = directory.path().join("log.rslive");
    std::fs::write(&live, memory).expect("a live area written");
    assert_eq!(agree(&path, Some(&live)), committed);

    // A live area that is truncated anywhere gives the records that it still holds.
    for _ in 0..10 {
        let end = numbers.below(memory.len() as u64) as usize;
        std::fs::write(&live, &memory[..end]).expect("a live area written");
        let log = RankLog::open_with_live(&path, Some(&live)).expect("a rank log");
        if log.live_path.is_some() {
            assert!(agree_on(&log) <= committed);
        }
    }

    // The process continues after its live area was read. Chunks that it recycles are in segments when those are read.
    std::fs::write(&live, memory).expect("a live area written");
    let later: Vec<Group> = (0..set.area.layout().chunk_count)
        .map(|index| (index, set.area.chunk_header(index)))
        .filter(|(_, header)| header.state == 2)
        .map(|(index, header)| {
            let mut records = Vec::new();
            set.area
                .copy_records(index, header.generation, header.flushed, &mut records);
            let first = header.flushed;
            Group {
                lane: header.lane,
                thread_id: header.thread_id,
                ordinal: header.ordinal,
                chunk: index,
                generation: header.generation,
                first,
                records,
            }
        })
        .collect();
    assert!(!later.is_empty());
    out.groups(&later, 0);
    let again: Vec<Group> = later
        .iter()
        .map(|group| Group {
            generation: group.generation + 1,
            ordinal: group.ordinal + 100,
            first: 0,
            records: vec![numbers.record(1 << 30)],
            ..group.clone()
        })
        .collect();
    out.groups(&again, 0);
    let path = out.write(directory.path(), "log.rslog");
    assert_eq!(agree(&path, Some(&live)), committed + again.len());
}

/// Checks that the offsets in the document are those of the code.
#[test]
fn the_tables_of_the_document_equal_the_code() {
    use rankscope_ranklog::layout::{chunk, header, lane};
    let document =
        std::fs::read_to_string(root().join("formats/ranklog/RANKLOG.md")).expect("the specification");
    let row = |section: &str, name: &str| -> usize {
        let after = document
            .split(&format!("### {section}\n"))
            .nth(1)
            .unwrap_or_else(|| panic!("a section {section}"));
        let part = after.split("\n#").next().unwrap_or(after);
        let line = part
            .lines()
            .find(|line| line.contains(&format!("| `{name}`")))
            .unwrap_or_else(|| panic!("{section} tells {name}"));
        line.split('|')
            .nth(1)
            .and_then(|cell| cell.trim().parse().ok())
            .unwrap_or_else(|| panic!("{line}: an offset"))
    };
    for (name, offset) in [
        ("MAGIC", header::MAGIC),
        ("VERSION", header::VERSION),
        ("HEADER_BYTES", header::HEADER_BYTES),
        ("NONCE", header::NONCE),
        ("TOTAL_BYTES", header::TOTAL_BYTES),
        ("PID", header::PID),
        ("STATE", header::STATE),
        ("LANE_COUNT", header::LANE_COUNT),
        ("CHUNK_COUNT", header::CHUNK_COUNT),
        ("LANES_OFFSET", header::LANES_OFFSET),
        ("DEFINITIONS_OFFSET", header::DEFINITIONS_OFFSET),
        ("DEFINITIONS_BYTES", header::DEFINITIONS_BYTES),
        ("CHUNKS_OFFSET", header::CHUNKS_OFFSET),
        ("DEFINITIONS_USED", header::DEFINITIONS_USED),
        ("DEFINITIONS_FLUSHED", header::DEFINITIONS_FLUSHED),
        ("SEGMENT_BYTES", header::SEGMENT_BYTES),
        ("COUNTER", header::COUNTER),
        ("CALIBRATIONS", header::CALIBRATIONS),
        ("START_TICKS", header::START_TICKS),
        ("FLIGHT_FROM_TICKS", header::FLIGHT_FROM_TICKS),
    ] {
        assert_eq!(row("Header page", name), offset, "{name}");
    }
    for (name, offset) in [
        ("STATE", lane::STATE),
        ("THREAD_ID", lane::THREAD_ID),
        ("IN_FLIGHT_LOST", lane::IN_FLIGHT_LOST),
    ] {
        assert_eq!(row("Lane block", name), offset, "{name}");
    }
    for (name, offset) in [
        ("GENERATION", chunk::GENERATION),
        ("STATE", chunk::STATE),
        ("LANE", chunk::LANE),
        ("THREAD_ID", chunk::THREAD_ID),
        ("ORDINAL", chunk::ORDINAL),
        ("FLUSHED", chunk::FLUSHED),
    ] {
        assert_eq!(row("Chunk", name), offset, "{name}");
    }
    for line in [
        "| header page | 0 | 4096 |",
        "| lane blocks | `LANES_OFFSET` | 320 each |",
        "| chunks | `CHUNKS_OFFSET` | 8192 each |",
    ] {
        assert!(document.contains(line), "{line}");
    }
    assert_eq!(
        (layout::HEADER_BYTES, layout::LANE_BYTES, layout::CHUNK_BYTES),
        (4096, 320, 8192)
    );
    for kind in (0..=255).filter_map(RecordKind::from_u8) {
        assert!(
            document.contains(&format!("\n| {} | {} |", kind as u8, kind.name())),
            "{kind:?}"
        );
    }
    for cause in (0..=255).filter_map(LossCause::from_u8) {
        assert!(
            document.contains(&format!("\n| {} | {} |", cause as u8, cause.name())),
            "{cause:?}"
        );
    }
    for operation in rankscope_ranklog::Operation::ALL {
        let row = format!("| {} | {} |", *operation as u8, operation.name());
        assert!(document.contains(&row) || *operation as u8 == 255, "{row}");
    }
}
