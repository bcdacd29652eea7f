//! Completion of a dead process's log from its live area, so that the run directory contains everything.

use super::codec::Group;
use super::layout::RECORDS_PER_CHUNK;
use super::reader::{Ending, OpenError, RankLog};
use super::recorder::{COPIED_PROPERTY, FLIGHT_FROM_PROPERTY};
use super::segment::{self, FrameKind};
use super::{codec, recorder};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Result of [`collect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// The log was already closed. A live area that was left over was removed.
    Nothing,
    /// The process still runs. Its live area stays where it is and is read in place.
    StillRunning,
    /// The live area was appended to the segments and removed.
    Completed,
    /// The live area was not found. Its records are missing.
    Missing,
}

/// Error while collecting a live area. The live area stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The log itself cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The run directory is not writable.
    #[error("cannot complete {path} from its live area (which stays where it is): {source}")]
    Write {
        /// Path of the segment file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The copy cannot be written.
    #[error("cannot copy to {path}: {source}")]
    Copy {
        /// Path of the copy.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
}

/// Appends the records that only the live area has to the segment file, and then removes the live area.
///
/// Repeating it after a crash at any point is safe. A partial append is cut off first. Records are identified by chunk
/// and generation, and a reader takes each of them once.
pub fn collect(path: &Path) -> Result<Collected, CollectError> {
    let log = RankLog::open(path)?;
    let write_error = |source| CollectError::Write {
        path: path.to_path_buf(),
        source,
    };
    match log.ending {
        Ending::Closed => {
            if let Some(live) = log.live_area_left_over() {
                fs::remove_file(live).map_err(write_error)?;
            }
            return Ok(Collected::Nothing);
        }
        Ending::Running => return Ok(Collected::StillRunning),
        Ending::Torn => return Ok(Collected::Missing),
        Ending::LiveArea => {}
    }
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(path)
        .map_err(write_error)?;
    // The launcher and a merge may collect at the same time. The second one waits and finds nothing left to do.
    // SAFETY: a plain call on an open descriptor. It has no effect if locks are not supported.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
    let log = RankLog::open(path)?;
    if log.ending != Ending::LiveArea {
        return Ok(Collected::Nothing);
    }
    let frames = log.live_frames(segment::END_COLLECTED);
    // A torn frame would swallow the first bytes of the frames after it.
    let written = file
        .set_len(log.whole_bytes())
        .and_then(|()| file.write_all(&frames))
        .and_then(|()| file.sync_data());
    if let Err(error) = written {
        let _ = file.set_len(log.whole_bytes());
        return Err(write_error(error));
    }
    if let Some(live) = &log.live_path {
        fs::remove_file(live).map_err(write_error)?;
    }
    Ok(Collected::Completed)
}

/// Writes a complete copy of a log into another directory: its segments, and what only the live area has. The process may
/// go on, and its own log stays as it is. The copy never leads to the live area again.
///
/// Returns `None`, and writes nothing, if the live area is needed and is not on this machine.
pub fn copy(path: &Path, directory: &Path) -> Result<Option<PathBuf>, CollectError> {
    let log = RankLog::open(path)?;
    let copied = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let copied_ns = copied.as_nanos();
    let target = directory.join(path.file_name().unwrap_or_default());
    let write_error = |source| CollectError::Copy {
        path: target.clone(),
        source,
    };
    if log.ending == Ending::Torn {
        return Ok(None);
    }
    let mut segments = Vec::new();
    let whole = File::open(path).and_then(|file| file.take(log.whole_bytes()).read_to_end(&mut segments));
    whole.map_err(write_error)?;
    recorder::put_property(COPIED_PROPERTY, &copied_ns.to_string(), &mut segments);
    match log.ending {
        Ending::Closed | Ending::Torn => {}
        Ending::LiveArea => segments.extend(log.live_frames(segment::END_COLLECTED)),
        Ending::Running => segments.extend(log.live_frames(segment::END_COPIED)),
    }
    // Another process sees the whole copy or none.
    let unfinished = target.with_extension("copying");
    fs::write(&unfinished, segments)
        .and_then(|()| fs::rename(&unfinished, &target))
        .map_err(write_error)?;
    Ok(Some(target))
}

impl RankLog {
    /// Returns the frames that complete the segments: everything in the live area, with the end frame last.
    fn live_frames(&self, end: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut payload = Vec::new();
        if let Some(ticks) = self.flight_from_ticks {
            recorder::put_property(FLIGHT_FROM_PROPERTY, &ticks.to_string(), &mut out);
        }
        let definitions = self.live_definitions();
        if !definitions.is_empty() {
            segment::put_frame(FrameKind::Definitions, 0, definitions, &mut out);
        }
        for entry in &self.calibrations {
            payload.extend_from_slice(&entry.to_bytes());
        }
        segment::put_frame(FrameKind::Calibrations, 0, &payload, &mut out);
        if !self.losses.is_empty() {
            segment::put_frame(
                FrameKind::Losses,
                0,
                &recorder::losses_payload(&self.losses),
                &mut out,
            );
        }
        payload.clear();
        for call in &self.in_flight {
            recorder::put_in_flight(call.lane, call.thread_id, &call.record, &mut payload);
        }
        if !payload.is_empty() {
            segment::put_frame(FrameKind::InFlight, 0, &payload, &mut out);
        }
        let mut groups: Vec<Group> = Vec::new();
        for group in self.live_groups() {
            debug_assert!(group.records.len() <= RECORDS_PER_CHUNK);
            groups.push(group);
        }
        for part in groups.chunks(256) {
            payload.clear();
            codec::encode(part, 0, &mut payload);
            segment::put_frame(FrameKind::Records, 0, &payload, &mut out);
        }
        segment::put_frame(FrameKind::End, end, &[], &mut out);
        out
    }
}
