//! The library's own allocations: only the background thread makes any, and it can wait.
//!
//! Rust ends the process when an allocation fails. Under a limit on address space that would be the job's death by our
//! hand. So a failed allocation is tried again until there is room: recording stands still meanwhile, what finds no
//! place is counted, and the job goes on.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, asked as often as it takes.
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
        // SAFETY: a plain call; an early return only shortens the pause.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

// SAFETY: every method hands its arguments to the system's allocator and returns what that gave.
unsafe impl GlobalAlloc for Patient {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        until_there_is_room(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        until_there_is_room(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise; a failed realloc leaves the old block as it was.
        until_there_is_room(|| unsafe { System.realloc(address, layout, bytes) })
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}
