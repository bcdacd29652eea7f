//! Ends the request for kernel times where it could harm the job.
//!
//! NCCL's host and the device number the works of each channel separately. A kernel event is complete when the device
//! reaches the host's number. NCCL's proxy thread waits for it, and `ncclCommDestroy` waits for the proxy thread.
//!
//! From NCCL 2.29 on, the device writes its number only for works with a kernel event, and some works advance only the
//! device's number:
//!
//! - broadcasts with several roots in one group
//! - replays of a captured call without a kernel event, such as any broadcast
//! - copies of a rank to itself, as in an all-to-all. The device writes their numbers, so they alone only shift the times,
//!   which the reader leaves out. But then a later broadcast gets a number that the device never writes. The event of a
//!   later call waits for it
//!
//! After them, an event waits for 64 further works. If these do not come, `ncclCommDestroy` never returns (seen with NCCL
//! 2.30.7 in `tests/host-nccl`; NVIDIA/nccl#2369 describes the wrong times). Nothing waits if no later work has a kernel
//! event. So one of these calls ends the request: a broadcast in a group, a broadcast after a copy to itself, a captured
//! call. It ends for the rest of the process, before the library sees the call. Graphs must not contain events either,
//! because nothing stops their replays.
//!
//! From NCCL 2.31 on, a separate thread waits, and `ncclCommDestroy` does not wait for it (known from the source). But all
//! works without a kernel event advance only the device's number: any broadcast, and works during a pause. Later events
//! report times of other works, and the list of waiting events grows without a limit.
//!
//! Before 2.29, a call that is captured while no events are requested advances only the host's number.
//!
//! Calls that bypass the hooks reach the plugin only after the library has decided about their events. From 2.29 on they
//! end the request, too.
//!
//! Limit: a message that precedes broadcasts in the same group already has its event.

use super::{FIRST_WITH_TIMES, PAUSED, apply_request, event, version as plugin_version};
use crate::core::life;
use crate::nccl::version;
use rankscope_ranklog::Operation;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::lanes::LaneSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// First version whose events may never complete.
const FIRST_THAT_WAITS: u32 = 22_900;
/// First version whose host numbers only works with an event.
const FIRST_THAT_NUMBERS_EVENTS: u32 = 23_100;
/// Every version.
const ANY: u32 = 0;

/// Property of the log's header: reason for which kernel times are no longer requested.
const PROPERTY: &str = "source.nccl_kernel_times_ended";

/// Reason for which the request has ended.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Reason {
    GroupedBroadcast = 1,
    Broadcast,
    Captured,
    Paused,
    Bypassed,
    BroadcastAfterCopy,
}

impl Reason {
    const ALL: [Self; 6] = [
        Self::GroupedBroadcast,
        Self::Broadcast,
        Self::Captured,
        Self::Paused,
        Self::Bypassed,
        Self::BroadcastAfterCopy,
    ];

    /// Returns the event after which kernel times are no longer requested.
    const fn text(self) -> &'static str {
        match self {
            Self::GroupedBroadcast => "a broadcast in a group",
            Self::Broadcast => "a broadcast",
            Self::Captured => "the capture of a call into a graph",
            Self::Paused => "a pause",
            Self::Bypassed => "a call that bypassed the hooks",
            Self::BroadcastAfterCopy => "a broadcast after a copy to itself",
        }
    }
}

/// Number of the reason; 0 while kernel times are requested.
static ENDED: AtomicU8 = AtomicU8::new(0);

/// Whether a call has copied data of a rank to itself.
static HAS_COPIED: AtomicBool = AtomicBool::new(false);

/// Interface version that came with [`FIRST_THAT_WAITS`].
const INTERFACE_OF_WAITING: u32 = 6;

/// Returns true if the loaded library reports kernel times, and its version is `first` or later. If its version is unknown,
/// because all calls bypass the hooks, the plugin's interface decides.
fn is_since(first: u32) -> bool {
    let interface = plugin_version();
    interface >= FIRST_WITH_TIMES
        && match version::number() {
            0 => interface >= INTERFACE_OF_WAITING || first == ANY,
            known => known >= first,
        }
}

/// Returns true if the channels of an operation will report its times. Broadcasts have no kernel events from
/// [`FIRST_THAT_WAITS`] on.
pub fn are_expected(operation: Operation) -> bool {
    let has_events = operation != Operation::Broadcast || !is_since(FIRST_THAT_WAITS);
    has_events && ENDED.load(Ordering::Relaxed) == 0
}

/// Handles a broadcast, before the library does.
#[inline]
pub fn broadcast(is_in_group: bool) {
    if ENDED.load(Ordering::Relaxed) == 0 {
        if is_in_group {
            end(Reason::GroupedBroadcast, FIRST_THAT_WAITS);
        } else if HAS_COPIED.load(Ordering::Relaxed) {
            end(Reason::BroadcastAfterCopy, FIRST_THAT_WAITS);
        } else {
            end(Reason::Broadcast, FIRST_THAT_NUMBERS_EVENTS);
        }
    }
}

/// Handles a call with a copy of the rank to itself, before the library does.
#[inline]
pub fn copied_to_itself() {
    // Most calls find it set. A load leaves the cache line shared between threads.
    if !HAS_COPIED.load(Ordering::Relaxed) {
        HAS_COPIED.store(true, Ordering::Relaxed);
    }
}

/// Handles a captured call, before the library does.
#[cold]
pub fn captured() {
    let first = if PAUSED.load(Ordering::Relaxed) {
        ANY
    } else {
        FIRST_THAT_WAITS
    };
    end(Reason::Captured, first);
}

/// Handles a call that bypassed the hooks.
#[cold]
pub fn bypassed() {
    end(Reason::Bypassed, FIRST_THAT_WAITS);
}

/// Handles the end of a pause.
pub fn resumed() {
    end(Reason::Paused, FIRST_THAT_WAITS);
}

#[cold]
fn end(reason: Reason, first: u32) {
    if !is_since(first) {
        return;
    }
    let before = ENDED.compare_exchange(0, reason as u8, Ordering::Relaxed, Ordering::Relaxed);
    if before.is_err() {
        return;
    }
    apply_request();
    if let Some(set) = life::definitions() {
        define(set);
    }
}

/// Returns the events to request, of `wanted`.
pub fn permitted(wanted: u64) -> u64 {
    if ENDED.load(Ordering::Relaxed) == 0 {
        wanted
    } else {
        wanted & !event::KERNEL_CH
    }
}

/// Writes the reason into the header. Runs also when the recorder is ready.
pub fn define(set: &LaneSet) {
    let ended = ENDED.load(Ordering::Relaxed);
    if let Some(reason) = Reason::ALL.into_iter().find(|&reason| reason as u8 == ended) {
        let payload = Payload::property(PROPERTY, reason.text().as_bytes());
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}
