//! What a live area adds to the segments of a log: its last records, definitions, calibrations, losses, and the calls in
//! progress.

use super::clock::{CALIBRATION_BYTES, Calibration};
use super::codec::Group;
use super::layout::{
    CALIBRATION_ENTRIES, CALIBRATION_OFFSET, FIRST_LOSS_TABLE_BYTES, FORMAT_VERSION, HEADER_BYTES,
    IN_FLIGHT_SLOTS, LANE_BYTES, LIVE_MAGIC, LOSS_ENTRY_BYTES, RECORDS_PER_CHUNK, chunk, header, lane,
};
use super::little_endian::{u32_at, u64_at};
use super::live_copy::{LiveCopy, read_up_to};
use super::loss::{Loss, LossCause};
use super::process;
use super::reader::{Ending, InFlight, Problem, RankLog};
use super::record::{RECORD_BYTES, Record, RecordKind};
use super::recorder::{COPIED_PROPERTY, FLIGHT_PROPERTY};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Used chunk of a live area.
pub(super) struct LiveGroup {
    /// Lane that wrote it.
    pub(super) lane: u32,
    /// Thread of the lane at that time.
    pub(super) thread_id: u32,
    /// Ordinal of the chunk in its lane.
    pub(super) ordinal: u64,
    /// Number of the chunk.
    pub(super) chunk: u32,
    /// Generation of the records.
    pub(super) generation: u32,
    /// Number of its first records that are already in segments.
    pub(super) flushed: u32,
    /// Committed records.
    pub(super) records: Vec<Record>,
}

