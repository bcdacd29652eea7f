//! Writer of a trace. It encodes packets in the order of the calls into a buffer, and flushes the buffer.

use std::collections::HashMap;
use std::io::Write;

use prost::Message;

use super::args::{self, Arg};
use super::error::Error;
use super::flows::{FlowId, FlowLedger};
use super::intern::{Interner, Kind};
use super::nesting::{DEPTH_LIMIT, Misplaced, OpenSlices};
use super::numbers::Numbers;
use super::proto::{self, builtin_clock, event_type, sequence_flags, sibling_merge};
use super::tracks::{
    CounterId, CounterUnit, ProcessNumbers, ProcessTrack, ThreadTrack, Track, TrackId, TrackOptions,
};
use super::wire::{bytes_field, close, fixed64_field, int_field, open};

/// Size of the buffer at which it is flushed, in bytes.
const FLUSH_AT: usize = 64 * 1024;

/// Maximum number of tracks per shard, so that track IDs do not collide with those of the next shard.
const TRACK_LIMIT: u64 = 1 << 24;

// Field numbers of the packets that are encoded by hand. proto.rs has messages of the same names.
const TRACE_PACKET: u32 = 1;
const PACKET_TIMESTAMP: u32 = 8;
const PACKET_SEQUENCE_ID: u32 = 10;
const PACKET_TRACK_EVENT: u32 = 11;
const PACKET_INTERNED_DATA: u32 = 12;
const PACKET_SEQUENCE_FLAGS: u32 = 13;
const PACKET_FIRST_ON_SEQUENCE: u32 = 87;
const PACKET_MACHINE_ID: u32 = 98;
const EVENT_CATEGORY_IIDS: u32 = 3;
const EVENT_DEBUG_ANNOTATIONS: u32 = 4;
const EVENT_TYPE: u32 = 9;
const EVENT_NAME_IID: u32 = 10;
const EVENT_TRACK_UUID: u32 = 11;
const EVENT_COUNTER_VALUE: u32 = 30;
const EVENT_DOUBLE_COUNTER_VALUE: u32 = 44;
const EVENT_FLOW_IDS: u32 = 47;
const EVENT_TERMINATING_FLOW_IDS: u32 = 48;

/// One moment on the time axis of the trace and on the wall clock: the start of the trace.
#[derive(Debug, Clone, Copy)]
pub struct ClockAnchor {
    /// Time on the axis of all timestamps, in nanoseconds, at or before the first event.
    pub trace_ns: u64,
    /// Wall-clock time at that moment, in nanoseconds since 1970.
    pub realtime_ns: u64,
}

/// Representation of several hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// All processes are on the engine's one machine, with their host as a label. Flows may connect any two of them,
    /// because the engine draws no flows between machines. Equal pids are replaced.
    #[default]
    OneMachine,
    /// Each host except host 0 is a separate machine in the engine. There are no flows between hosts.
    Machines,
}

/// Options of a trace.
#[derive(Debug, Clone)]
pub struct Options {
    /// Representation of several hosts.
    pub hosts: Hosts,
    /// Number of this part of the trace, if several writers write parts in parallel. Part 0 comes first and contains
    /// the clock. The others are appended to it byte for byte. A process belongs to one part.
    pub shard: u16,
    /// Size of the interned strings, with their overhead, at which interning starts again, in bytes.
    pub interned_bytes: usize,
    /// Checks that every flow has its source before its end. This costs a map entry per open flow, which stays forever
    /// for flows that never end. Enabled in debug builds.
    pub check_flows: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            hosts: Hosts::default(),
            shard: 0,
            interned_bytes: 16 << 20,
            check_flows: cfg!(debug_assertions),
        }
    }
}

/// Slice: event with a duration on a track.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slice<'a> {
    /// Start, in nanoseconds.
    pub start_ns: u64,
    /// Duration, in nanoseconds; 0 is kept as a slice without length.
    pub duration_ns: u64,
    /// Displayed name. It is interned, so there should be few different names.
    pub name: &'a str,
    /// Category for filters; interned. Empty for none.
    pub category: &'a str,
    /// Arguments.
    pub args: &'a [Arg<'a>],
    /// Flows that start here or pass through. The engine orders them by time, so no order between tracks is required.
    /// All slices of one instance may name its flow here.
    pub flows: &'a [FlowId],
    /// Flows that end here; see the ordering contract.
    pub ends: &'a [FlowId],
}

