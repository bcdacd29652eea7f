//! The binary interface of NCCL's profiler plugins, versions 1 to 6, as far as this library reads or writes it.
//!
//! Source: `src/include/plugin/nccl_profiler.h` and `src/include/plugin/profiler/profiler_v1.h` to `profiler_v6.h` of
//! NCCL 2.30.7 (Apache-2.0). They were compared with those of the releases that introduced each version: 2.23, 2.24,
//! 2.26, 2.27, 2.28, 2.29. The descriptor of each version contains a kind, the parent's handle, a rank and a union.
//! Versions 2 to 4 each removed some members; versions 5 and 6 only add members.

use std::ffi::{c_char, c_int, c_void};

/// Kinds of events: bits of the mask by which a plugin requests them.
pub mod event {
    /// A collective reached a stream.
    pub const COLL: u64 = 1 << 1;
    /// A message reached a stream.
    pub const P2P: u64 = 1 << 2;
    /// A proxy transfers the data of an operation to or from one peer on one channel.
    pub const PROXY_OP: u64 = 1 << 3;
    /// One step of a proxy operation: at most one buffer of data.
    pub const PROXY_STEP: u64 = 1 << 4;
    /// A channel of the kernel processes an operation.
    pub const KERNEL_CH: u64 = 1 << 6;
    /// The program called a collective.
    pub const COLL_API: u64 = 1 << 9;
    /// The program called a send or a receive, or the library split a collective into them.
    pub const P2P_API: u64 = 1 << 10;
    /// A collective that copy engines execute.
    pub const CE_COLL: u64 = 1 << 12;
}

/// States of events (`ncclProfilerEventState_t`).
pub mod state {
    use std::ffi::c_int;

    /// A send step waits for the device to fill its buffer.
    pub const SEND_GPU_WAIT: c_int = 8;
    /// A send step was passed to the network. Its size is known.
    pub const SEND_WAIT: c_int = 9;
    /// A receive step waits for the network.
    pub const RECV_WAIT: c_int = 10;
    /// A receive step has arrived. Its size is known.
    pub const RECV_FLUSH_WAIT: c_int = 11;
    /// A receive step waits for the device to empty its buffer.
    pub const RECV_GPU_WAIT: c_int = 12;
    /// A send step waits for the peer to offer a buffer (version 4 and later).
    pub const SEND_PEER_WAIT: c_int = 20;
    /// A channel of the kernel has finished.
    pub const KERNEL_CH_STOP: c_int = 22;
}

/// Start of every version's descriptor, from version 5 on.
#[repr(C)]
pub struct Head {
    /// Kind of the event, one of [`event`].
    pub kind: u64,
    /// Handle of the parent event.
    pub parent: *mut c_void,
    /// Rank in the communicator.
    pub rank: c_int,
}

/// Start of the descriptor in versions 1 to 4.
#[repr(C)]
pub struct NarrowHead {
    /// Kind of the event, one of [`event`].
    pub kind: u8,
    /// Handle of the parent event.
    pub parent: *mut c_void,
    /// Rank in the communicator.
    pub rank: c_int,
}

/// A collective, versions 4 to 6. Members that version 5 added follow and are not read.
#[repr(C)]
pub struct Coll4 {
    /// Ordinal of the call among those of this function on this communicator.
    pub number: u64,
    /// `AllReduce`, …
    pub function: *const c_char,
    /// Address of the send buffer.
    pub send: *const c_void,
    /// Address of the receive buffer.
    pub receive: *mut c_void,
    /// Number of elements.
    pub count: usize,
    /// Rank of the root.
    pub root: c_int,
    /// `ncclFloat32`, …
    pub data_type: *const c_char,
    /// Number of channels that process the collective.
    pub channels: u8,
    /// Warps per channel.
    pub warps: u8,
    /// `RING`, `TREE`, …
    pub algorithm: *const c_char,
    /// `LL`, `LL128`, `SIMPLE`.
    pub protocol: *const c_char,
}

