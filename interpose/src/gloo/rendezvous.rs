//! The rendezvous of a Gloo context. Its members meet in a store, and the values that they read there identify the
//! communicator.
//!
//! The store's prefix alone is no identity. Every group's innermost prefix is "0", and keys are reused after a
//! re-initialisation. Rank 0's address blob is new each time, and every member reads it.

use super::memory::{StringLayout, read, vector_bytes};
use crate::core::communicators;
use crate::core::communicators::Identity;
use crate::core::hash::Hash128;
use crate::core::life;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::lanes::{Lane, LaneSet};
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
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn connect_by_reference(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { connect(real, arguments, true) }
}

/// Hook of `connectFullMesh(shared_ptr<Store>, shared_ptr<Device>&)`: PyTorch 2.15. It records one blocking call and
/// defines the communicator. Every member reads every key, including its own. With lazy connections no member reads
/// any.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn connect_by_shared_pointer(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { connect(real, arguments, false) }
}

/// Calls the real function, records the call, and defines the communicator.
///
/// # Safety
/// `real` and `arguments` must be a `connectFullMesh`'s.
unsafe fn connect(real: usize, arguments: &Narrow, own_blob_counts: bool) -> usize {
    if !life::is_on() {
        // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
        // unchanged.
        return unsafe { arguments.call(real) };
    }
    let thread = thread::state();
    let mut frame = ConnectFrame::new();
    let mut record = Record {
        operation: Operation::Connect as u8,
        enter_ticks: ticks(),
        ..Record::new(RecordKind::Call)
    };
    record.flags |= FLAG_FAILED;
    // If a member never arrives, the others wait here. They must be visible while they wait.
    let in_flight = life::lane(thread);
    if let Some((set, lane)) = in_flight {
        lane.enter(set, &record);
    }
    let before = thread.connect.replace((&raw mut frame).cast());
    let ending = Ending {
        thread,
        before,
        record: &raw mut record,
        in_flight,
    };
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let result = unsafe { arguments.call(real) };
    thread.connect.set(before);
    ending.leave();
    std::mem::forget(ending);
    record.leave_ticks = ticks();
    record.flags &= !FLAG_FAILED;
    name(arguments[0], &frame, own_blob_counts);
    // A job's first communicator takes milliseconds anyway. From here on, no operation is lost because the recorder is
    // still starting.
    life::wait_for_start();
    if let Some(entry) = context_of(arguments[0]).and_then(communicators::find) {
        record.communicator = entry.index();
    }
    life::commit(thread, &record);
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
    in_flight: Option<(&'static LaneSet, &'static Lane)>,
}

impl Ending {
    fn leave(&self) {
        if let Some((set, lane)) = self.in_flight
            && life::same_life(self.thread)
        {
            lane.leave(set);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.thread.connect.set(self.before);
        self.leave();
        // SAFETY: the pointer is to the record in the frame of `connect`. That frame still exists, because it is being
        // unwound and owns this value. `connect` itself does not use the record any more.
        let record = unsafe { &mut *self.record };
        record.leave_ticks = ticks();
        life::commit(self.thread, record);
    }
}

/// Returns the frame of the rendezvous in progress on this thread.
///
/// # Safety
/// The reference must not be kept across the real function, because that creates other references to the frame.
unsafe fn frame() -> Option<&'static mut ConnectFrame> {
    // SAFETY: the pointer is null or to a frame further down this thread's stack. That frame is alive until `connect`
    // returns.
    unsafe { thread::state().connect.get().cast::<ConnectFrame>().as_mut() }
}

/// Hook of `set(key, value)` of any store, with new strings. During a rendezvous it keeps the key, and the hash of rank
/// 0's value.
///
/// # Safety
/// `real` and `arguments` must be such a function's.
pub unsafe fn store_set(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { set(real, arguments, StringLayout::New) }
}

/// Hook of `set(key, value)` of any store, with old strings. During a rendezvous it keeps the key, and the hash of rank
/// 0's value.
///
/// # Safety
/// `real` and `arguments` must be such a function's.
pub unsafe fn store_set_old_string(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { set(real, arguments, StringLayout::Old) }
}