/// Event without duration on a track.
#[derive(Debug, Clone, Copy, Default)]
pub struct Instant<'a> {
    /// Time, in nanoseconds.
    pub time_ns: u64,
    /// As for a slice: see [`Slice::name`].
    pub name: &'a str,
    /// As for a slice: see [`Slice::category`].
    pub category: &'a str,
    /// As for a slice: see [`Slice::args`].
    pub args: &'a [Arg<'a>],
    /// As for a slice: see [`Slice::flows`].
    pub flows: &'a [FlowId],
    /// As for a slice: see [`Slice::ends`].
    pub ends: &'a [FlowId],
}

/// Value of a counter. The engine computes with doubles, so integers beyond 2^53 lose their last digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CounterValue {
    /// Integer.
    Int(i64),
    /// Finite floating-point number.
    Double(f64),
}

/// Counts of written items, for comparison with the counts of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Number of slices.
    pub slices: u64,
    /// Number of instants.
    pub instants: u64,
    /// Number of samples of all counters.
    pub counter_values: u64,
    /// Number of rows in the engine's table of arguments, from slices and instants. Each list element counts.
    pub args: u64,
    /// Number of tracks of all kinds: processes, threads, groups, lanes and counters.
    pub tracks: u64,
    /// Number of times that interning started again.
    pub interning_restarts: u64,
    /// Size of the trace, in bytes.
    pub bytes: u64,
}

/// Packet sequence: the events of one machine.
struct Sequence {
    id: u32,
    machine: u32,
    /// True until the first packet with an event.
    first: bool,
    /// True if the next packet with an event must declare that interning starts again.
    cleared: bool,
}

/// Shape of an event.
#[derive(Clone, Copy)]
enum Shape {
    Begin,
    Instant,
}

/// Fields that a slice's start and an instant have in common.
struct Event<'a> {
    shape: Shape,
    time_ns: u64,
    name: &'a str,
    category: &'a str,
    args: &'a [Arg<'a>],
    flows: &'a [FlowId],
    ends: &'a [FlowId],
}

/// Writer of one trace. The documentation of the module defines the required order of events.
///
/// Memory does not grow with the number of events. The writer keeps a buffer of 64 KiB and the interned strings up to
/// [`Options::interned_bytes`]. Per track it keeps the name and the ends of the open slices. Once the strings of a
/// track are interned, writing an event does not allocate.
#[must_use = "a trace is complete only when it is finished"]
pub struct TraceWriter<W: Write> {
    out: W,
    failed: bool,
    buffer: Vec<u8>,
    options: Options,
    anchor: ClockAnchor,
    host_names: HashMap<u32, String>,
    sequences: Vec<Sequence>,
    /// Indices into `sequences`, by machine.
    by_machine: HashMap<u32, usize>,
    tracks: Vec<Track>,
    numbers: Numbers,
    interner: Interner,
    ledger: Option<FlowLedger>,
    written: Written,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace. The output needs no separate buffer.
    ///
    /// # Errors
    /// [`Error::TimeRange`] for an anchor beyond 2^63 ns.
    pub fn new(out: W, anchor: ClockAnchor, options: Options) -> Result<Self, Error> {
        check_time(anchor.trace_ns)?;
        check_time(anchor.realtime_ns)?;
        let mut writer = TraceWriter {
            out,
            failed: false,
            buffer: Vec::with_capacity(2 * FLUSH_AT),
            anchor,
            host_names: HashMap::new(),
            sequences: Vec::new(),
            by_machine: HashMap::new(),
            tracks: Vec::new(),
            numbers: Numbers::new(),
            interner: Interner::new(options.interned_bytes),
            ledger: options.check_flows.then(FlowLedger::default),
            written: Written::default(),
            options,
        };
        if writer.options.shard == 0 {
            let reading = |id, ns| proto::Clock {
                clock_id: Some(id),
                timestamp: Some(ns),
            };
            let snapshot = proto::ClockSnapshot {
                clocks: vec![
                    reading(builtin_clock::BOOTTIME, anchor.trace_ns),
                    reading(builtin_clock::REALTIME, anchor.realtime_ns),
                ],
                primary_trace_clock: Some(builtin_clock::BOOTTIME as i32),
            };
            writer.rare(&proto::TracePacket {
                clock_snapshot: Some(snapshot),
                ..Default::default()
            })?;
        }
        Ok(writer)
    }