/// A message, versions 4 to 6.
#[repr(C)]
pub struct P2p4 {
    /// `Send` or `Recv`.
    pub function: *const c_char,
    /// Address of the buffer.
    pub buffer: *mut c_void,
    /// `ncclFloat32`, …
    pub data_type: *const c_char,
    /// Number of elements.
    pub count: usize,
    /// Rank of the peer.
    pub peer: c_int,
    /// Number of channels that process the message.
    pub channels: u8,
}

/// A collective, version 3.
#[repr(C)]
pub struct Coll3 {
    /// Name of the communicator.
    pub name: *const c_char,
    /// Number of the communicator that is equal on all members.
    pub communicator: u64,
    /// The remaining members, as in version 4.
    pub rest: Coll4,
}

/// A collective, version 2.
#[repr(C)]
pub struct Coll2 {
    /// Name of the communicator.
    pub name: *const c_char,
    /// Number of the communicator that is equal on all members.
    pub communicator: u64,
    /// Ordinal of the call among those of this function on this communicator.
    pub number: u64,
    /// `AllReduce`, …
    pub function: *const c_char,
    /// Address of the send buffer.
    pub send: *const c_void,
    /// Address of the receive buffer.
    pub receive: *mut c_void,
    /// Number of elements.
    pub count: usize,
    /// Rank of the root.
    pub root: c_int,
    /// `ncclFloat32`, …
    pub data_type: *const c_char,
    /// Bytes on the wire.
    pub traffic_bytes: usize,
    /// Maximum number of channels.
    pub channels: u8,
    /// Warps per channel.
    pub warps: u8,
    /// `RING`, `TREE`, …
    pub algorithm: *const c_char,
    /// `LL`, `LL128`, `SIMPLE`.
    pub protocol: *const c_char,
}

/// A collective, version 1: numbers where later versions have names.
#[repr(C)]
pub struct Coll1 {
    /// Name of the communicator.
    pub name: *const c_char,
    /// Number of the communicator that is equal on all members.
    pub communicator: u64,
    /// Ordinal of the call among those of this function on this communicator.
    pub number: u64,
    /// `ncclFunc_t`
    pub function: u8,
    /// Address of the send buffer.
    pub send: *const c_void,
    /// Address of the receive buffer.
    pub receive: *mut c_void,
    /// Number of elements.
    pub count: usize,
    /// Rank of the root.
    pub root: c_int,
    /// `ncclDataType_t`
    pub data_type: u8,
    /// The reduction.
    pub reduction: u32,
    /// Bytes on the wire.
    pub traffic_bytes: usize,
    /// Maximum number of channels.
    pub channels: u8,
    /// Warps per channel.
    pub warps: u8,
    /// `NCCL_ALGO_*`
    pub algorithm: u8,
    /// `NCCL_PROTO_*`
    pub protocol: u8,
}

/// A message, versions 2 and 3.
#[repr(C)]
pub struct P2p2 {
    /// Name of the communicator.
    pub name: *const c_char,
    /// Number of the communicator that is equal on all members.
    pub communicator: u64,
    /// `Send` or `Recv`.
    pub function: *const c_char,
    /// Address of the buffer.
    pub buffer: *mut c_void,
    /// `ncclFloat32`, …
    pub data_type: *const c_char,
    /// Number of elements.
    pub count: usize,
    /// Rank of the peer.
    pub peer: c_int,
}

/// A message, version 1.
#[repr(C)]
pub struct P2p1 {
    /// Name of the communicator.
    pub name: *const c_char,
    /// The same on all members.
    pub communicator: u64,
    /// `ncclFunc_t`
    pub function: u8,
    /// Address of the buffer.
    pub buffer: *mut c_void,
    /// `ncclDataType_t`
    pub data_type: u8,
    /// Number of elements.
    pub count: usize,
    /// Rank of the peer.
    pub peer: c_int,
}

/// A proxy's work for one peer on one channel; equal in all versions.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ProxyOp {
    /// Process that requested the work. The parent's handle is valid only in that process.
    pub pid: i32,
    /// Channel.
    pub channel: u8,
    /// Rank of the peer.
    pub peer: c_int,
    /// Number of steps.
    pub steps: c_int,
    /// Maximum number of bytes per step.
    pub chunk_bytes: c_int,
    /// 1 for a send.
    pub is_send: c_int,
}

