//! The buffers that CUPTI writes records into: a pool that is mapped once. CUPTI asks for one on a thread of the program
//! and gives it back on any; our own thread empties it. Nothing here allocates, locks or calls CUPTI.
//!
//! CUPTI before 12.9 may crash where it is handed no buffer. So there is always one: when the pool is empty a small one
//! is mapped, whose records are counted and forgotten when it comes back.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Bytes of a buffer: some five thousand kernels. NVIDIA's guide says 1 to 10 MB; those that are only partly filled are
/// handed out with every flush.
pub const BUFFER_BYTES: usize = 1 << 20;
/// Buffers in the pool. Since 13.0 every thread that calls CUDA has one of its own.
const BUFFERS: usize = 64;
/// Bytes of a buffer that is mapped because the pool is empty.
const SMALL_BYTES: usize = 64 << 10;

/// `state` of a buffer: nobody's.
const FREE: u32 = 0;
/// CUPTI writes into it.
const OUT: u32 = 1;
/// It came back and waits for our thread.
const FILLED: u32 = 2;

struct Buffer {
    state: AtomicU32,
    /// In which order it came back.
    ticket: AtomicU64,
    valid_bytes: AtomicU64,
}

static BUFFER: [Buffer; BUFFERS] = [const {
    Buffer {
        state: AtomicU32::new(FREE),
        ticket: AtomicU64::new(0),
        valid_bytes: AtomicU64::new(0),
    }
}; BUFFERS];

/// Where they lie; null before they are mapped.
static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static TICKETS: AtomicU64 = AtomicU64::new(0);
/// Small ones that are out.
static SMALL: AtomicU32 = AtomicU32::new(0);

/// Whose a buffer is that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One of the pool.
    Pool,
    /// One that was mapped because the pool was empty.
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

fn map(bytes: usize) -> *mut u8 {
    // SAFETY: a fresh anonymous mapping, whose pages come when they are written to.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        std::ptr::null_mut()
    } else {
        address.cast()
    }
}

/// Maps the pool, once per process; false if there is no room.
pub fn make() -> bool {
    if BASE.load(Ordering::Acquire).is_null() {
        BASE.store(map(BUFFERS * BUFFER_BYTES), Ordering::Release);
    }
    !BASE.load(Ordering::Acquire).is_null()
}

/// A buffer for CUPTI to write into, and how large it is; null if there is no memory at all.
pub fn take() -> (*mut u8, usize) {
    let base = BASE.load(Ordering::Acquire);
    if !base.is_null() {
        for (index, buffer) in BUFFER.iter().enumerate() {
            if buffer.state.load(Ordering::Relaxed) == FREE
                && buffer
                    .state
                    .compare_exchange(FREE, OUT, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return (base.wrapping_add(index * BUFFER_BYTES), BUFFER_BYTES);
            }
        }
    }
    let small = map(SMALL_BYTES);
    if !small.is_null() {
        remember_small(small);
    }
    (small, SMALL_BYTES)
}

/// Small buffers that are out, by address: so many at most are told from others' buffers.
static SMALL_OUT: [AtomicPtr<u8>; 64] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 64];

fn remember_small(address: *mut u8) {
    SMALL.fetch_add(1, Ordering::Relaxed);
    for place in &SMALL_OUT {
        if place
            .compare_exchange(std::ptr::null_mut(), address, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
    }
}

fn index_of(address: *mut u8) -> Option<usize> {
    let base = BASE.load(Ordering::Acquire);
    if base.is_null() {
        return None;
    }
    let offset = (address as usize).checked_sub(base as usize)?;
    (offset < BUFFERS * BUFFER_BYTES && offset % BUFFER_BYTES == 0).then_some(offset / BUFFER_BYTES)
}

/// Whose this buffer is.
pub fn owner(address: *mut u8) -> Owner {
    if index_of(address).is_some() {
        return Owner::Pool;
    }
    let is_small = SMALL.load(Ordering::Relaxed) > 0
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
    for place in &SMALL_OUT {
        if place
            .compare_exchange(address, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            SMALL.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: a mapping of `take`, which CUPTI has given back; the place was ours alone to clear.
            unsafe { libc::munmap(address.cast(), SMALL_BYTES) };
            return;
        }
    }
}

/// The buffer that came back first of those that wait for our thread.
pub fn next_filled() -> Option<Filled> {
    let base = BASE.load(Ordering::Acquire);
    let is_filled = |at: &usize| BUFFER[*at].state.load(Ordering::Acquire) == FILLED;
    let index = (0..BUFFERS)
        .filter(is_filled)
        .min_by_key(|&at| BUFFER[at].ticket.load(Ordering::Relaxed))?;
    Some(Filled {
        index,
        address: base.wrapping_add(index * BUFFER_BYTES),
        valid_bytes: BUFFER[index].valid_bytes.load(Ordering::Relaxed) as usize,
    })
}

/// Buffers that CUPTI has.
pub fn outstanding() -> usize {
    let is_out = |buffer: &&Buffer| buffer.state.load(Ordering::Acquire) == OUT;
    BUFFER.iter().filter(is_out).count() + SMALL.load(Ordering::Relaxed) as usize
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
        assert!(!give_back(out[5].0, 10));
        assert!(!give_back(out[2].0, 20));
        assert!(!give_back(out[7].0, 0), "an empty one is free at once");
        let order: Vec<usize> =
            std::iter::from_fn(|| next_filled().map(|filled| filled.valid_bytes)).collect();
        assert_eq!(order, [10, 20]);
        for at in [7, 5, 2] {
            out.swap_remove(at);
        }
        let mut woken = 0;
        for (address, _) in out {
            woken += usize::from(give_back(address, 1));
        }
        assert!(woken > 0);
        while next_filled().is_some() {}
        assert_eq!(outstanding(), 0);
    }
}
