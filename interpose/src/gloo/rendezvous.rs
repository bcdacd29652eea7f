//! The rendezvous of a Gloo context. Its members meet in a store, and the values that they read there identify the
//! communicator.
//!
//! The store's prefix alone is no identity. Every group's innermost prefix is "0", and keys are reused after a
//! re-initialisation. Rank 0's address blob is new each time, and every member reads it.

use crate::core::communicators;
use crate::core::communicators::Identity;
use crate::core::hash::Hash128;
use crate::core::held_lane::HeldLane;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::{Arguments, Narrow, Object};
use crate::thread;
use crate::thread::ThreadState;
use rankscope_gloo_abi::memory::{StringLayout, read, vector_bytes};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

const KEY_BYTES: usize = 512;

/// State of a rendezvous so far. It is on the stack of the hook of `connectFullMesh`.
pub struct ConnectFrame {
    /// Nesting depth of store calls, because a prefix store calls the store that it wraps.
    depth: u32,
    /// Key of the store call in progress, as the innermost store sees it.
    key: [u8; KEY_BYTES],
    key_bytes: usize,
    /// The innermost key of a member's own blob without its last component. All members share it.
    prefix: [u8; KEY_BYTES],
    prefix_bytes: Option<usize>,
    /// Rank 0's blob as this member set it, and as this member read it.
    set_blob: Option<[u8; 16]>,
    got_blob: Option<[u8; 16]>,
}

impl ConnectFrame {
    const fn new() -> Self {
        Self {
            depth: 0,
            key: [0; KEY_BYTES],
            key_bytes: 0,
            prefix: [0; KEY_BYTES],
            prefix_bytes: None,
            set_blob: None,
            got_blob: None,
        }
    }

    fn enter_store(&mut self, key: &[u8]) {
        self.depth += 1;
        // The innermost store is called last, with the whole key.
        self.key_bytes = key.len().min(KEY_BYTES);
        self.key[..self.key_bytes].copy_from_slice(&key[..self.key_bytes]);
    }

