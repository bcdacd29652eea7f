//! Offline writer of a rank log: for the collector's own logs, tests and benchmarks.
//!
//! A recording process uses the recorder instead, which writes the same format crash-safely.

use super::clock::{Calibration, Counter};
use super::codec::{self, Group};
use super::definition::{self, Payload};
use super::layout::{FORMAT_VERSION, RECORDS_PER_CHUNK};
use super::loss::Loss;
use super::record::Record;
use super::recorder;
use super::segment::{self, FileHeader, FrameKind};
use std::io::{self, Write};

/// Writes frames to any writer.
pub struct LogWriter<W: Write> {
    out: W,
    definitions_position: u32,
    ordinals: Vec<u64>,
    buffer: Vec<u8>,
    payload: Vec<u8>,
}

impl<W: Write> LogWriter<W> {
    /// Writes the file header.
    pub fn new(mut out: W, counter: Counter, nonce: u64, pid: u32) -> io::Result<Self> {
        let header = FileHeader {
            version: FORMAT_VERSION,
            counter: counter as u32,
            nonce,
            pid,
        };
        out.write_all(&header.to_bytes())?;
        Ok(Self {
            out,
            definitions_position: 0,
            ordinals: Vec::new(),
            buffer: Vec::new(),
            payload: Vec::new(),
        })
    }

    fn frame(&mut self, kind: FrameKind, position: u32) -> io::Result<()> {
        self.buffer.clear();
        segment::put_frame(kind, position, &self.payload, &mut self.buffer);
        self.out.write_all(&self.buffer)
    }

    /// Writes definitions, each given as its kind and payload.
    pub fn definitions(&mut self, definitions: &[(u8, Payload)]) -> io::Result<()> {
        self.payload.clear();
        for (kind, payload) in definitions {
            let bytes = payload.as_bytes();
            let start = self.payload.len();
            self.payload
                .extend_from_slice(&definition::commit_word(*kind, bytes).to_le_bytes());
            self.payload.extend_from_slice(bytes);
            self.payload
                .resize(start + definition::framed_bytes(bytes.len()), 0);
        }
        let position = self.definitions_position;
        self.definitions_position += self.payload.len() as u32;
        self.frame(FrameKind::Definitions, position)
    }

    /// Writes records of several lanes as one frame. Each entry has a lane, a thread ID and records in the order in
    /// which they were left. A lane must not occur twice.
    pub fn records(&mut self, lanes: &[(u32, u32, &[Record])]) -> io::Result<()> {
        let mut groups = Vec::new();
        for &(lane, thread_id, records) in lanes {
            if self.ordinals.len() <= lane as usize {
                self.ordinals.resize(lane as usize + 1, 0);
            }
            for part in records.chunks(RECORDS_PER_CHUNK) {
                let ordinal = self.ordinals[lane as usize];
                self.ordinals[lane as usize] += 1;
                groups.push(Group {
                    lane,
                    thread_id,
                    ordinal,
                    // Offline there are no chunks to recycle, so each group gets a unique chunk and generation.
                    chunk: lane,
                    generation: ordinal as u32 + 1,
                    first: 0,
                    records: part.to_vec(),
                });
            }
        }
        self.groups(&groups)
    }

    /// Writes a watermark: every record that was left before `ticks` has been written.
    pub fn watermark(&mut self, ticks: u64) -> io::Result<()> {
        self.payload.clear();
        self.payload.extend_from_slice(&ticks.to_le_bytes());
        self.frame(FrameKind::Watermark, 0)
    }

    /// Writes calibrations.
    pub fn calibrations(&mut self, entries: &[Calibration]) -> io::Result<()> {
        self.payload.clear();
        for entry in entries {
            self.payload.extend_from_slice(&entry.to_bytes());
        }
        self.frame(FrameKind::Calibrations, 0)
    }

    /// Writes the loss counts so far.
    pub fn losses(&mut self, losses: &[Loss]) -> io::Result<()> {
        self.payload = recorder::losses_payload(losses);
        self.frame(FrameKind::Losses, 0)
    }

    /// Writes packed groups unchanged, for a log that is completed from its live area.
    pub fn groups(&mut self, groups: &[Group]) -> io::Result<()> {
        self.payload.clear();
        codec::encode(groups, 0, &mut self.payload);
        self.frame(FrameKind::Records, 0)
    }

    /// Writes calls in progress: lane, thread ID and record.
    pub fn in_flight(&mut self, calls: &[(u32, u32, Record)]) -> io::Result<()> {
        self.payload.clear();
        for (lane, thread_id, record) in calls {
            recorder::put_in_flight(*lane, *thread_id, record, &mut self.payload);
        }
        self.frame(FrameKind::InFlight, 0)
    }

    /// Writes the end frame, which marks the log as complete, and returns the inner writer.
    pub fn end(mut self) -> io::Result<W> {
        self.payload.clear();
        self.frame(FrameKind::End, 0)?;
        self.out.flush()?;
        Ok(self.out)
    }
}
