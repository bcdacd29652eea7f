//! When to do without the times of kernels, because requesting them would harm the job.
//!
//! The host and the device count the works of a channel separately. NCCL's proxy thread waits until the device has
//! reached the host's number, and the end of a communicator waits for the proxy thread. From NCCL 2.29 on, some works
//! advance only the device's count: those of broadcasts with several roots in one group, and the replays of a captured
//! call without a kernel event, such as any broadcast. The kernel event of a later work is complete only 64 works later.
//! If they do not come, `ncclCommDestroy` never returns (NCCL 2.30.7, `tests/host-nccl`; see NVIDIA/nccl#2369).
//!
//! Nothing waits if no later work has a kernel event. So the first broadcast in a group, or the first captured call,
//! ends the request for the rest of the process, before the library sees the call. A graph must not be captured with
//! events either: its replays could not be stopped from requesting them.
//!
//! From NCCL 2.31 on, a thread of the profiler waits instead of the proxy, and the end of a communicator does not wait for
//! it. But then every work without a kernel event advances only the device's count: any broadcast, and works during a
//! pause. Later times are those of other works, and the thread's list of pending events grows without a limit. There, any
//! broadcast and any pause end the request too.
//!
//! Limit: a message that precedes broadcasts in the same group already has its event.

use super::{FIRST_WITH_TIMES, PAUSED, WANTED, event, version as plugin_version, want};
use crate::core::life;
use crate::nccl::version;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::lanes::LaneSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// First version whose device counts works that the host does not count, and then waits.
const FIRST_THAT_WAITS: u32 = 22_900;
/// First version whose device counts all works without an event, and the host none of them.
const FIRST_THAT_COUNTS_EVENTS: u32 = 23_100;

/// Property of the log's header: reason for which kernel times are no longer requested.
const PROPERTY: &str = "source.nccl_kernel_times_ended";

/// Reasons.
const GROUPED_BROADCAST: u8 = 1;
const COPY_AND_PAUSE: u8 = 2;
const CAPTURED: u8 = 3;
const BROADCAST: u8 = 4;
const PAUSE: u8 = 5;

/// Reason for which the request has ended; 0 while it has not.
static ENDED: AtomicU8 = AtomicU8::new(0);
/// True once a rank copied data to itself. The host does not count these works either.
static HAS_COPIED: AtomicBool = AtomicBool::new(false);

/// Returns true if the loaded library reports kernel times and is of this version or a later one. An unknown version counts
/// as one.
fn is_since(first: u32) -> bool {
    let known = version::number();
    plugin_version() >= FIRST_WITH_TIMES && (known == 0 || known >= first)
}

/// Handles a broadcast, before the library does.
#[inline]
pub fn broadcast(is_in_group: bool) {
    if ENDED.load(Ordering::Relaxed) == 0 {
        if is_in_group {
            end(GROUPED_BROADCAST, FIRST_THAT_WAITS);
        } else {
            end(BROADCAST, FIRST_THAT_COUNTS_EVENTS);
        }
    }
}

/// Handles a captured call, before the library does.
#[cold]
pub fn captured() {
    end(CAPTURED, FIRST_THAT_WAITS);
}

/// Handles a copy of a rank to itself. Its work has a time, so nothing waits for it unless no times are requested for a
/// while.
pub fn copied_to_itself() {
    HAS_COPIED.store(true, Ordering::Relaxed);
}

/// Handles the end of a pause.
pub fn resumed() {
    if HAS_COPIED.load(Ordering::Relaxed) {
        end(COPY_AND_PAUSE, FIRST_THAT_WAITS);
    }
    end(PAUSE, FIRST_THAT_COUNTS_EVENTS);
}

#[cold]
fn end(reason: u8, first: u32) {
    if !is_since(first) {
        return;
    }
    let first = ENDED.compare_exchange(0, reason, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err() {
        return;
    }
    WANTED.fetch_and(!(event::KERNEL_CH as i32), Ordering::Relaxed);
    if !PAUSED.load(Ordering::Relaxed) {
        want(WANTED.load(Ordering::Relaxed));
    }
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
    let reason = match ENDED.load(Ordering::Relaxed) {
        GROUPED_BROADCAST => "a broadcast in a group",
        BROADCAST => "a broadcast",
        PAUSE => "a pause",
        CAPTURED => "the capture of a call into a graph",
        COPY_AND_PAUSE => "a pause after a copy of the rank to itself",
        _ => return,
    };
    let payload = Payload::property(PROPERTY, reason.as_bytes());
    set.area.define(KIND_PROPERTY, payload.as_bytes());
}