    fn leave_store(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Keeps the part of the innermost key that all members share.
    fn keep_prefix(&mut self) {
        let key = &self.key[..self.key_bytes];
        let shared = key.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        self.prefix[..shared].copy_from_slice(&key[..shared]);
        self.prefix_bytes = Some(shared);
    }
}

/// Returns true if a key names rank 0's address blob: its last component is "0".
fn is_rank_zero(key: &[u8]) -> bool {
    key == b"0" || key.ends_with(b"/0")
}

/// Returns true if a key names the address blob of any member: its last component is a number.
fn is_address(key: &[u8]) -> bool {
    let last = key.rsplit(|&byte| byte == b'/').next().unwrap_or(key);
    !last.is_empty() && last.iter().all(u8::is_ascii_digit)
}

fn hash_blob(blob: &[u8]) -> [u8; 16] {
    Hash128::new().add(blob).finish()
}

/// Hook of `connectFullMesh(Store&, shared_ptr<Device>&)`: PyTorch 2.4, libgloo 0.5. It records one blocking call and
/// defines the communicator. In these versions rank 0 never reads its own key.
pub fn connect_by_reference(call: RealCall<'_, Narrow>) -> Returned {
    connect(call, true)
}

/// Hook of `connectFullMesh(shared_ptr<Store>, shared_ptr<Device>&)`: PyTorch 2.15. It records one blocking call and
/// defines the communicator. Every member reads every key, including its own. With lazy connections no member reads
/// any.
pub fn connect_by_shared_pointer(call: RealCall<'_, Narrow>) -> Returned {
    connect(call, false)
}

/// Calls the real function, records the call, and defines the communicator.
fn connect(call: RealCall<'_, Narrow>, own_blob_counts: bool) -> Returned {
    if !life::is_on() {
        return call.forward();
    }
    let [context, ..] = *call.arguments();
    let thread = thread::state();
    let mut frame = ConnectFrame::new();
    let mut record = Record {
        operation: Operation::Connect as u8,
        enter_ticks: ticks(),
        ..Record::new(RecordKind::Call)
    };
    record.flags |= FLAG_FAILED;
    // If a member never arrives, the others wait here. They must be visible while they wait.
    let lane = HeldLane::enter(&thread.lane, &record);
    let before = thread.gloo.connect.replace((&raw mut frame).cast());
    let ending = Ending {
        thread,
        before,
        record: &raw mut record,
        lane,
    };
    let result = call.forward();
    thread.gloo.connect.set(before);
    std::mem::forget(ending);
    record.leave_ticks = ticks();
    record.flags &= !FLAG_FAILED;
    name(context, &frame, own_blob_counts);
    // A job's first communicator takes milliseconds anyway. From here on, no operation is lost because the recorder is
    // still starting.
    life::wait_for_start();
    if let Some(entry) = context_of(context).and_then(communicators::find) {
        record.communicator = entry.index();
    }
    lane.finish(&thread.lane, &record);
    result
}

/// Returns the pointer that option structs will contain: the rendezvous context itself, or its base eight bytes later.
fn context_of(rendezvous_context: usize) -> Option<usize> {
    [rendezvous_context, rendezvous_context + 8]
        .into_iter()
        .find(|&address| communicators::find(address).is_some())
}

/// Gives a connected context its identity.
fn name(rendezvous_context: usize, frame: &ConnectFrame, own_blob_counts: bool) {
    let Some(address) = context_of(rendezvous_context) else {
        return;
    };
    let Some(entry) = communicators::find(address) else {
        return;
    };
    let prefix = &frame.prefix[..frame.prefix_bytes.unwrap_or(0)];
    let blob = frame
        .got_blob
        .or(if own_blob_counts { frame.set_blob } else { None });
    let size = entry.size();
    let (value, source) = match (frame.prefix_bytes, blob) {
        _ if size == 1 => (alone(prefix), IdentitySource::SelfOnly),
        (Some(_), Some(blob)) => (
            Hash128::new()
                .add(b"gloo")
                .add(prefix)
                .add(&size.to_le_bytes())
                .add(&blob)
                .finish(),
            IdentitySource::KeyAndBlob,
        ),
        (Some(_), None) => (
            // Lazy connections: each member sees only its own key. All members share the prefix and the number of its
            // uses.
            Hash128::new()
                .add(b"gloo lazy")
                .add(prefix)
                .add(&size.to_le_bytes())
                .add(&occurrence(prefix))
                .finish(),
            IdentitySource::Partial,
        ),
        (None, _) => (
            Hash128::new()
                .add(b"gloo unseen")
                .add(&size.to_le_bytes())
                .add(&occurrence(b""))
                .finish(),
            IdentitySource::Ordinal,
        ),
    };
    communicators::define(
        address,
        &Identity {
            value,
            source,
            library: Library::Gloo,
            parent: u32::MAX,
            name: prefix,
        },
    );
}

/// Returns an identity for a communicator with one member. No other process may compute the same one.
fn alone(prefix: &[u8]) -> [u8; 16] {
    // SAFETY: getpid takes no arguments and cannot fail.
    let pid = unsafe { libc::getpid() };
    Hash128::new()
        .add(b"gloo alone")
        .add(prefix)
        .add(&pid.to_le_bytes())
        .add(&ticks().to_le_bytes())
        .finish()
}

/// Returns how often this process has connected under this prefix, including this time. The uses are counted in
/// buckets. Two prefixes in one bucket are counted together; all members do this alike, because they connect in the
/// same order.
fn occurrence(prefix: &[u8]) -> [u8; 4] {
    static COUNTS: [AtomicU32; 256] = [const { AtomicU32::new(0) }; 256];
    let bucket = Hash128::new().add(prefix).finish()[0];
    (COUNTS[usize::from(bucket)].fetch_add(1, Ordering::Relaxed) + 1).to_le_bytes()
}

/// Restores the previous frame if the rendezvous throws, because a peer never arrived, and records the failure.
struct Ending {
    thread: &'static ThreadState,
    before: *mut c_void,
    record: *mut Record,
    lane: HeldLane,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.thread.gloo.connect.set(self.before);
        // SAFETY: the pointer is to the record in the frame of `connect`. That frame still exists, because it is being
        // unwound and owns this value. `connect` itself does not use the record any more.
        let record = unsafe { &mut *self.record };
        record.leave_ticks = ticks();
        self.lane.finish(&self.thread.lane, record);
    }
}

/// Returns the frame of the rendezvous in progress on this thread.
///
/// # Safety
/// The reference must not be kept across the real function, because that creates other references to the frame.
unsafe fn frame() -> Option<&'static mut ConnectFrame> {
    // SAFETY: the pointer is null or to a frame further down this thread's stack. That frame is alive until `connect`
    // returns.
    unsafe { thread::state().gloo.connect.get().cast::<ConnectFrame>().as_mut() }
}

/// Hook of `set(key, value)` of any store, with new strings. During a rendezvous it keeps the key, and the hash of rank
/// 0's value.
pub fn store_set(call: RealCall<'_, Narrow>) -> Returned {
    set(call, StringLayout::New)
}

/// Hook of `set(key, value)` of any store, with old strings. During a rendezvous it keeps the key, and the hash of rank
/// 0's value.
pub fn store_set_old_string(call: RealCall<'_, Narrow>) -> Returned {
    set(call, StringLayout::Old)
}

/// Hook of `set(key, value)` with strings of this layout. It keeps the key and rank 0's blob.
fn set(call: RealCall<'_, Narrow>, strings: StringLayout) -> Returned {
    let [_, key, value, ..] = *call.arguments();
    // SAFETY: the key is a reference of the caller, which keeps it alive until this hook returns.
    let key_of = || unsafe { strings.bytes(key) };
    let (result, key) = forward_in_store(call, key_of);
    if let Some(key) = key
        && is_address(key)
        // SAFETY: the reference is used only in this block, and the real call is over.
        && let Some(frame) = unsafe { frame() }
    {
        frame.keep_prefix();
        if is_rank_zero(key) {
            // SAFETY: the value is a reference of the caller, which keeps it alive until this hook returns.
            frame.set_blob = Some(hash_blob(unsafe { vector_bytes(value) }));
        }
    }
    result
}

