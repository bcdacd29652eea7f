//! Tracks of one rank, except those of its devices' streams. A track is written when its first slice is.

use rankscope_formats::perfetto::{
    Error, LaneStyle, Lanes, ProcessTrack, Slice, ThreadTrack, TraceWriter, TrackId, TrackOptions,
};
use rankscope_formats::session::{CommunicatorSummary, Rank};
use rankscope_formats::whole_file::WholeFile;
use std::collections::BTreeMap;

/// The process of a rank, and its tracks.
pub struct RankTracks {
    /// The rank.
    pub process: TrackId,
    /// Messages, which may overlap.
    pub messages: Lanes,
    /// Operations on the rank's device.
    pub device: Lanes,
    /// Overhead of the recorder and the driver. It may overlap the calls of its thread, and is not a part of them.
    pub recorder: Lanes,
    threads: BTreeMap<u32, TrackId>,
    /// Parent of the communicators' lanes.
    group: Option<TrackId>,
    communicators: BTreeMap<u32, Lanes>,
}

impl RankTracks {
    /// Writes the process of a rank.
    pub fn new(writer: &mut TraceWriter<WholeFile>, rank: &Rank) -> Result<Self, Error> {
        let process = writer.process(&ProcessTrack {
            pid: rank.pid.max(1),
            name: &rank.name,
            host: rank.host,
            rank: i32::try_from(rank.index).unwrap_or(i32::MAX),
            ..ProcessTrack::default()
        })?;
        Ok(Self {
            process,
            messages: lanes(process, "messages"),
            device: lanes(process, "communication on the device"),
            recorder: lanes(process, "recorder"),
            threads: BTreeMap::new(),
            group: None,
            communicators: BTreeMap::new(),
        })
    }

    /// Writes a track of the process.
    pub fn track(&self, writer: &mut TraceWriter<WholeFile>, name: &str) -> Result<TrackId, Error> {
        let options = TrackOptions {
            name,
            ..TrackOptions::default()
        };
        writer.track(Some(self.process), &options)
    }

    /// Returns the track of a thread.
    pub fn thread(&mut self, writer: &mut TraceWriter<WholeFile>, thread_id: u32) -> Result<TrackId, Error> {
        if let Some(&track) = self.threads.get(&thread_id) {
            return Ok(track);
        }
        let name = format!("thread {thread_id}");
        let rank = self.threads.len() as i32;
        let track = writer.thread(
            self.process,
            &ThreadTrack {
                tid: u64::from(thread_id.max(1)),
                name: &name,
                rank,
            },
        )?;
        self.threads.insert(thread_id, track);
        Ok(track)
    }

    /// Returns the lanes of a communicator.
    pub fn communicator(
        &mut self,
        writer: &mut TraceWriter<WholeFile>,
        communicator: &CommunicatorSummary,
    ) -> Result<&mut Lanes, Error> {
        let group = match self.group {
            Some(group) => group,
            None => *self.group.insert(self.track(writer, "communicators")?),
        };
        Ok(self.communicators.entry(communicator.index).or_insert_with(|| {
            let name = format!(
                "{} {} of {} ({}, {})",
                communicator.library,
                communicator.index,
                communicator.size,
                communicator.role,
                communicator.name
            );
            lanes(group, &name)
        }))
    }
}

/// Returns lanes for slices that may overlap.
pub fn lanes(parent: TrackId, name: &str) -> Lanes {
    let options = TrackOptions {
        name,
        ..TrackOptions::default()
    };
    Lanes::new(Some(parent), &options, LaneStyle::Merged)
}

/// Writes a slice into the first lane that is free.
pub fn slice_in(
    lanes: &mut Lanes,
    writer: &mut TraceWriter<WholeFile>,
    slice: &Slice<'_>,
) -> Result<(), Error> {
    let track = lanes.place(writer, slice.start_ns, slice.duration_ns)?;
    writer.slice(track, slice)
}
