//! Is a stream being captured into a graph? Then a call is a template, and nothing runs.
//!
//! The driver is never loaded by us, and only asked where NCCL has it loaded already. The question is one that is
//! allowed during any capture, and disturbs none (CUDA driver interface, `cuStreamIsCapturing`).

use std::sync::atomic::{AtomicUsize, Ordering};

/// `cuStreamIsCapturing`; 0 while no driver is there.
static ASK: AtomicUsize = AtomicUsize::new(0);

/// `CU_STREAM_CAPTURE_STATUS_NONE`
const NONE: i32 = 0;

/// Looks for the driver: to be called when a communicator is made, which needs it. Cold.
#[cold]
pub fn find_driver() {
    if ASK.load(Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: looks up what is loaded; the handle is kept, for the address is.
    unsafe {
        let handle = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if !handle.is_null() {
            let address = libc::dlsym(handle, c"cuStreamIsCapturing".as_ptr()) as usize;
            ASK.store(address, Ordering::Release);
        }
    }
}

/// True if what is called on this stream now becomes part of a graph.
#[inline]
pub fn is_capturing(stream: usize) -> bool {
    type Ask = unsafe extern "C" fn(usize, *mut i32) -> i32;
    let address = ASK.load(Ordering::Acquire);
    if address == 0 {
        return false;
    }
    let mut status = NONE;
    // SAFETY: the driver's function, which has this signature in every version; the stream is what the program passes
    // to NCCL, which asks the same of it.
    let outcome = unsafe { std::mem::transmute::<usize, Ask>(address)(stream, &raw mut status) };
    // Asked of the legacy stream while another is captured it refuses to answer: that one is not.
    outcome == 0 && status != NONE
}
