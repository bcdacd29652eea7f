//! Buffers that CUPTI writes records into: a pool that is allocated once.
//!
//! CUPTI requests a buffer on a thread of the program and returns it on any thread. The library's CUPTI thread empties
//! it. Nothing here locks or calls CUPTI.
//!
//! CUPTI before 12.9 may crash if it gets no buffer. So a small buffer is allocated if the pool is empty. Its records
//! are counted and discarded when it comes back. Each buffer is a separate allocation: a profiler whose calls bypass
//! the hooks may get one of them, and it frees what it gets.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Size of a buffer in bytes, enough for about five thousand kernels. NVIDIA's guide recommends 1 to 10 MB. Every flush
/// also returns buffers that are only partly filled.
pub const BUFFER_BYTES: usize = 1 << 20;
/// Number of buffers in the pool. Since 13.0 every thread that calls CUDA has a separate buffer.
const BUFFERS: usize = 64;
/// Size in bytes of a buffer that is allocated because the pool is empty, and the maximum number of such buffers.
const SMALL_BYTES: usize = 64 << 10;
const SMALLS: usize = 1024;
const ALIGNMENT: usize = 4096;

/// `state` of a buffer: unused.
const FREE: u32 = 0;
/// `state` of a buffer: CUPTI writes into it.
const OUT: u32 = 1;
/// `state` of a buffer: it came back and waits for the CUPTI thread.
const FILLED: u32 = 2;

struct Buffer {
    address: AtomicPtr<u8>,
    state: AtomicU32,
    /// Position in the order in which buffers came back.
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
/// Addresses of the small buffers that CUPTI has.
static SMALL_OUT: [AtomicPtr<u8>; SMALLS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; SMALLS];
/// Number of small buffers that CUPTI has.
static SMALL: AtomicU32 = AtomicU32::new(0);

/// Owner of a buffer that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The buffer belongs to the pool.
    Pool,
    /// The buffer was allocated because the pool was empty.
    Small,
    /// The buffer does not belong to this library.
    Other,
}

/// A buffer that the CUPTI thread empties. It returns to the pool when this is dropped.
pub struct Filled {
    index: usize,
    /// Start of the buffer.
    pub address: *mut u8,
    /// Number of bytes of complete records.
    pub valid_bytes: usize,
}

impl Drop for Filled {
    fn drop(&mut self) {
        BUFFER[self.index].state.store(FREE, Ordering::Release);
    }
}

/// Uses the program's own allocator, because a profiler that gets one of these buffers by mistake may free it.
fn allocate(bytes: usize) -> *mut u8 {
    let mut address = std::ptr::null_mut();
    // SAFETY: `address` is a local that receives the result. An allocation of this size is mapped separately, and its
    // pages appear when they are written.
    let outcome = unsafe { libc::posix_memalign(&raw mut address, ALIGNMENT, bytes) };
    if outcome == 0 {
        address.cast()
    } else {
        std::ptr::null_mut()
    }
}

/// Allocates the pool, once per process. Returns false if there is not enough memory.
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

/// Returns a buffer that CUPTI can write into, and its size. It is null if there is no memory, or if all small buffers
/// are in use.
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
    // SAFETY: this function allocated the buffer, and no other thread has its address.
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

/// Returns the owner of this buffer.
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

/// Takes back a buffer of the pool that contains this many bytes of records. Returns true if the CUPTI thread should be
/// woken, because an eighth of the pool waits for it.
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

/// Frees a small buffer whose records were counted.
pub fn forget_small(address: *mut u8) {
    let is_it = |place: &&AtomicPtr<u8>| {
        place
            .compare_exchange(address, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    if !address.is_null() && SMALL_OUT.iter().find(is_it).is_some() {
        SMALL.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: `take_small` allocated the buffer, and CUPTI has returned it. Only this thread cleared its entry, so
        // it is freed once.
        unsafe { libc::free(address.cast()) };
    }
}

/// Returns the number of buffers that came back so far. A buffer with a lower ticket is filled, or was emptied.
pub fn tickets() -> u64 {
    TICKETS.load(Ordering::Acquire)
}

/// Returns the filled buffer that came back first, if its ticket is below `end`. It counts as empty as soon as the
/// result is dropped.
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

/// Returns true if a buffer waits for the CUPTI thread.
pub fn has_filled() -> bool {
    BUFFER
        .iter()
        .any(|buffer| buffer.state.load(Ordering::Acquire) == FILLED)
}

/// Returns the number of buffers that CUPTI has.
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
