//! Subset of Perfetto's protobuf messages that rankscope writes, and reads back in its tests.
//!
//! It is written by hand from the field numbers and types of the `.proto` files under `protos/perfetto/` in Perfetto's
//! repository; each message names its file. Only `TrackEvent` and `TrackDescriptor` are declared stable there. Fields
//! that rankscope does not use are left out; protobuf skips them.

/// `trace/trace.proto`: the file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Trace {
    /// Packets. A file may be written, cut and concatenated packet by packet.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// `trace/trace_packet.proto`: one event, descriptor or snapshot.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TracePacket {
    /// Time in the default clock of the trace, in nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Sequence of this packet, not 0. Interned numbers are per sequence.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// Bits of [`sequence_flags`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// Set on the first packet of a sequence.
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
    /// Machine of the packet; absent or 0 for the machine of the trace.
    #[prost(uint32, optional, tag = "98")]
    pub machine_id: Option<u32>,
    /// Definitions that this packet and later ones of its sequence use.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// Defaults for later packets of the sequence.
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    /// Readings of several clocks.
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    /// An event on a track.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Description of a machine.
    #[prost(message, optional, tag = "45")]
    pub system_info: Option<SystemInfo>,
    /// Declaration of a track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    /// Attributes of the trace.
    #[prost(message, optional, tag = "126")]
    pub trace_attributes: Option<TraceAttributes>,
}

/// Values of [`TracePacket::sequence_flags`].
pub mod sequence_flags {
    /// The engine forgets all interned numbers of the sequence before this packet.
    pub const INCREMENTAL_STATE_CLEARED: u32 = 1;
    /// This packet uses interned numbers.
    pub const NEEDS_INCREMENTAL_STATE: u32 = 2;
}

/// `trace/trace_packet_defaults.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TracePacketDefaults {
    /// Default clock of timestamps.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
}

/// `trace/interned_data/interned_data.proto`: definitions of numbers, each counting from 1.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedData {
    /// For [`TrackEvent::category_iids`].
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<InternedString>,
    /// For [`TrackEvent::name_iid`].
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedString>,
    /// For [`DebugAnnotation::name_iid`].
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedString>,
    /// For [`DebugAnnotation::string_value_iid`].
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<InternedString>,
}

/// `EventCategory`, `EventName` (`trace/track_event/track_event.proto`), `DebugAnnotationName`
/// (`trace/track_event/debug_annotation.proto`) and `InternedString` (`trace/profiling/profile_common.proto`). All of
/// them have the same encoding.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedString {
    /// Number, from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// Text.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// `trace/clock_snapshot.proto`: readings of several clocks at one moment.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClockSnapshot {
    /// Readings of the clocks.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    /// Clock of the timeline, a value of [`builtin_clock`].
    #[prost(int32, optional, tag = "2")]
    pub primary_trace_clock: Option<i32>,
}

/// `ClockSnapshot.Clock` in `trace/clock_snapshot.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Clock {
    /// A value of [`builtin_clock`].
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    /// Reading, in nanoseconds.
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// `common/builtin_clock.proto`.
pub mod builtin_clock {
    /// Wall-clock time since 1970.
    pub const REALTIME: u32 = 1;
    /// The engine's default clock.
    pub const BOOTTIME: u32 = 6;
}

/// `common/system_info.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SystemInfo {
    /// Name of the machine (Perfetto 57 and later).
    #[prost(string, optional, tag = "17")]
    pub machine_name: Option<String>,
}

/// `common/trace_attributes.proto`: attributes of the trace, in SQL as metadata `trace_attribute.KEY`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TraceAttributes {
    /// Attributes.
    #[prost(message, repeated, tag = "1")]
    pub attribute: Vec<Attribute>,
}

/// `TraceAttributes.Attribute` in `common/trace_attributes.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Attribute {
    /// Reversed domain name and key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// Integer value; the text is then absent.
    #[prost(int64, optional, tag = "2")]
    pub long_value: Option<i64>,
    /// Text value; the integer is then absent.
    #[prost(string, optional, tag = "3")]
    pub string_value: Option<String>,
}

