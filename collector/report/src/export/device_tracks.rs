//! Tracks for the streams of one rank's devices. Each work is a slice, with an arrow from the call that launched it.

use super::rank_tracks::lanes;
use rankscope_analysis::model::kernel_name;
use rankscope_formats::files;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, StepIndex};
use rankscope_formats::perfetto::{
    Arg, ArgValue, Error, FlowId, Lanes, Slice, TraceWriter, TrackId, TrackOptions,
};
use rankscope_formats::session::{
    DeviceActivity, IdleCause, NameRow, OperationRow, TableError, TableReader, WorkClass, WorkKind, WorkRow,
};
use rankscope_formats::whole_file::WholeFile;
use rankscope_ranklog::Operation;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// Number of recent operations kept to find those of a kernel.
const RECENT: usize = 256;

/// Attributes of an operation that are copied to its communication kernel.
struct Recent {
    enter_ns: i64,
    operation: Operation,
    communicator: Option<CommunicatorId>,
    sequence: u32,
    instance: Option<u64>,
    bytes: Option<u64>,
    peer: Option<MemberIndex>,
    step: Option<StepIndex>,
    exposed_wait_ns: Option<i64>,
}

/// Name of a kernel, short and complete.
struct Name {
    short: String,
    whole: String,
}

/// Device tracks of one rank.
pub struct DeviceTracks {
    rank: u32,
    streams: Vec<(u32, u32)>,
    names: FxHashMap<u32, Name>,
    devices: BTreeMap<u32, TrackId>,
    lanes: BTreeMap<u32, Lanes>,
    recent: VecDeque<Recent>,
}

/// Returns the id of the arrow from a launch to its works.
pub fn flow_of(rank: u32, correlation: u32) -> Option<FlowId> {
    FlowId::new(1 << 63 | u64::from(rank) << 32 | u64::from(correlation))
}

impl DeviceTracks {
    /// Opens the tracks of a rank with recorded activity, and reads its names.
    pub fn open(activity: &DeviceActivity, names: &Path) -> Result<Self, TableError> {
        let mut known = FxHashMap::default();
        if files::may_exist(names) {
            for row in TableReader::<NameRow>::read_all(names)? {
                // Templates produce names of a thousand characters. The complete name is an argument.
                let short = kernel_name::short(&row.name);
                known.insert(
                    row.number,
                    Name {
                        short,
                        whole: row.name,
                    },
                );
            }
        }
        Ok(Self {
            rank: activity.rank,
            streams: activity
                .streams
                .iter()
                .map(|stream| (stream.device, stream.number))
                .collect(),
            names: known,
            devices: BTreeMap::new(),
            lanes: BTreeMap::new(),
            recent: VecDeque::new(),
        })
    }