    /// Writes attributes of the whole trace, by reversed domain name and key. SQL finds them in `metadata` under
    /// `trace_attribute.KEY` (Perfetto 55 and later).
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::EmptyName`].
    pub fn attributes(&mut self, attributes: &[(&str, &str)]) -> Result<(), Error> {
        if attributes.iter().any(|(key, _)| key.is_empty()) {
            return Err(Error::EmptyName("attribute"));
        }
        let attribute = attributes
            .iter()
            .map(|&(key, value)| proto::Attribute {
                key: Some(key.to_owned()),
                long_value: None,
                string_value: Some(value.to_owned()),
            })
            .collect();
        let trace_attributes = Some(proto::TraceAttributes { attribute });
        self.rare(&proto::TracePacket {
            trace_attributes,
            ..Default::default()
        })
    }

    /// Names a host. Call it before the host's first process. Host 0 is the engine's own machine with both variants of
    /// [`Hosts`].
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::EmptyName`], and [`Error::NumberRange`] beyond 65,534 machines.
    pub fn host(&mut self, host: u32, name: &str) -> Result<(), Error> {
        check_name("host", name)?;
        self.host_names.insert(host, name.to_owned());
        if self.options.hosts == Hosts::Machines {
            let sequence = self.sequence(host)?;
            let system_info = Some(proto::SystemInfo {
                machine_name: Some(name.to_owned()),
            });
            let packet = self.packet_of(sequence);
            self.rare(&proto::TracePacket {
                system_info,
                ..packet
            })?;
        }
        Ok(())
    }

    /// Adds a process. Its track accepts slices of the process as a whole. Most slices belong on threads and tracks
    /// below it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::EmptyName`], [`Error::ZeroId`], [`Error::TimeRange`], [`Error::NumberRange`].
    pub fn process(&mut self, process: &ProcessTrack<'_>) -> Result<TrackId, Error> {
        check_name("process", process.name)?;
        if process.pid == 0 {
            return Err(Error::ZeroId("pid"));
        }
        let start_ns = process.start_ns.unwrap_or(self.anchor.trace_ns);
        check_time(start_ns)?;
        let sequence = self.sequence(process.host)?;
        let machine = self.sequences[sequence].machine;
        let pid = self.numbers.take(machine, u64::from(process.pid));
        let mut labels = Vec::new();
        labels.extend(self.host_names.get(&process.host).cloned());
        if pid != process.pid {
            labels.push(format!("pid {}", process.pid));
        }
        labels.extend(process.labels.iter().map(|&label| label.to_owned()));
        let descriptor = proto::TrackDescriptor {
            process: Some(proto::ProcessDescriptor {
                pid: Some(pid.cast_signed()),
                process_name: Some(process.name.to_owned()),
                process_labels: labels,
            }),
            sibling_order_rank: Some(process.rank),
            ..Default::default()
        };
        let id = self.add(sequence, process.name, start_ns, None, descriptor)?;
        self.tracks[id.0 as usize].process = Some(ProcessNumbers {
            real: process.pid,
            written: pid,
            main_thread: false,
        });
        Ok(id)
    }

    /// Returns the process ID in the trace. It is the real one unless that was already in use.
    #[must_use]
    pub fn pid(&self, process: TrackId) -> Option<u32> {
        self.tracks
            .get(process.0 as usize)?
            .process
            .map(|numbers| numbers.written)
    }

    /// Adds a thread to a process, for its synchronous activity: nested or disjoint slices.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::EmptyName`], [`Error::ZeroId`], [`Error::NumberRange`], [`Error::NotAProcess`].
    pub fn thread(&mut self, process: TrackId, thread: &ThreadTrack<'_>) -> Result<TrackId, Error> {
        check_name("thread", thread.name)?;
        if thread.tid == 0 {
            return Err(Error::ZeroId("tid"));
        }
        let parent = &mut self.tracks[process.0 as usize];
        let sequence = parent.sequence;
        let Some(numbers) = &mut parent.process else {
            return Err(Error::NotAProcess(parent.name.clone()));
        };
        let pid = numbers.written;
        // The main thread has the number of its process, which the process itself already uses.
        let tid = if thread.tid == u64::from(numbers.real) && !numbers.main_thread {
            numbers.main_thread = true;
            pid
        } else {
            self.numbers.take(self.sequences[sequence].machine, thread.tid)
        };
        let descriptor = proto::TrackDescriptor {
            thread: Some(proto::ThreadDescriptor {
                pid: Some(pid.cast_signed()),
                tid: Some(i64::from(tid)),
                thread_name: Some(thread.name.to_owned()),
            }),
            sibling_order_rank: Some(thread.rank),
            ..Default::default()
        };
        self.add(
            sequence,
            thread.name,
            self.anchor.trace_ns,
            Some(process),
            descriptor,
        )
    }

    /// Adds a track under a process, a thread or another track, or at the top of the trace. Tracks directly under a
    /// process or thread are displayed as its siblings. A track in between forces a group. The track is never merged
    /// with others of the same name; [`Lanes`](super::Lanes) are.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::EmptyName`], [`Error::NumberRange`].
    pub fn track(&mut self, parent: Option<TrackId>, options: &TrackOptions<'_>) -> Result<TrackId, Error> {
        self.plain_track(parent, options, sibling_merge::NONE)
    }

    /// Adds a track that is merged with its siblings of the same name.
    pub(super) fn merged_track(
        &mut self,
        parent: Option<TrackId>,
        options: &TrackOptions<'_>,
    ) -> Result<TrackId, Error> {
        self.plain_track(parent, options, sibling_merge::BY_TRACK_NAME)
    }

    fn plain_track(
        &mut self,
        parent: Option<TrackId>,
        options: &TrackOptions<'_>,
        merge: i32,
    ) -> Result<TrackId, Error> {
        check_name("track", options.name)?;
        let sequence = self.sequence_under(parent)?;
        let descriptor = proto::TrackDescriptor {
            name: Some(options.name.to_owned()),
            description: (!options.description.is_empty()).then(|| options.description.to_owned()),
            child_ordering: options.child_order.proto(),
            sibling_order_rank: options.rank,
            sibling_merge_behavior: Some(merge),
            ..Default::default()
        };
        self.add(sequence, options.name, self.anchor.trace_ns, parent, descriptor)
    }

    /// Adds a counter under a process, a thread or another track, or at the top of the trace.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::EmptyName`], [`Error::NumberRange`].
    pub fn counter(
        &mut self,
        parent: Option<TrackId>,
        name: &str,
        unit: CounterUnit<'_>,
    ) -> Result<CounterId, Error> {
        check_name("counter", name)?;
        let sequence = self.sequence_under(parent)?;
        let descriptor = proto::TrackDescriptor {
            name: Some(name.to_owned()),
            counter: Some(unit.proto()),
            sibling_merge_behavior: Some(sibling_merge::NONE),
            ..Default::default()
        };
        self.add(sequence, name, self.anchor.trace_ns, parent, descriptor)
            .map(CounterId)
    }

    /// Writes a slice.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::EmptyName`], [`Error::TimeRange`]; [`Error::OutOfOrder`],
    /// [`Error::Overlap`] and [`Error::TooDeep`] against its predecessors on the track;
    /// [`Error::FlowOrder`] and [`Error::FlowAcrossMachines`] with [`Options::check_flows`].
    pub fn slice(&mut self, track: TrackId, slice: &Slice<'_>) -> Result<(), Error> {
        let &Slice {
            start_ns,
            duration_ns,
            name,
            category,
            args,
            flows,
            ends,
        } = slice;
        check_name("slice", name)?;
        args::check_names(args)?;
        let end_ns = start_ns
            .checked_add(duration_ns)
            .ok_or(Error::TimeRange(start_ns))?;
        check_time(end_ns)?;
        self.check_flows(track, start_ns, flows, ends)?;
        let state = &mut self.tracks[track.0 as usize];
        if let Err(misplaced) = state.open.accept(start_ns, end_ns) {
            return Err(refusal(&state.name, start_ns, end_ns, &misplaced));
        }
        self.note_flows(track, start_ns, flows, ends);
        self.event(
            track,
            &Event {
                shape: Shape::Begin,
                time_ns: start_ns,
                name,
                category,
                args,
                flows,
                ends,
            },
        );
        self.end(track, end_ns);
        self.written.slices += 1;
        self.flush_if_full()
    }

    /// Writes an instant. The instants of a track may be written in any order.
    ///
    /// # Errors
    /// As for [`TraceWriter::slice`], without those that concern the track.
    pub fn instant(&mut self, track: TrackId, instant: &Instant<'_>) -> Result<(), Error> {
        let &Instant {
            time_ns,
            name,
            category,
            args,
            flows,
            ends,
        } = instant;
        check_name("instant", name)?;
        args::check_names(args)?;
        check_time(time_ns)?;
        self.check_flows(track, time_ns, flows, ends)?;
        self.note_flows(track, time_ns, flows, ends);
        self.event(
            track,
            &Event {
                shape: Shape::Instant,
                time_ns,
                name,
                category,
                args,
                flows,
                ends,
            },
        );
        self.written.instants += 1;
        self.flush_if_full()
    }

    /// Writes the value of a counter from `time_ns` on. The values of a counter may be written in any order.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::TimeRange`], [`Error::NotFinite`].
    pub fn counter_value(
        &mut self,
        counter: CounterId,
        time_ns: u64,
        value: CounterValue,
    ) -> Result<(), Error> {
        check_time(time_ns)?;
        let Track {
            uuid,
            sequence,
            ref name,
            ..
        } = self.tracks[counter.0.0 as usize];
        if let CounterValue::Double(value) = value
            && !value.is_finite()
        {
            return Err(Error::NotFinite {
                track: name.clone(),
                time_ns,
                value,
            });
        }
        let buffer = &mut self.buffer;
        let packet = open(buffer, TRACE_PACKET, 1);
        self.sequences[sequence].head(buffer, time_ns);
        let event = open(buffer, PACKET_TRACK_EVENT, 1);
        int_field(buffer, EVENT_TYPE, event_type::COUNTER as u64);
        int_field(buffer, EVENT_TRACK_UUID, uuid);
        match value {
            CounterValue::Int(value) => int_field(buffer, EVENT_COUNTER_VALUE, value.cast_unsigned()),
            CounterValue::Double(value) => {
                fixed64_field(buffer, EVENT_DOUBLE_COUNTER_VALUE, value.to_bits());
            }
        }
        close(buffer, event);
        close(buffer, packet);
        self.written.counter_values += 1;
        self.flush_if_full()
    }

    /// Returns the counts so far. Bytes in the buffer are included.
    #[must_use]
    pub fn written(&self) -> Written {
        Written {
            bytes: self.written.bytes + self.buffer.len() as u64,
            ..self.written
        }
    }

    /// Writes the rest of the trace and returns the output. Unless the error is [`Error::Io`] or [`Error::Failed`],
    /// everything that was accepted has been written to the output.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FlowWithoutSource`] with [`Options::check_flows`].
    pub fn finish(mut self) -> Result<(W, Written), Error> {
        self.flush()?;
        self.out.flush()?;
        match self.ledger.as_ref().map_or(0, FlowLedger::without_source) {
            0 => Ok((self.out, self.written)),
            count => Err(Error::FlowWithoutSource(count)),
        }
    }

    /// Writes the packet of a slice's start or of an instant.
    fn event(&mut self, track: TrackId, event: &Event<'_>) {
        if self.interner.restart_if_full() {
            self.sequences
                .iter_mut()
                .for_each(|sequence| sequence.cleared = true);
            self.written.interning_restarts += 1;
        }
        let Track { uuid, sequence, .. } = self.tracks[track.0 as usize];
        let TraceWriter { buffer, interner, .. } = self;
        let packet = open(buffer, TRACE_PACKET, 2);
        self.sequences[sequence].head(buffer, event.time_ns);
        // From about the sixth argument on, the length needs two bytes.
        let message = open(
            buffer,
            PACKET_TRACK_EVENT,
            if event.args.len() < 6 { 1 } else { 2 },
        );
        let event_type = match event.shape {
            Shape::Begin => event_type::SLICE_BEGIN,
            Shape::Instant => event_type::INSTANT,
        };
        int_field(buffer, EVENT_TYPE, event_type as u64);
        int_field(buffer, EVENT_TRACK_UUID, uuid);
        if !event.category.is_empty() {
            let iid = interner.iid(Kind::Category, sequence, event.category);
            int_field(buffer, EVENT_CATEGORY_IIDS, iid);
        }
        int_field(
            buffer,
            EVENT_NAME_IID,
            interner.iid(Kind::EventName, sequence, event.name),
        );
        for flow in event.flows {
            fixed64_field(buffer, EVENT_FLOW_IDS, flow.get());
        }
        for flow in event.ends {
            fixed64_field(buffer, EVENT_TERMINATING_FLOW_IDS, flow.get());
        }
        for arg in event.args {
            args::write(buffer, interner, sequence, EVENT_DEBUG_ANNOTATIONS, arg);
            self.written.args += arg.1.leaves();
        }
        close(buffer, message);
        interner.write_pending(buffer, PACKET_INTERNED_DATA);
        close(buffer, packet);
    }

    /// Writes the packet of a slice's end, which closes the innermost slice of its track.
    fn end(&mut self, track: TrackId, time_ns: u64) {
        let Track { uuid, sequence, .. } = self.tracks[track.0 as usize];
        let buffer = &mut self.buffer;
        let packet = open(buffer, TRACE_PACKET, 1);
        self.sequences[sequence].head(buffer, time_ns);
        let message = open(buffer, PACKET_TRACK_EVENT, 1);
        int_field(buffer, EVENT_TYPE, event_type::SLICE_END as u64);
        int_field(buffer, EVENT_TRACK_UUID, uuid);
        close(buffer, message);
        close(buffer, packet);
    }

    fn check_flows(
        &self,
        track: TrackId,
        time_ns: u64,
        flows: &[FlowId],
        ends: &[FlowId],
    ) -> Result<(), Error> {
        self.ledger.as_ref().map_or(Ok(()), |ledger| {
            ledger.check(self.machine_of(track), time_ns, flows, ends)
        })
    }

    fn note_flows(&mut self, track: TrackId, time_ns: u64, flows: &[FlowId], ends: &[FlowId]) {
        let machine = self.machine_of(track);
        if let Some(ledger) = &mut self.ledger {
            ledger.note(machine, time_ns, flows, ends);
        }
    }

    fn machine_of(&self, track: TrackId) -> u32 {
        self.sequences[self.tracks[track.0 as usize].sequence].machine
    }

    /// Returns the index of the sequence of a host's machine. Creates it, with its packets, at first use.
    fn sequence(&mut self, host: u32) -> Result<usize, Error> {
        let machine = if self.options.hosts == Hosts::Machines {
            host
        } else {
            0
        };
        if let Some(&index) = self.by_machine.get(&machine) {
            return Ok(index);
        }
        let index = self.sequences.len();
        let limit = u64::from(u16::MAX) - 1;
        if index as u64 > limit {
            return Err(Error::NumberRange {
                what: "machine",
                number: index as u64,
                limit,
            });
        }
        let id = u32::from(self.options.shard) << 16 | (index as u32 + 1);
        self.sequences.push(Sequence {
            id,
            machine,
            first: true,
            cleared: true,
        });
        self.by_machine.insert(machine, index);
        // Requests the order by rank for processes and threads, on the root of every machine's tracks.
        let root = proto::TrackDescriptor {
            uuid: Some(0),
            process_ordering: Some(1),
            thread_ordering: Some(1),
            ..Default::default()
        };
        let packet = self.packet_of(index);
        self.rare(&proto::TracePacket {
            track_descriptor: Some(root),
            ..packet
        })?;
        Ok(index)
    }

    fn sequence_under(&mut self, parent: Option<TrackId>) -> Result<usize, Error> {
        match parent {
            Some(parent) => Ok(self.tracks[parent.0 as usize].sequence),
            None => self.sequence(0),
        }
    }

    /// Returns an empty packet for the machine of a sequence. It has no flags, because it uses no interned numbers.
    fn packet_of(&self, sequence: usize) -> proto::TracePacket {
        let Sequence { id, machine, .. } = self.sequences[sequence];
        proto::TracePacket {
            trusted_packet_sequence_id: Some(id),
            machine_id: (machine != 0).then_some(machine),
            ..Default::default()
        }
    }

    /// Declares a track.
    fn add(
        &mut self,
        sequence: usize,
        name: &str,
        time_ns: u64,
        parent: Option<TrackId>,
        descriptor: proto::TrackDescriptor,
    ) -> Result<TrackId, Error> {
        let number = self.tracks.len() as u64 + 1;
        if number >= TRACK_LIMIT {
            return Err(Error::NumberRange {
                what: "track",
                number,
                limit: TRACK_LIMIT - 1,
            });
        }
        let uuid = u64::from(self.options.shard) * TRACK_LIMIT + number;
        let parent_uuid = parent.map(|parent| self.tracks[parent.0 as usize].uuid);
        let descriptor = proto::TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid,
            ..descriptor
        };
        let packet = self.packet_of(sequence);
        self.rare(&proto::TracePacket {
            timestamp: Some(time_ns),
            track_descriptor: Some(descriptor),
            ..packet
        })?;
        self.tracks.push(Track {
            uuid,
            sequence,
            name: name.to_owned(),
            open: OpenSlices::default(),
            process: None,
        });
        self.written.tracks += 1;
        Ok(TrackId(number as u32 - 1))
    }

    /// Writes a packet that is rare enough to be encoded with prost.
    fn rare(&mut self, packet: &proto::TracePacket) -> Result<(), Error> {
        bytes_field(&mut self.buffer, TRACE_PACKET, &packet.encode_to_vec());
        self.flush_if_full()
    }

    #[inline]
    fn flush_if_full(&mut self) -> Result<(), Error> {
        if self.buffer.len() < FLUSH_AT {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        let result = self.out.write_all(&self.buffer);
        self.written.bytes += self.buffer.len() as u64;
        // An unknown part of the buffer was written, and must not be written again.
        self.buffer.clear();
        self.failed = result.is_err();
        Ok(result?)
    }
}