impl RankLog {
    pub(super) fn find_live_area(&mut self) {
        let Some(live) = self
            .properties
            .get("live_path")
            .filter(|path| *path != "none")
            .map(PathBuf::from)
        else {
            return;
        };
        if self.properties.contains_key(COPIED_PROPERTY) {
            return;
        }
        // On another machine, or on this one before its last boot, a file of that name may exist by accident.
        if self.properties.get("boot_id") != process::boot_id().as_ref() {
            return;
        }
        let of_segments = (
            std::mem::take(&mut self.in_flight),
            std::mem::take(&mut self.losses),
        );
        match LiveCopy::read(&live) {
            Ok(copy) => {
                self.take_live_area(&live, &copy);
                if self.ending == Ending::LiveArea && self.is_running() {
                    self.ending = Ending::Running;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.live_problem(&live, 0, format!("the live area cannot be read: {error}")),
        }
        let of_live = (
            std::mem::take(&mut self.in_flight),
            std::mem::take(&mut self.losses),
        );
        (self.in_flight, self.losses) = of_segments;
        // The process, or a collector, may have completed the segments since they were scanned.
        self.catch_up();
        // What the live area says is newer than the segments, unless they are complete by now.
        if matches!(self.ending, Ending::LiveArea | Ending::Running) {
            (self.in_flight, self.losses) = of_live;
        }
    }

    /// Returns the live area of a closed log whose process was killed before it could remove the area.
    pub(super) fn live_area_left_over(&self) -> Option<PathBuf> {
        let live = self.properties.get("live_path").filter(|path| *path != "none")?;
        // The area belongs to the original of a copy.
        if self.ending != Ending::Closed
            || self.properties.contains_key(COPIED_PROPERTY)
            || self.properties.get("boot_id") != process::boot_id().as_ref()
        {
            return None;
        }
        let mut head = [0u8; HEADER_BYTES];
        let got = read_up_to(&File::open(live).ok()?, &mut head, 0).ok()?;
        let is_ours = got == HEADER_BYTES
            && u64_at(&head, header::MAGIC) == LIVE_MAGIC
            && u64_at(&head, header::NONCE) == self.nonce;
        is_ours.then(|| PathBuf::from(live))
    }

    pub(super) fn live_problem(&mut self, path: &Path, offset: usize, what: String) {
        self.problems.push(Problem {
            path: path.to_path_buf(),
            offset: offset as u64,
            what,
        });
    }

    pub(super) fn take_live_area(&mut self, path: &Path, copy: &LiveCopy) {
        let bytes = copy.front.as_slice();
        if bytes.len() < HEADER_BYTES + FIRST_LOSS_TABLE_BYTES || u64_at(bytes, header::MAGIC) != LIVE_MAGIC {
            return self.live_problem(
                path,
                0,
                "not a live area (the first eight bytes are not RSLIVE01)".to_owned(),
            );
        }
        let version = u32_at(bytes, header::VERSION);
        if version > FORMAT_VERSION {
            return self.live_problem(
                path,
                header::VERSION,
                format!("live area format {version} is newer than this rankscope reads"),
            );
        }
        if u64_at(bytes, header::NONCE) != self.nonce {
            return self.live_problem(
                path,
                header::NONCE,
                "this live area belongs to another process's log".to_owned(),
            );
        }
        self.live_path = Some(path.to_path_buf());
        self.ending = Ending::LiveArea;
        self.read_live_calibrations(bytes);
        self.losses = live_losses(bytes);
        self.read_live_definitions(path, copy);
        self.read_live_lanes(path, copy);
        self.read_live_chunks(path, copy);
        if self.properties.contains_key(FLIGHT_PROPERTY) {
            self.flight_from_ticks = Some(u64_at(bytes, header::FLIGHT_FROM_TICKS));
        }
    }

    fn read_live_calibrations(&mut self, bytes: &[u8]) {
        for position in 0..CALIBRATION_ENTRIES {
            let at = CALIBRATION_OFFSET + position * CALIBRATION_BYTES;
            if let Some(entry) = bytes[at..]
                .first_chunk::<CALIBRATION_BYTES>()
                .and_then(Calibration::from_bytes)
                && !self.calibrations.iter().any(|known| known.ticks == entry.ticks)
            {
                self.calibrations.push(entry);
            }
        }
        self.calibrations.sort_by_key(|entry| entry.ticks);
    }

    fn read_live_definitions(&mut self, path: &Path, copy: &LiveCopy) {
        match &copy.definitions {
            Some((offset, bytes)) => {
                self.live_definitions = bytes.clone();
                self.take_definitions(bytes, path, *offset);
            }
            None => self.live_problem(
                path,
                header::DEFINITIONS_OFFSET,
                "the definitions lie outside the file".to_owned(),
            ),
        }
    }

    fn read_live_lanes(&mut self, path: &Path, copy: &LiveCopy) {
        let mut blind_calls = 0u64;
        self.in_flight.clear();
        for (lane, block) in (0..).zip(copy.lanes.as_chunks::<LANE_BYTES>().0) {
            blind_calls = blind_calls.saturating_add(u64_at(block, lane::IN_FLIGHT_LOST));
            for slot in 0..IN_FLIGHT_SLOTS {
                let mut record = record_at(block, 64 + slot * RECORD_BYTES);
                if u32_at(block, lane::STATE) != 0 && record.generation != 0 {
                    record.generation = 0;
                    self.in_flight.push(InFlight {
                        lane,
                        thread_id: u32_at(block, lane::THREAD_ID),
                        record,
                    });
                }
            }
        }
        if blind_calls > 0 {
            let start_ticks = u64_at(&copy.front, header::START_TICKS);
            self.losses.push(Loss {
                cause: LossCause::NoInFlightSlot,
                kind: RecordKind::Call,
                count: blind_calls,
                first_ticks: start_ticks,
                last_ticks: start_ticks,
            });
        }
        if copy.lanes_are_cut {
            self.live_problem(
                path,
                header::LANES_OFFSET,
                "some lanes lie outside the file; the others were kept".to_owned(),
            );
        }
    }

    fn read_live_chunks(&mut self, path: &Path, copy: &LiveCopy) {
        for (index, block) in &copy.chunks {
            let generation = u32_at(block, chunk::GENERATION);
            let records: Vec<Record> = (1..=RECORDS_PER_CHUNK)
                .map(|position| record_at(block, position * RECORD_BYTES))
                .take_while(|record| record.generation == generation)
                .map(|record| Record {
                    generation: 0,
                    ..record
                })
                .collect();
            self.live.push(LiveGroup {
                lane: u32_at(block, chunk::LANE),
                thread_id: u32_at(block, chunk::THREAD_ID),
                ordinal: u64_at(block, chunk::ORDINAL),
                chunk: *index,
                generation,
                flushed: u32_at(block, chunk::FLUSHED),
                records,
            });
        }
        self.live.sort_by_key(|group| (group.lane, group.ordinal));
        if let Some(index) = copy.first_chunk_outside {
            self.live_problem(
                path,
                header::CHUNKS_OFFSET,
                format!("chunk {index} and those after it lie outside the file; the others were kept"),
            );
        }
    }

    /// Returns the framed definitions that only the live area contains.
    pub(super) fn live_definitions(&self) -> &[u8] {
        &self.live_definitions
    }

    /// Returns the chunks that only the live area contains.
    pub(super) fn live_groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.live
            .iter()
            .filter(|group| !group.records.is_empty())
            .map(|group| Group {
                lane: group.lane,
                thread_id: group.thread_id,
                ordinal: group.ordinal,
                chunk: group.chunk,
                generation: group.generation,
                first: 0,
                records: group.records.clone(),
            })
    }
}

fn live_losses(bytes: &[u8]) -> Vec<Loss> {
    let mut out = Vec::new();
    // The lanes follow the table. In the oldest logs the table has space for eight causes.
    let end = u64_at(bytes, header::LANES_OFFSET) as usize;
    for cause in (0..LossCause::COUNT as u8).filter_map(LossCause::from_u8) {
        for kind in (0..RecordKind::COUNT as u8).filter_map(RecordKind::from_u8) {
            let index = cause as usize * RecordKind::PLACES + kind.place();
            let at = HEADER_BYTES + index * LOSS_ENTRY_BYTES;
            if at + LOSS_ENTRY_BYTES > end {
                continue;
            }
            let count = u64_at(bytes, at);
            if count > 0 {
                out.push(Loss {
                    cause,
                    kind,
                    count,
                    first_ticks: u64_at(bytes, at + 8),
                    last_ticks: u64_at(bytes, at + 16),
                });
            }
        }
    }
    out
}

fn record_at(bytes: &[u8], at: usize) -> Record {
    let mut words = [0u64; 8];
    for (step, word) in words.iter_mut().enumerate() {
        *word = u64_at(bytes, at + 8 * step);
    }
    Record::from_words(words)
}