    /// Remembers an operation that ran on the device: its kernels may follow.
    pub fn remember(&mut self, row: &OperationRow) {
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent {
            enter_ns: row.enter_ns,
            operation: row.operation,
            communicator: row.communicator,
            sequence: row.sequence,
            instance: row.instance,
            bytes: row.bytes,
            peer: row.peer,
            step: row.step,
            exposed_wait_ns: row.exposed_wait_ns,
        });
    }

    /// Returns the lanes of a stream, under the track of its device.
    fn lanes_of(
        &mut self,
        writer: &mut TraceWriter<WholeFile>,
        process: TrackId,
        stream: Option<u32>,
    ) -> Result<&mut Lanes, Error> {
        let stream = stream.unwrap_or(u32::MAX);
        let (device, number) = self
            .streams
            .get(stream as usize)
            .copied()
            .unwrap_or((0, u32::MAX));
        let parent = match self.devices.get(&device) {
            Some(&known) => known,
            None => {
                let name = format!("GPU {device}");
                let options = TrackOptions {
                    name: &name,
                    ..TrackOptions::default()
                };
                let track = writer.track(Some(process), &options)?;
                *self.devices.entry(device).or_insert(track)
            }
        };
        Ok(self.lanes.entry(stream).or_insert_with(|| {
            let name = if number == u32::MAX {
                "unknown stream".to_owned()
            } else {
                format!("stream {number}")
            };
            lanes(parent, &name)
        }))
    }

    /// Writes a work that starts at `start_ns` of the trace.
    pub fn work(
        &mut self,
        writer: &mut TraceWriter<WholeFile>,
        process: TrackId,
        row: &WorkRow,
        start_ns: u64,
        duration_ns: u64,
    ) -> Result<(), Error> {
        let track = self
            .lanes_of(writer, process, row.stream)?
            .place(writer, start_ns, duration_ns)?;
        let known = row.name.and_then(|name| self.names.get(&name));
        let name = match row.kind {
            WorkKind::Kernel => known.map_or("kernel", |name| name.short.as_str()),
            kind => kind.name(),
        };
        let grid = [row.grid_x, row.grid_y, row.grid_z].map(|size| ArgValue::Uint(u64::from(size)));
        let block = [row.block_x, row.block_y, row.block_z].map(|size| ArgValue::Uint(u64::from(size)));
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(20);
        if let Some(known) = known
            && known.whole != known.short
        {
            args.push(("kernel", ArgValue::Str(&known.whole)));
        }
        args.push(("correlation", ArgValue::Uint(u64::from(row.correlation))));
        if row.kind == WorkKind::Kernel {
            args.push(("grid", ArgValue::List(&grid)));
            args.push(("block", ArgValue::List(&block)));
        }
        if let Some(bytes) = row.bytes {
            args.push(("bytes", ArgValue::Uint(bytes)));
        }
        if let Some(node) = row.graph_node {
            args.push(("graph_node", ArgValue::Uint(node)));
        }
        if let Some(launched_ns) = row.launch_start_ns {
            args.push(("launched_before_ns", ArgValue::Int(row.start_ns - launched_ns)));
        }
        if row.idle_cause != IdleCause::None {
            args.push(("idle_before_ns", ArgValue::Int(row.idle_ns)));
            args.push(("idle_cause", ArgValue::Str(row.idle_cause.name())));
        }
        if row.class == WorkClass::Communication {
            of_operations(&self.recent, row, &mut args);
        }
        let flow = row
            .launch_start_ns
            .and_then(|_| flow_of(self.rank, row.correlation));
        writer.slice(
            track,
            &Slice {
                start_ns,
                duration_ns,
                name,
                category: row.class.name(),
                args: &args,
                flows: flow.as_slice(),
                ..Slice::default()
            },
        )
    }
}

/// Adds the attributes of a kernel's operations. These operations start together with the kernel.
fn of_operations<'a>(recent: &'a VecDeque<Recent>, row: &WorkRow, args: &mut Vec<Arg<'a>>) {
    let mut own = recent
        .iter()
        .filter(|operation| operation.enter_ns == row.start_ns);
    let Some(first) = own.next() else {
        if row.operation != Operation::Unknown {
            args.push(("operation", ArgValue::Str(row.operation.name())));
        }
        return;
    };
    let (others, bytes) = own.fold((0, first.bytes), |(count, bytes), operation| {
        let sum = bytes.zip(operation.bytes).map(|(one, other)| one + other);
        (count + 1, sum)
    });
    args.push(("operation", ArgValue::Str(first.operation.name())));
    if others > 0 {
        args.push(("operations", ArgValue::Uint(others + 1)));
    }
    for (name, value) in [
        ("communicator", first.communicator.map(u64::from)),
        ("sequence", Some(u64::from(first.sequence))),
        ("instance", first.instance),
        ("operation_bytes", bytes),
        ("peer", first.peer.map(u64::from)),
        ("step", first.step.map(u64::from)),
    ] {
        if let Some(value) = value {
            args.push((name, ArgValue::Uint(value)));
        }
    }
    if let Some(wait) = first.exposed_wait_ns {
        args.push(("exposed_wait_ns", ArgValue::Int(wait)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_of_ranks_differ_from_each_other_and_from_those_of_instances() {
        let flow = |rank, correlation| flow_of(rank, correlation).map(FlowId::get);
        assert_ne!(flow(0, 7), flow(1, 7));
        assert!(flow(0, 0).is_some_and(|flow| flow >= 1 << 63));
    }
}
