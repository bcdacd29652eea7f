//! Writer of the index of one rank. It writes all lanes at the same time, and needs about 1.5 bytes of memory per span.

use super::ViewError;
use super::block::encode;
use super::counters::OpenCounter;
use super::directory::{Block, ENTRY_BYTES};
use super::{BLOCK_SPANS, CLASSES, CounterInfo, Footer, LaneInfo, LaneKind, MAGIC, Name, Sample, Span, Sums};
use crate::files;
use crate::whole_file::WholeFile;
use rustc_hash::FxHashMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Maximum number of names of one rank. Payloads of operations that are all different, or numbers in marks, could
/// create very many.
const MAX_NAMES: usize = 1 << 18;

/// Index file that is being written. It gets its final name when it is complete, so that nobody reads a partial file.
pub struct ViewWriter {
    out: BufWriter<WholeFile>,
    path: PathBuf,
    offset: u64,
    lanes: Vec<OpenLane>,
    counters: Vec<OpenCounter>,
    names: Vec<Name>,
    numbers: FxHashMap<Name, u32>,
    packed: Vec<u8>,
}

struct OpenLane {
    kind: LaneKind,
    layer: u32,
    waiting: Vec<Span>,
    end_ns: i64,
    start_ns: i64,
    spans: u64,
    sums: Sums,
    directory: Vec<u8>,
}

impl ViewWriter {
    /// Creates the file and its directory.
    pub fn create(path: &Path) -> Result<Self, ViewError> {
        let error = |source| error(path, source);
        if let Some(directory) = path.parent() {
            files::create_directory(directory).map_err(error)?;
        }
        let mut out = BufWriter::with_capacity(1 << 18, WholeFile::create(path).map_err(error)?);
        out.write_all(&MAGIC).map_err(error)?;
        Ok(Self {
            out,
            path: path.to_path_buf(),
            offset: MAGIC.len() as u64,
            lanes: Vec::new(),
            counters: Vec::new(),
            names: Vec::new(),
            numbers: FxHashMap::default(),
            packed: Vec::new(),
        })
    }

    /// Creates a lane and returns its number.
    pub fn lane(&mut self, kind: LaneKind, layer: u32) -> usize {
        self.lanes.push(OpenLane {
            kind,
            layer,
            waiting: Vec::new(),
            end_ns: i64::MIN,
            start_ns: 0,
            spans: 0,
            sums: Sums::default(),
            directory: Vec::new(),
        });
        self.lanes.len() - 1
    }

    /// Creates a counter and returns its number. Its last value holds until `end_ns`.
    pub fn counter(&mut self, name: &str, end_ns: i64) -> usize {
        self.counters.push(OpenCounter::new(name.to_owned(), end_ns));
        self.counters.len() - 1
    }

    /// Appends a sample of a counter. If it is before the last one, it is moved to the time of that.
    pub fn sample(&mut self, counter: usize, sample: Sample) -> Result<(), ViewError> {
        let is_full = self.counters.get(counter).is_some_and(OpenCounter::is_full);
        if is_full {
            self.end_samples(counter, sample.at_ns)?;
        }
        if let Some(open) = self.counters.get_mut(counter) {
            open.push(sample);
        }
        Ok(())
    }

    fn end_samples(&mut self, counter: usize, until_ns: i64) -> Result<(), ViewError> {
        let Some(open) = self.counters.get_mut(counter) else {
            return Ok(());
        };
        self.packed.clear();
        open.end_block(until_ns, self.offset, &mut self.packed);
        self.write_packed()
    }

