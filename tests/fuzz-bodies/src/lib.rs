//! Bodies of the fuzz targets. A test replays the corpus through the same functions (`tests/tests/fuzz_corpus.rs`).
//!
//! Checksums and deflate would reject nearly all inputs, so the first byte of an input chooses its meaning. With 0 the
//! rest is the file itself. With any other value the rest is instructions from which a file with right checksums is
//! made.

use rankscope_ranklog::area::Area;
use rankscope_ranklog::codec;
use rankscope_ranklog::definition::{self, Scanned};
use rankscope_ranklog::layout::{FORMAT_VERSION, LiveLayout};
use rankscope_ranklog::log_index::LogIndex;
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::record::RecordKind;
use rankscope_ranklog::segment::{self, FileHeader, FrameKind};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

const NONCE: u64 = 7;

/// Reads numbers and pieces from the front of an input; zeros when it has run out.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn piece(&mut self) -> &'a [u8] {
        let length = usize::from(self.short()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A file in memory, with a name that any reader can open.
struct MemoryFile(File);

impl MemoryFile {
    fn new(bytes: &[u8]) -> Self {
        // SAFETY: the name is NUL-terminated. The descriptor is new, and the file owns it from here on.
        let mut file = unsafe {
            let descriptor = libc::memfd_create(c"fuzz".as_ptr(), libc::MFD_CLOEXEC);
            assert!(descriptor >= 0, "memfd_create");
            File::from_raw_fd(descriptor)
        };
        file.write_all(bytes).expect("memory");
        Self(file)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

fn header() -> Vec<u8> {
    let header = FileHeader {
        version: FORMAT_VERSION,
        counter: 1,
        nonce: NONCE,
        pid: 1,
    };
    header.to_bytes().to_vec()
}

/// Reads everything that a log offers, and checks invariants.
fn read(log: &RankLog, bytes: usize) {
    let (records, threads, problems) = log.all_records();
    for held in &records {
        assert!((held.thread as usize) < threads.len());
        assert_eq!(held.record.generation, 0);
        assert_ne!(held.record.kind, RecordKind::Thread as u8);
    }
    for problem in log.problems.iter().chain(&problems) {
        assert!(problem.offset <= bytes as u64, "{problem} in {bytes} bytes");
    }
    for call in &log.in_flight {
        assert_eq!(call.record.generation, 0);
    }
    assert!(log.calibrations.is_sorted_by_key(|entry| entry.ticks));
}

/// Reads a segment file.
pub fn segments(input: &[u8]) {
    let mut input = Input(input);
    let mut file = header();
    if input.byte() == 0 {
        file.clear();
        file.extend_from_slice(input.0);
    } else {
        while !input.is_empty() {
            match input.byte() {
                0 => file.extend_from_slice(input.piece()),
                kind => {
                    let kind = FrameKind::from_u8(kind % 8).unwrap_or(FrameKind::Records);
                    let payload = if kind == FrameKind::Records {
                        packed(&mut Input(input.piece()))
                    } else {
                        input.piece().to_vec()
                    };
                    segment::put_frame(kind, 0, &payload, &mut file);
                }
            }
        }
    }
    let memory = MemoryFile::new(&file);
    if let Ok(log) = RankLog::open_with_live(&memory.path(), None) {
        read(&log, file.len());
        by_index(&log, &memory.path(), &file);
    }
}

/// Opens parts of a log by its own index, and by one with any offsets.
fn by_index(log: &RankLog, path: &Path, file: &[u8]) {
    let number = |at: usize| {
        file.get(at..at + 4).map_or(0, |bytes| {
            u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        })
    };
    let (from, until) = (number(file.len() / 2), number(file.len() / 3));
    let of_part = log.index_between(from, until);
    let any = LogIndex {
        small_frames: vec![from % 512, until % 512, from],
        resume: until % 1024,
        until: from,
        ..of_part.clone()
    };
    for index in [of_part, any] {
        if let Ok(mut log) = RankLog::open_with(path, &index) {
            log.begin_at(from);
            log.end_at(until);
            read(&log, file.len());
        }
    }
}

/// Reads a live area together with a segment file.
pub fn live_area(input: &[u8]) {
    let mut input = Input(input);
    let mut segments = header();
    let area = if input.byte() == 0 {
        input.0.to_vec()
    } else {
        let payload = packed(&mut Input(input.piece()));
        segment::put_frame(FrameKind::Records, 0, &payload, &mut segments);
        patched_area(&mut input)
    };
    let (memory, live) = (MemoryFile::new(&segments), MemoryFile::new(&area));
    let log = RankLog::open_with_live(&memory.path(), Some(&live.path())).expect("a header that is right");
    read(&log, area.len().max(segments.len()));
    // A watcher reads only the calls in progress. Each has a slot of its own.
    if let Ok(calls) = rankscope_ranklog::peek::calls(&live.path()) {
        assert!(calls.is_sorted_by(|one, next| one.slot < next.slot), "{calls:?}");
    }
}

/// Makes a small live area like a recorder's, with some bytes changed.
fn patched_area(input: &mut Input<'_>) -> Vec<u8> {
    let layout = LiveLayout {
        lane_count: 2,
        chunk_count: 3,
        definitions_bytes: 4096,
    };
    let bytes = layout.total_bytes() as usize;
    let mut memory = vec![0u64; bytes / 8];
    // SAFETY: the memory is zeroed, has that size, is aligned to 8, and is used by this thread alone as long as the
    // area exists.
    let area = unsafe { Area::from_raw(memory.as_mut_ptr().cast(), layout) };
    area.initialise(NONCE, 1, 1, 1);
    area.define(definition::KIND_TEXT, b"\x01\0\0\0text");
    area.own_lane(0, 5);
    area.own_chunk(0, 0, 5, 0);
    area.own_chunk(1, 1, 6, 1);
    area.fill_chunk(1);
    let mut out: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
    // Committed records in the first two chunks.
    for chunk in 0..2 {
        for position in 0..input.byte() % 128 {
            let at = area.chunk_offset(chunk) as usize + 64 * (usize::from(position) + 1);
            out[at] = 1;
            out[at + 4] = position % 12;
        }
    }
    while !input.is_empty() {
        let at = usize::from(input.short()) * 8 % out.len();
        for (to, from) in out[at..].iter_mut().zip(input.piece()) {
            *to = *from;
        }
    }
    out
}

/// Makes a records payload from instructions: the numbers at its front and its columns, deflated here.
fn packed(input: &mut Input<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let varint = |mut value: u64, out: &mut Vec<u8>| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    varint(u64::from(input.byte() % 18), &mut out);
    let groups = input.byte() % 16;
    varint(u64::from(groups), &mut out);
    for ordinal in 0..groups {
        let lane = input.byte() % 4;
        let (chunk, generation, first, count) =
            (input.byte() % 4, input.byte() % 4, input.byte(), input.byte());
        for number in [lane, lane + 100, ordinal, chunk, generation, first, count] {
            varint(u64::from(number), &mut out);
        }
    }
    let columns: [&[u8]; 5] = std::array::from_fn(|_| input.piece());
    for column in columns {
        varint(column.len() as u64, &mut out);
    }
    // Stored without compression: the time must be spent in the reader.
    let deflated = stored(&columns.concat());
    varint(deflated.len() as u64, &mut out);
    let bits = input.piece();
    varint(bits.len() as u64, &mut out);
    out.extend_from_slice(&deflated);
    out.extend_from_slice(bits);
    out
}

/// Makes a deflate stream of stored blocks (RFC 1951, 3.2.4).
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    for block in bytes.chunks(0xFFFF) {
        let length = (block.len() as u16).to_le_bytes();
        out.extend_from_slice(&[0, length[0], length[1], !length[0], !length[1]]);
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[1, 0, 0, 0xFF, 0xFF]);
    out
}

/// Decodes a records payload. The result without damage equals that of encoding and decoding it again.
pub fn records(input: &[u8]) {
    let mut input = Input(input);
    let payload = if input.byte() == 0 {
        input.0.to_vec()
    } else {
        packed(&mut input)
    };
    let (groups, damage) = codec::decode(&payload);
    if let Some(damage) = damage {
        assert!(damage.offset <= payload.len(), "{damage:?}");
        return;
    }
    // The first number is below 17 and has one byte. A writer never uses its longer encodings.
    let quantum_bits = u32::from(payload[0] & 0x7F);
    let mut again = Vec::new();
    codec::encode(&groups, quantum_bits, &mut again);
    assert_eq!(codec::decode(&again), (groups, None));
}

/// Decodes a sequence of definitions.
pub fn definitions(input: &[u8]) {
    let mut input = Input(input);
    let mut run = Vec::new();
    if input.byte() == 0 {
        run.extend_from_slice(input.0);
    } else {
        while !input.is_empty() {
            match input.byte() {
                0 => run.extend_from_slice(input.piece()),
                kind => {
                    let (start, payload) = (run.len(), input.piece());
                    run.extend_from_slice(&definition::commit_word(kind % 8, payload).to_le_bytes());
                    run.extend_from_slice(payload);
                    run.resize(start + definition::framed_bytes(payload.len()), 0);
                }
            }
        }
    }
    let mut last = None;
    definition::scan(&run, |offset, found| {
        assert!(
            offset < run.len() && last < Some(offset),
            "{offset} after {last:?}"
        );
        last = Some(offset);
        if let Scanned::Broken(at) = found {
            assert_eq!(at, offset);
        }
    });
}

/// Reads saved records of CUPTI: every record is read or named, and the walk ends.
pub fn cupti_dump(input: &[u8]) {
    use rankscope_cupti_sys::dump::{Dump, Problem};
    let Ok(dump) = Dump::open(input) else { return };
    let mut bytes = 0;
    for found in dump {
        match found {
            Ok((_, length)) => bytes += 4 + length,
            Err(Problem::TooShort(at, short)) => {
                assert!(at < input.len());
                bytes += 4 + short.bytes;
            }
            Err(Problem::CutOff(at)) => {
                assert!(at < input.len());
                return;
            }
            Err(Problem::NoDump) => panic!("it was opened"),
        }
    }
    let head = input
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    assert_eq!(head + bytes, input.len(), "nothing is skipped");
}

/// Reads a trace of torch.profiler with any bytes, and uses everything that was read.
pub fn kineto(input: &[u8]) {
    use rankscope_formats::kineto::{Args, Part, read};
    let outcome = read(input, &mut |offset, part| {
        assert!(offset <= input.len() as u64);
        if let Part::Event(event) = part {
            if let Some((start, end)) = event.span_ns() {
                assert!(start <= end);
            }
            let args = event.args();
            let _ = (
                Args::dimensions(args.grid),
                Args::integer(args.correlation),
                Args::text(args.group_name),
            );
        }
    });
    assert!(outcome.bytes <= input.len() as u64);
}

/// Reads a dump of PyTorch's Flight Recorder.
pub fn flight_recorder(input: &[u8]) {
    let dump = rankscope_formats::flight_recorder::read(input);
    for problem in &dump.problems {
        assert!(problem.offset <= input.len() as u64, "{problem:?}");
    }
    // A pickle may name one operation many times, but its values are visited at most four times per byte.
    assert!(dump.entries.len() <= 4 * input.len());
}

/// Reads a file of NCCL's Inspector.
pub fn inspector(input: &[u8]) {
    let mut lines = 0;
    let outcome = rankscope_formats::inspector::read(input, &mut |_| lines += 1).expect("memory");
    assert_eq!((outcome.lines, outcome.bytes), (lines, input.len() as u64));
    for problem in &outcome.problems {
        assert!(problem.offset <= input.len() as u64, "{problem:?}");
    }
}

/// The results of a bench, and their comparison with themselves.
pub fn bench(input: &[u8]) {
    use rankscope_compare::bench::{Expected, compare, missed};
    let Ok(results) = rankscope_formats::bench::BenchResults::parse(input) else {
        return;
    };
    let compared = compare(&results, &results, 0.1);
    assert!(!compared.is_slower(), "a bench is not slower than itself");
    let expected = Expected {
        operation: None,
        bus_bytes_per_s: 1e9,
    };
    for one in missed(&results, &[expected]) {
        assert!(!one.to_string().is_empty());
    }
}

/// Reads a status of NCCL RAS.
pub fn ras(input: &[u8]) {
    let status = rankscope_formats::ras::read(input);
    for problem in &status.problems {
        assert!(problem.offset <= input.len() as u64, "{problem:?}");
    }
}

/// Reads a timeline of Ray.
pub fn ray_timeline(input: &[u8]) {
    let timeline = rankscope_formats::ray_timeline::read(input);
    for event in timeline.by_worker.values().flatten() {
        assert!(event.start_unix_ns <= event.end_unix_ns, "{event:?}");
        if let Some(fields) = &event.fields {
            let parsed: serde_json::Value = serde_json::from_str(fields).expect("a JSON object");
            assert!(parsed.is_object());
        }
    }
    for problem in &timeline.problems {
        assert!(problem.offset <= input.len() as u64, "{problem:?}");
    }
}

/// Reads a report of a hang. What is written of it is read back as the same.
pub fn status(input: &[u8]) {
    use rankscope_formats::status::Status;
    let Ok(status) = serde_json::from_slice::<Status>(input) else {
        return;
    };
    let written = serde_json::to_vec(&status).expect("JSON");
    let again: Status = serde_json::from_slice(&written).expect("what was written");
    assert_eq!(status, again);
}

/// Reads samples of GPUs. Each whole line is a sample, a header, a problem or empty.
pub fn gpu_samples(input: &[u8]) {
    use rankscope_formats::gpu_samples::{GpuLine, PciAddress, Reader};
    let mut reader = Reader::new(input);
    let (mut kept, mut gpus) = (0, 0);
    while let Some(line) = reader.next_line() {
        kept += 1;
        match line {
            GpuLine::Header(header) => {
                gpus = header.gpus.len();
                for gpu in &header.gpus {
                    let _ = PciAddress::parse(&gpu.address);
                }
            }
            GpuLine::Sample(sample) => assert!((sample.gpu as usize) < gpus),
        }
    }
    for problem in reader.problems() {
        assert!(problem.offset <= input.len() as u64, "{problem:?}");
    }
    let lines = input
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    assert!(kept <= lines.count());
}

/// Reads an index of the viewer. The checksum of its footer is repaired first, so that the code after it is reached.
pub fn view(input: &[u8]) {
    use rankscope_formats::index::{BLOCK_SPANS, Sweep, ViewFile};
    let mut bytes = input.to_vec();
    if let Some(at) = bytes.len().checked_sub(32) {
        let number = |from: usize| {
            let of: [u8; 8] = bytes[at + from..at + from + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(of) as usize
        };
        let (from, length) = (number(0), number(8));
        let footer = from.checked_add(length).and_then(|end| bytes.get(from..end));
        if let Some(checksum) = footer.map(crc32fast::hash) {
            bytes[at + 16..at + 20].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    let Ok(view) = ViewFile::from_bytes(bytes) else {
        return;
    };
    for position in 0..view.footer().counters.len() {
        let Some(counter) = view.counter(position) else {
            continue;
        };
        let first = counter.sample(0).map_or(0, |sample| sample.at_ns);
        for ns in [i64::MIN, first, first.saturating_add(1000), i64::MAX] {
            counter.held_at(ns);
            assert!(counter.samples_before(ns) <= counter.len());
            let spread = counter.spread_in(first, ns);
            assert!(
                spread
                    .min()
                    .is_none_or(|min| spread.max().is_some_and(|max| min <= max))
            );
        }
    }
    for position in 0..view.footer().lanes.len() {
        let Some(lane) = view.lane(position) else { continue };
        let (mut spans, mut starts) = (0, Vec::new());
        lane.spans_in(i64::MIN, i64::MAX, |span| {
            assert!(span.start_ns <= span.end_ns && span.wait_ns <= span.end_ns - span.start_ns);
            let _ = view.name(span.name);
            spans += 1;
            if starts.len() < 8 {
                starts.push(span.start_ns);
            }
            true
        });
        assert!(spans <= lane.blocks() * BLOCK_SPANS);
        let mut sweep = Sweep::new(lane);
        let mut holding = Sweep::new(lane);
        let mut estimating = Sweep::new(lane);
        starts.sort_unstable();
        for &ns in &starts {
            sweep.until(ns);
            estimating.estimate(ns);
            holding.span(ns);
            lane.sums_in(ns, ns.saturating_add(1000));
            lane.span_at(ns, 10);
            lane.next_after(ns);
            lane.last_before(ns);
            lane.spans_before(ns);
        }
    }
}

/// Reads a baseline's entry. Its checksum is repaired first, so that the code after it is reached. An entry that was
/// read can be written and read again.
pub fn baseline_entry(input: &[u8]) {
    use rankscope_formats::comparison::StoredBatch;
    let _ = StoredBatch::from_bytes(input);
    let text = input.strip_suffix(b"\n").unwrap_or(input);
    let last = text.iter().rposition(|&byte| byte == b'\n');
    let mut bytes = input[..last.map_or(input.len(), |at| at + 1)].to_vec();
    if last.is_none() {
        bytes.push(b'\n');
    }
    let sum = crc32fast::hash(&bytes);
    bytes.extend(format!("crc32 {sum:08x}\n").bytes());
    let Ok(batch) = StoredBatch::from_bytes(&bytes) else {
        return;
    };
    let again = batch.to_bytes().expect("JSON");
    let again = StoredBatch::from_bytes(&again).expect("an entry of ours");
    assert_eq!(again.runs.len(), batch.runs.len());
}

/// Files that `rankscope doctor` reads: the first byte chooses a library (0), the loader's cache (1), the first line of
/// a script (2), or the constants of a library (3).
pub fn machine_files(input: &[u8]) {
    use rankscope_doctor::facts::command::interpreter;
    use rankscope_doctor::facts::elf::{Elf, Range};
    use rankscope_doctor::facts::loader_cache;
    use rankscope_doctor::facts::names::{self, Names, PREFIXES};
    use rankscope_doctor::facts::version::Version;
    use std::io::Cursor;

    let Some((&chooser, bytes)) = input.split_first() else {
        return;
    };
    match chooser % 4 {
        0 => {
            if let Some(elf) = Elf::read(Cursor::new(bytes)) {
                let _ = Names::read(Cursor::new(bytes), &elf.constants);
                if let Some(range) = elf.symbol_names {
                    let _ = names::highest_glibc(Cursor::new(bytes), range);
                    let _ = names::contains(Cursor::new(bytes), range, "4gloo9allreduce");
                }
            }
        }
        1 => {
            for cached in loader_cache::parse(bytes) {
                assert!(!cached.name.contains('\0') && !cached.path.contains('\0'));
            }
        }
        2 => assert!(interpreter(bytes).is_none_or(|words| !words[0].is_empty())),
        _ => {
            let all = Range {
                offset: 0,
                bytes: bytes.len() as u64,
            };
            let found = Names::read(Cursor::new(bytes), &[all]);
            for name in &found.variables {
                assert!(PREFIXES.iter().any(|prefix| name.starts_with(prefix)), "{name}");
            }
            if let Some(version) = found.nccl_version {
                // A number may be too large for a version.
                let _ = Version::parse(&version);
            }
        }
    }
}
