//! The buffers that CUPTI writes records into: a pool that is allocated once. CUPTI asks for one on a thread of the
//! program and gives it back on any; our own thread empties it. Nothing here locks or calls CUPTI.
//!
//! CUPTI before 12.9 may crash where it is handed no buffer. So where the pool is empty a small one is allocated, whose
//! records are counted and forgotten when it comes back. Each is an allocation of its own: a profiler whose calls we do
//! not see may be given one of ours, and frees what it is given.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Bytes of a buffer: some five thousand kernels. NVIDIA's guide says 1 to 10 MB; those that are only partly filled are
/// handed out with every flush.
pub const BUFFER_BYTES: usize = 1 << 20;
/// Buffers in the pool. Since 13.0 every thread that calls CUDA has one of its own.
const BUFFERS: usize = 64;
/// Bytes of a buffer that is allocated because the pool is empty, and how many of them there may be.
const SMALL_BYTES: usize = 64 << 10;
const SMALLS: usize = 1024;
const ALIGNMENT: usize = 4096;

/// `state` of a buffer: nobody's.
const FREE: u32 = 0;
/// CUPTI writes into it.
const OUT: u32 = 1;
/// It came back and waits for our thread.
const FILLED: u32 = 2;

struct Buffer {
    address: AtomicPtr<u8>,
    state: AtomicU32,
    /// In which order it came back.
    ticket: AtomicU64,
    valid_bytes: AtomicU64,
}

static BUFFER: [Buffer; BUFFERS] = [const {
    Buffer {
        address: AtomicPtr::new(std::ptr::null_mut()),
        state: AtomicU32::new(FREE),
        ticket: AtomicU64::new(0),
        valid_bytes: AtomicU64::new(0),
    }
}; BUFFERS];

static TICKETS: AtomicU64 = AtomicU64::new(0);
/// Small ones that are out, by address.
static SMALL_OUT: [AtomicPtr<u8>; SMALLS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; SMALLS];
/// How many.
static SMALL: AtomicU32 = AtomicU32::new(0);

/// Whose a buffer is that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One of the pool.
    Pool,
    /// One that was allocated because the pool was empty.
    Small,
    /// Not ours.
    Other,
}

/// A buffer that our thread empties; it goes back to the pool when this is dropped.
pub struct Filled {
    index: usize,
    /// Where it begins.
    pub address: *mut u8,
    /// Bytes of whole records in it.
    pub valid_bytes: usize,
}

impl Drop for Filled {
    fn drop(&mut self) {
        BUFFER[self.index].state.store(FREE, Ordering::Release);
    }
}

/// The program's own allocator: who is given a buffer of ours by mistake may free it.
fn allocate(bytes: usize) -> *mut u8 {
    let mut address = std::ptr::null_mut();
    // SAFETY: a place of ours; memory of this size is mapped by itself, and its pages come when they are written to.
    let outcome = unsafe { libc::posix_memalign(&raw mut address, ALIGNMENT, bytes) };
    if outcome == 0 {
        address.cast()
    } else {
        std::ptr::null_mut()
    }
}

/// Allocates the pool, once per process; false if there is no room.
pub fn make() -> bool {
    for buffer in &BUFFER {
        if buffer.address.load(Ordering::Acquire).is_null() {
            let fresh = allocate(BUFFER_BYTES);
            if fresh.is_null() {
                return false;
            }
            buffer.address.store(fresh, Ordering::Release);
        }
    }
    true
}

/// A buffer for CUPTI to write into, and how large it is; null if there is no memory at all.
pub fn take() -> (*mut u8, usize) {
    for buffer in &BUFFER {
        let address = buffer.address.load(Ordering::Acquire);
        if !address.is_null()
            && buffer.state.load(Ordering::Relaxed) == FREE
            && buffer
                .state
                .compare_exchange(FREE, OUT, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return (address, BUFFER_BYTES);
        }
    }
    (take_small(), SMALL_BYTES)
}