    /// Returns the number of a name. If there are too many names, the last ones share a number.
    pub fn name(&mut self, name: Name) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        if self.names.len() >= MAX_NAMES {
            return MAX_NAMES as u32 - 1;
        }
        let number = self.names.len() as u32;
        self.names.push(if self.names.len() + 1 == MAX_NAMES {
            Name {
                text: "(one of too many names)".to_owned(),
                bytes: None,
            }
        } else {
            name.clone()
        });
        self.numbers.insert(name, number);
        number
    }

    /// Sets the position of a lane among the lanes of its kind.
    pub fn set_layer(&mut self, lane: usize, layer: u32) {
        if let Some(open) = self.lanes.get_mut(lane) {
            open.layer = layer;
        }
    }

    /// Returns the end of a lane's last span, in nanoseconds; the minimum value without spans.
    pub fn end_ns(&self, lane: usize) -> i64 {
        self.lanes.get(lane).map_or(i64::MIN, |lane| lane.end_ns)
    }

    /// Appends a span. If it starts before the end of the lane's last span, its start is moved to that end.
    pub fn push(&mut self, lane: usize, mut span: Span) -> Result<(), ViewError> {
        let Some(open) = self.lanes.get_mut(lane) else {
            return Ok(());
        };
        span.start_ns = span.start_ns.max(open.end_ns);
        span.end_ns = span.end_ns.max(span.start_ns);
        span.wait_ns = span.wait_ns.clamp(0, span.end_ns - span.start_ns);
        span.queued_ns = span.queued_ns.max(0);
        span.class %= CLASSES as u8;
        if open.spans == 0 {
            open.start_ns = span.start_ns;
        }
        open.spans += 1;
        open.end_ns = span.end_ns;
        open.waiting.push(span);
        if open.waiting.len() == BLOCK_SPANS {
            self.end_block(lane)?;
        }
        Ok(())
    }

    fn end_block(&mut self, lane: usize) -> Result<(), ViewError> {
        let Some(open) = self.lanes.get_mut(lane) else {
            return Ok(());
        };
        let Some(first) = open.waiting.first() else {
            return Ok(());
        };
        self.packed.clear();
        encode(&open.waiting, &mut self.packed);
        Block {
            start_ns: first.start_ns,
            end_ns: open.end_ns,
            offset: self.offset,
            spans: open.waiting.len() as u32,
            bytes: self.packed.len() as u32,
            before: open.sums,
        }
        .write(&mut open.directory);
        open.waiting.iter().for_each(|span| open.sums.add(span));
        open.waiting.clear();
        self.write_packed()
    }

    fn write_packed(&mut self) -> Result<(), ViewError> {
        let packed = std::mem::take(&mut self.packed);
        let written = self.write(&packed);
        self.packed = packed;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ViewError> {
        self.out
            .write_all(bytes)
            .map_err(|source| error(&self.path, source))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Writes the rest of the counters, and returns those that have samples by name.
    fn write_counters(&mut self) -> Result<Vec<CounterInfo>, ViewError> {
        for counter in 0..self.counters.len() {
            let until_ns = self.counters.get(counter).map_or(0, OpenCounter::end_ns);
            self.end_samples(counter, until_ns)?;
        }
        let mut written = Vec::new();
        for counter in std::mem::take(&mut self.counters) {
            let (info, tree) = counter.finish(self.offset);
            self.write(&tree)?;
            written.push(info);
        }
        written.retain(|counter| counter.samples > 0);
        written.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(written)
    }

    /// Writes the rest of the file and returns its size. Lanes are displayed in the order of their kinds. `footer`
    /// contains the session, the rank and the problems.
    pub fn finish(mut self, mut footer: Footer) -> Result<u64, ViewError> {
        for lane in 0..self.lanes.len() {
            self.end_block(lane)?;
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.sort_by_key(|lane| (lane.kind, lane.layer));
        footer.lanes.clear();
        for lane in lanes {
            footer.lanes.push(LaneInfo {
                kind: lane.kind,
                layer: lane.layer,
                spans: lane.spans,
                blocks: (lane.directory.len() / ENTRY_BYTES) as u64,
                directory: self.offset,
                start_ns: lane.start_ns,
                end_ns: lane.end_ns.max(lane.start_ns),
                totals: lane.sums.0,
            });
            self.write(&lane.directory)?;
        }
        footer.counters = self.write_counters()?;
        footer.names = std::mem::take(&mut self.names);
        let text =
            serde_json::to_vec(&footer).map_err(|source| error(&self.path, io::Error::other(source)))?;
        let at = self.offset;
        self.write(&text)?;
        let mut trailer = Vec::with_capacity(32);
        trailer.extend(at.to_le_bytes());
        trailer.extend((text.len() as u64).to_le_bytes());
        trailer.extend(crc32fast::hash(&text).to_le_bytes());
        trailer.extend([0; 4]);
        trailer.extend(MAGIC);
        self.write(&trailer)?;
        let (path, offset) = (self.path, self.offset);
        self.out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(WholeFile::finish)
            .map_err(|source| error(&path, source))?;
        Ok(offset)
    }
}

fn error(path: &Path, source: io::Error) -> ViewError {
    ViewError::Io {
        path: path.to_path_buf(),
        source,
    }
}