/// A call of a collective, versions 5 and 6.
#[repr(C)]
pub struct CollApi {
    /// `AllReduce`, …
    pub function: *const c_char,
    /// Number of elements.
    pub count: usize,
    /// `ncclFloat32`, …
    pub data_type: *const c_char,
    /// Rank of the root.
    pub root: c_int,
    /// The stream.
    pub stream: *mut c_void,
    /// Nonzero if the call becomes part of a graph.
    pub is_captured: u8,
}

/// A call of a send or a receive, versions 5 and 6.
#[repr(C)]
pub struct P2pApi {
    /// `Send` or `Recv`.
    pub function: *const c_char,
    /// Number of elements.
    pub count: usize,
    /// `ncclFloat32`, …
    pub data_type: *const c_char,
    /// The stream.
    pub stream: *mut c_void,
    /// Nonzero if the call becomes part of a graph.
    pub is_captured: u8,
}

/// A collective that copy engines execute, version 6, up to the last member that is read.
#[repr(C)]
pub struct CeColl {
    /// Ordinal of the call among those of this function on this communicator.
    pub number: u64,
    /// `AllReduce`, …
    pub function: *const c_char,
    /// Address of the send buffer.
    pub send: *const c_void,
    /// Address of the receive buffer.
    pub receive: *mut c_void,
    /// Number of elements.
    pub count: usize,
    /// Rank of the root.
    pub root: c_int,
    /// `ncclFloat32`, …
    pub data_type: *const c_char,
}

/// A channel of the kernel, version 4 and later.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct KernelCh {
    /// Channel.
    pub channel: u8,
    /// Reading of the device's `globaltimer`, ns.
    pub timer_ns: u64,
}

/// Descriptor of versions 5 and 6.
#[repr(C)]
pub struct Wide<T> {
    /// Kind, parent and rank.
    pub head: Head,
    /// The member of the union that the kind selects.
    pub what: T,
}

/// Descriptor of versions 1 to 4.
#[repr(C)]
pub struct Narrow<T> {
    /// Kind, parent and rank.
    pub head: NarrowHead,
    /// The member of the union that the kind selects.
    pub what: T,
}

/// `init` of versions 1 to 3.
pub type Init1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
/// `init` of version 4.
pub type Init4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    *const c_void,
) -> c_int;
/// `init` of versions 5 and 6.
pub type Init5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    *const c_void,
) -> c_int;

/// The table of functions to which a version's symbol refers.
#[repr(C)]
pub struct Plugin<I> {
    /// Name of the plugin in the library's log.
    pub name: *const c_char,
    /// Called when a communicator is created.
    pub init: I,
    /// Called when an event starts.
    pub start_event: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const c_void) -> c_int,
    /// Called when an event stops.
    pub stop_event: unsafe extern "C" fn(*mut c_void) -> c_int,
    /// Called when an event changes its state.
    pub record_event_state: unsafe extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int,
    /// Called when a communicator has ended.
    pub finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: the name is a string that lives forever, and the other members are functions. Nothing changes them.
unsafe impl<I> Sync for Plugin<I> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Offsets that gcc computes for NVIDIA's headers (x86-64). tests/tests/nccl_plugin.rs asks the compiler itself.
    #[test]
    fn members_have_the_offsets_of_the_headers() {
        assert_eq!(offset_of!(Wide<Coll4>, what), 24);
        assert_eq!(offset_of!(Narrow<Coll4>, what), 24);
        assert_eq!(offset_of!(Coll4, data_type), 48);
        assert_eq!(offset_of!(Coll4, algorithm), 64);
        assert_eq!(offset_of!(Coll2, channels), 80);
        assert_eq!(offset_of!(Coll1, protocol), 83);
        assert_eq!(offset_of!(KernelCh, timer_ns), 8);
        assert_eq!(offset_of!(ProxyOp, is_send), 20);
    }
}
