//! The library's own allocations. Nearly all of them happen on the library's own threads, which can wait.
//!
//! Rust ends the process when an allocation fails. Under a limit on address space, this library would thereby end the
//! job. A failed allocation is therefore repeated until memory is available. Meanwhile recording stops, records that do
//! not fit are counted, and the job continues.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator; a failed allocation is repeated until it succeeds.
struct Patient;

#[global_allocator]
static ALLOCATOR: Patient = Patient;

fn until_there_is_room(mut attempt: impl FnMut() -> *mut u8) -> *mut u8 {
    loop {
        let address = attempt();
        if !address.is_null() {
            return address;
        }
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        // SAFETY: nanosleep reads a local. An early return only shortens the pause.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

// SAFETY: every method forwards its arguments unchanged to the system's allocator and returns its result.
unsafe impl GlobalAlloc for Patient {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller of this method guarantees what the same method of `System` requires.
        until_there_is_room(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller of this method guarantees what the same method of `System` requires.
        until_there_is_room(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller of this method guarantees what the same method of `System` requires. A failed realloc
        // leaves the old block valid and unchanged, so it can be repeated.
        until_there_is_room(|| unsafe { System.realloc(address, layout, bytes) })
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller of this method guarantees what the same method of `System` requires.
        unsafe { System.dealloc(address, layout) }
    }
}