impl Sequence {
    /// Writes the fields with which every packet with an event starts.
    #[inline]
    fn head(&mut self, buffer: &mut Vec<u8>, time_ns: u64) {
        int_field(buffer, PACKET_TIMESTAMP, time_ns);
        int_field(buffer, PACKET_SEQUENCE_ID, u64::from(self.id));
        let mut flags = sequence_flags::NEEDS_INCREMENTAL_STATE;
        if self.cleared {
            flags |= sequence_flags::INCREMENTAL_STATE_CLEARED;
            self.cleared = false;
        }
        int_field(buffer, PACKET_SEQUENCE_FLAGS, u64::from(flags));
        if self.first {
            int_field(buffer, PACKET_FIRST_ON_SEQUENCE, 1);
            self.first = false;
        }
        if self.machine != 0 {
            int_field(buffer, PACKET_MACHINE_ID, u64::from(self.machine));
        }
    }
}

#[inline]
fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        Err(Error::EmptyName(what))
    } else {
        Ok(())
    }
}

#[inline]
fn check_time(ns: u64) -> Result<(), Error> {
    if ns > i64::MAX.cast_unsigned() {
        Err(Error::TimeRange(ns))
    } else {
        Ok(())
    }
}

#[cold]
fn refusal(track: &str, start_ns: u64, end_ns: u64, misplaced: &Misplaced) -> Error {
    let track = track.to_owned();
    match *misplaced {
        Misplaced::Early(previous_ns) => Error::OutOfOrder {
            track,
            start_ns,
            previous_ns,
        },
        Misplaced::SticksOut(open_end_ns) => Error::Overlap {
            track,
            start_ns,
            end_ns,
            open_end_ns,
        },
        Misplaced::TooDeep => Error::TooDeep {
            track,
            start_ns,
            limit: DEPTH_LIMIT,
        },
    }
}