/// Calls the real function, and keeps the key and rank 0's blob.
///
/// # Safety
/// `real` and `arguments` must be a store's `set`, of this string layout.
unsafe fn set(real: usize, arguments: &Narrow, strings: StringLayout) -> usize {
    // SAFETY: key and value are references of the caller, which keeps both alive until this hook returns. `arguments`
    // are forwarded unchanged. No reference to the frame is used across the real call.
    unsafe {
        let Some(frame) = frame() else {
            return arguments.call(real);
        };
        let key = strings.bytes(arguments[1]);
        let outermost = frame.depth == 0;
        frame.enter_store(key);
        let leaving = Leaving;
        let result = arguments.call(real);
        drop(leaving);
        if let Some(frame) = self::frame()
            && outermost
            && is_address(key)
        {
            frame.keep_prefix();
            if is_rank_zero(key) {
                frame.set_blob = Some(hash_blob(vector_bytes(arguments[2])));
            }
        }
        result
    }
}

/// Hook of `get(key)` of any store, with new strings; the hidden result is the first argument. During a rendezvous it
/// keeps rank 0's key and the hash of its value.
///
/// # Safety
/// `real` and `arguments` must be such a function's.
pub unsafe fn store_get(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { get(real, arguments, StringLayout::New) }
}

/// Hook of `get(key)` of any store, with old strings. During a rendezvous it keeps rank 0's key and the hash of its
/// value.
///
/// # Safety
/// `real` and `arguments` must be such a function's.
pub unsafe fn store_get_old_string(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { get(real, arguments, StringLayout::Old) }
}

/// Calls the real function, and keeps the key and rank 0's blob.
///
/// # Safety
/// `real` and `arguments` must be a store's `get`, of this string layout.
unsafe fn get(real: usize, arguments: &Narrow, strings: StringLayout) -> usize {
    // SAFETY: as in `set`. After the call the hidden result is a constructed vector, which the caller keeps alive until
    // this hook returns.
    unsafe {
        let Some(frame) = frame() else {
            return arguments.call(real);
        };
        let key = strings.bytes(arguments[2]);
        let outermost = frame.depth == 0;
        frame.enter_store(key);
        let leaving = Leaving;
        let result = arguments.call(real);
        drop(leaving);
        if let Some(frame) = self::frame()
            && outermost
            && is_rank_zero(key)
        {
            frame.keep_prefix();
            frame.got_blob = Some(hash_blob(vector_bytes(arguments[0])));
        }
        result
    }
}

/// Hook of `multi_get(keys)` of any store, with new strings. During a rendezvous it keeps the first key and the hash of
/// its value, if that key is rank 0's.
///
/// # Safety
/// `real` and `arguments` must be such a function's.
pub unsafe fn store_multi_get(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { multi_get(real, arguments, StringLayout::New) }
}

/// Hook of `multi_get(keys)` of any store, with old strings. During a rendezvous it keeps the first key and the hash of
/// its value, if that key is rank 0's.
///
/// # Safety
/// `real` and `arguments` must be such a function's.
pub unsafe fn store_multi_get_old_string(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { multi_get(real, arguments, StringLayout::Old) }
}

/// Calls the real function, and keeps the first key and rank 0's blob.
///
/// # Safety
/// `real` and `arguments` must be a store's `multi_get`, of this string layout.
unsafe fn multi_get(real: usize, arguments: &Narrow, strings: StringLayout) -> usize {
    // SAFETY: as in `get`. Keys and result are vectors of objects, and only the first object is read, if there is one.
    unsafe {
        let Some(frame) = frame() else {
            return arguments.call(real);
        };
        let (first, end): (usize, usize) = (read(arguments[2], 0), read(arguments[2], 8));
        let key: &[u8] = if first != 0 && first + strings.object_bytes() <= end {
            strings.bytes(first)
        } else {
            &[]
        };
        let outermost = frame.depth == 0;
        frame.enter_store(key);
        let leaving = Leaving;
        let result = arguments.call(real);
        drop(leaving);
        if let Some(frame) = self::frame()
            && outermost
            && is_rank_zero(key)
        {
            let (first, end): (usize, usize) = (read(arguments[0], 0), read(arguments[0], 8));
            // The result is a vector of vectors, 24 bytes each.
            if first != 0 && first + 24 <= end {
                frame.keep_prefix();
                frame.got_blob = Some(hash_blob(vector_bytes(first)));
            }
        }
        result
    }
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
    fn keys_of_addresses_are_told_from_others() {
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