#[cold]
fn take_small() -> *mut u8 {
    let fresh = allocate(SMALL_BYTES);
    if fresh.is_null() {
        return fresh;
    }
    let is_kept = SMALL_OUT.iter().any(|place| {
        place
            .compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
    if is_kept {
        SMALL.fetch_add(1, Ordering::AcqRel);
        return fresh;
    }
    // SAFETY: allocated above, and nobody else has it.
    unsafe { libc::free(fresh.cast()) };
    std::ptr::null_mut()
}

fn index_of(address: *mut u8) -> Option<usize> {
    let is_it = |buffer: &Buffer| buffer.address.load(Ordering::Acquire) == address;
    if address.is_null() {
        return None;
    }
    BUFFER.iter().position(is_it)
}

/// Whose this buffer is.
pub fn owner(address: *mut u8) -> Owner {
    if index_of(address).is_some() {
        return Owner::Pool;
    }
    let is_small = !address.is_null()
        && SMALL.load(Ordering::Acquire) > 0
        && SMALL_OUT
            .iter()
            .any(|place| place.load(Ordering::Acquire) == address);
    if is_small { Owner::Small } else { Owner::Other }
}

/// A buffer of the pool came back, with so many bytes of records in it. True if our thread should be woken: few are left.
pub fn give_back(address: *mut u8, valid_bytes: usize) -> bool {
    let Some(index) = index_of(address) else {
        return false;
    };
    let buffer = &BUFFER[index];
    if valid_bytes == 0 {
        buffer.state.store(FREE, Ordering::Release);
        return false;
    }
    buffer
        .valid_bytes
        .store(valid_bytes.min(BUFFER_BYTES) as u64, Ordering::Relaxed);
    buffer
        .ticket
        .store(TICKETS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    buffer.state.store(FILLED, Ordering::Release);
    let is_filled = |buffer: &&Buffer| buffer.state.load(Ordering::Relaxed) == FILLED;
    BUFFER.iter().filter(is_filled).count() >= BUFFERS / 8
}

/// Forgets a small buffer, whose records were counted.
pub fn forget_small(address: *mut u8) {
    let is_it = |place: &&AtomicPtr<u8>| {
        place
            .compare_exchange(address, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    if !address.is_null() && SMALL_OUT.iter().find(is_it).is_some() {
        SMALL.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: an allocation of `take_small`, which CUPTI has given back; the place was ours alone to clear.
        unsafe { libc::free(address.cast()) };
    }
}

/// Buffers that came back so far: what has a ticket below it is there, or was emptied.
pub fn tickets() -> u64 {
    TICKETS.load(Ordering::Acquire)
}

/// The buffer that came back first of those that wait for our thread, if it has a ticket below `end`. It is empty as soon
/// as this is dropped.
pub fn next_filled(end: u64) -> Option<Filled> {
    let is_filled = |at: &usize| BUFFER[*at].state.load(Ordering::Acquire) == FILLED;
    let ticket_of = |at: usize| BUFFER[at].ticket.load(Ordering::Relaxed);
    let index = (0..BUFFERS).filter(is_filled).min_by_key(|&at| ticket_of(at))?;
    (ticket_of(index) < end).then(|| Filled {
        index,
        address: BUFFER[index].address.load(Ordering::Relaxed),
        valid_bytes: BUFFER[index].valid_bytes.load(Ordering::Relaxed) as usize,
    })
}

/// True if a buffer waits for our thread.
pub fn has_filled() -> bool {
    BUFFER
        .iter()
        .any(|buffer| buffer.state.load(Ordering::Acquire) == FILLED)
}

/// Buffers that CUPTI has.
pub fn outstanding() -> usize {
    let is_out = |buffer: &&Buffer| buffer.state.load(Ordering::Acquire) == OUT;
    BUFFER.iter().filter(is_out).count() + SMALL.load(Ordering::Acquire) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_in_order_and_there_is_always_one() {
        assert!(make() && make());
        let mut out: Vec<(*mut u8, usize)> = (0..BUFFERS).map(|_| take()).collect();
        assert!(out.iter().all(|&(address, bytes)| {
            bytes == BUFFER_BYTES && (address as usize).is_multiple_of(8) && owner(address) == Owner::Pool
        }));
        let (small, bytes) = take();
        assert_eq!((bytes, owner(small)), (SMALL_BYTES, Owner::Small));
        assert_eq!(outstanding(), BUFFERS + 1);
        forget_small(small);
        assert_eq!((owner(small), outstanding()), (Owner::Other, BUFFERS));
        assert_eq!(owner(out[3].0.wrapping_add(8)), Owner::Other);
        assert_eq!(owner(std::ptr::null_mut()), Owner::Other);
        let many: Vec<*mut u8> = (0..SMALLS + 3).map(|_| take().0).collect();
        assert_eq!(many.iter().filter(|address| address.is_null()).count(), 3);
        for small in many {
            forget_small(small);
        }
        assert_eq!(outstanding(), BUFFERS);
        assert!(!give_back(out[5].0, 10));
        assert!(!give_back(out[2].0, 20));
        assert!(!give_back(out[7].0, 0), "an empty one is free at once");
        let order: Vec<usize> =
            std::iter::from_fn(|| next_filled(u64::MAX).map(|filled| filled.valid_bytes)).collect();
        assert_eq!(order, [10, 20]);
        for at in [7, 5, 2] {
            out.swap_remove(at);
        }
        let mut woken = 0;
        for (address, _) in out {
            woken += usize::from(give_back(address, 1));
        }
        assert!(woken > 0);
        while next_filled(u64::MAX).is_some() {}
        assert_eq!(outstanding(), 0);
    }
}