/// Calls a store's real function. During a rendezvous, the frame enters the store with this key meanwhile. The key is
/// returned if this was the outermost store, whose result is the member's.
#[inline(always)]
fn forward_in_store<'a>(
    call: RealCall<'_, impl Arguments>,
    key: impl FnOnce() -> &'a [u8],
) -> (Returned, Option<&'a [u8]>) {
    // SAFETY: the reference is last used before the real call.
    let Some(frame) = (unsafe { frame() }) else {
        return (call.forward(), None);
    };
    let key = key();
    let is_outermost = frame.depth == 0;
    frame.enter_store(key);
    let leaving = Leaving;
    let result = call.forward();
    drop(leaving);
    (result, is_outermost.then_some(key))
}

/// Hook of `get(key)` of any store, with new strings; the first word is the address of the result. During a rendezvous it
/// keeps rank 0's key and the hash of its value.
pub fn store_get(call: RealCall<'_, Object>) -> Returned {
    get(call, StringLayout::New)
}

/// Hook of `get(key)` of any store, with old strings. During a rendezvous it keeps rank 0's key and the hash of its
/// value.
pub fn store_get_old_string(call: RealCall<'_, Object>) -> Returned {
    get(call, StringLayout::Old)
}

/// Hook of `get(key)` with strings of this layout. It keeps the key and rank 0's blob.
fn get(call: RealCall<'_, Object>, strings: StringLayout) -> Returned {
    let [value, _, key, ..] = call.arguments().0;
    // SAFETY: the key is a reference of the caller, which keeps it alive until this hook returns.
    let key_of = || unsafe { strings.bytes(key) };
    let (result, key) = forward_in_store(call, key_of);
    if key.is_some_and(is_rank_zero)
        // SAFETY: the reference is used only in this block, and the real call is over.
        && let Some(frame) = unsafe { frame() }
    {
        frame.keep_prefix();
        // SAFETY: after the call the hidden result is a constructed vector. The caller keeps it alive until this hook
        // returns.
        frame.got_blob = Some(hash_blob(unsafe { vector_bytes(value) }));
    }
    result
}

/// Hook of `multi_get(keys)` of any store, with new strings. During a rendezvous it keeps the first key and the hash of
/// its value, if that key is rank 0's.
pub fn store_multi_get(call: RealCall<'_, Object>) -> Returned {
    multi_get(call, StringLayout::New)
}

/// Hook of `multi_get(keys)` of any store, with old strings. During a rendezvous it keeps the first key and the hash of
/// its value, if that key is rank 0's.
pub fn store_multi_get_old_string(call: RealCall<'_, Object>) -> Returned {
    multi_get(call, StringLayout::Old)
}

/// Hook of `multi_get(keys)` with strings of this layout. It keeps the first key and rank 0's blob.
fn multi_get(call: RealCall<'_, Object>, strings: StringLayout) -> Returned {
    let [values, _, keys, ..] = call.arguments().0;
    // SAFETY: the keys are a vector of strings that the caller keeps alive until this hook returns. Only the first is
    // read, if there is one.
    let key_of = || unsafe {
        let (first, end): (usize, usize) = (read(keys, 0), read(keys, 8));
        if first != 0 && first + strings.object_bytes() <= end {
            strings.bytes(first)
        } else {
            &[]
        }
    };
    let (result, key) = forward_in_store(call, key_of);
    if key.is_some_and(is_rank_zero)
        // SAFETY: the reference is used only in this block, and the real call is over.
        && let Some(frame) = unsafe { frame() }
    {
        // SAFETY: after the call the hidden result is a constructed vector of vectors, 24 bytes each. The caller keeps
        // it alive until this hook returns. Only the first is read, if there is one.
        unsafe {
            let (first, end): (usize, usize) = (read(values, 0), read(values, 8));
            if first != 0 && first + 24 <= end {
                frame.keep_prefix();
                frame.got_blob = Some(hash_blob(vector_bytes(first)));
            }
        }
    }
    result
}

/// Leaves a store call, also if it throws.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        // SAFETY: the reference is used only for this call, and not across the real function.
        if let Some(frame) = unsafe { frame() } {
            frame.leave_store();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_addresses_are_distinguished_from_others() {
        assert!(is_rank_zero(b"0") && is_rank_zero(b"default_pg/0//7/0"));
        assert!(!is_rank_zero(b"rank_0") && !is_rank_zero(b"10") && !is_rank_zero(b""));
        assert!(is_address(b"7/12") && !is_address(b"rank_3") && !is_address(b"a/"));
    }

    #[test]
    fn the_innermost_key_without_its_rank_is_kept() {
        let mut frame = ConnectFrame::new();
        frame.enter_store(b"3");
        frame.enter_store(b"0/3");
        frame.enter_store(b"default_pg/0/3");
        for _ in 0..3 {
            frame.leave_store();
        }
        frame.keep_prefix();
        assert_eq!(
            &frame.prefix[..frame.prefix_bytes.expect("kept")],
            b"default_pg/0"
        );
        assert_eq!(frame.depth, 0);
    }
}