/// `trace/track_event/track_descriptor.proto`: declaration of a track.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackDescriptor {
    /// ID that is unique in the trace. 0 is the root, on which only the two orderings may be set.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Parent track. It must be declared somewhere, otherwise the events of this track are dropped.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// Displayed name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Help text.
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
    /// Set on the track of a process.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// Set on the track of a thread.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// Set on a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// A value of [`child_ordering`].
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Position among the siblings; lower values come first.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    /// A value of [`sibling_merge`].
    #[prost(int32, optional, tag = "15")]
    pub sibling_merge_behavior: Option<i32>,
    /// 1 orders processes by rank. Only on the root.
    #[prost(int32, optional, tag = "19")]
    pub process_ordering: Option<i32>,
    /// 1 orders threads by rank. Only on the root.
    #[prost(int32, optional, tag = "20")]
    pub thread_ordering: Option<i32>,
}

/// Values of [`TrackDescriptor::child_ordering`].
pub mod child_ordering {
    /// By name.
    pub const LEXICOGRAPHIC: i32 = 1;
    /// By first event.
    pub const CHRONOLOGICAL: i32 = 2;
    /// By rank.
    pub const EXPLICIT: i32 = 3;
}

/// Values of [`TrackDescriptor::sibling_merge_behavior`].
pub mod sibling_merge {
    /// Siblings with the same name are one visual track.
    pub const BY_TRACK_NAME: i32 = 1;
    /// The track is never merged.
    pub const NONE: i32 = 2;
}

/// `trace/track_event/process_descriptor.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessDescriptor {
    /// Process ID, not 0.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Displayed name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
    /// Labels that are displayed beside the name.
    #[prost(string, repeated, tag = "8")]
    pub process_labels: Vec<String>,
}

/// `trace/track_event/thread_descriptor.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ThreadDescriptor {
    /// Process ID of the thread's process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Thread ID, not 0.
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
    /// Displayed name.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// `trace/track_event/counter_descriptor.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CounterDescriptor {
    /// A value of [`counter_unit`].
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
    /// Name of any other unit.
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// Values of [`CounterDescriptor::unit`].
pub mod counter_unit {
    /// Nanoseconds.
    pub const TIME_NS: i32 = 1;
    /// Count.
    pub const COUNT: i32 = 2;
    /// Bytes.
    pub const SIZE_BYTES: i32 = 3;
}

/// `trace/track_event/track_event.proto`: event on a track.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackEvent {
    /// Interned categories.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    /// Arguments.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// A value of [`event_type`].
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Interned name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// ID of the track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Value of a counter, as an integer.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Value of a counter, as a floating-point number.
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
    /// Flows that pass through this event.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Flows that end at this event.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// Values of [`TrackEvent::type`].
pub mod event_type {
    /// Start of a slice.
    pub const SLICE_BEGIN: i32 = 1;
    /// End of the innermost slice of the track.
    pub const SLICE_END: i32 = 2;
    /// Event without duration.
    pub const INSTANT: i32 = 3;
    /// New value of a counter.
    pub const COUNTER: i32 = 4;
}

/// `trace/track_event/debug_annotation.proto`: one argument, with exactly one value set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DebugAnnotation {
    /// Interned name.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// Boolean.
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    /// Unsigned integer.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// Signed integer.
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    /// Floating-point number.
    #[prost(double, optional, tag = "5")]
    pub double_value: Option<f64>,
    /// Text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    /// Address.
    #[prost(uint64, optional, tag = "7")]
    pub pointer_value: Option<u64>,
    /// Nested arguments.
    #[prost(message, repeated, tag = "11")]
    pub dict_entries: Vec<DebugAnnotation>,
    /// List.
    #[prost(message, repeated, tag = "12")]
    pub array_values: Vec<DebugAnnotation>,
    /// Interned text.
    #[prost(uint64, optional, tag = "17")]
    pub string_value_iid: Option<u64>,
}
