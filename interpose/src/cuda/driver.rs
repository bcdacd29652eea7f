//! Functions of the CUDA driver that this library calls. They are looked up in the driver that NCCL has loaded; this
//! library never loads it. RCCL loads HIP instead. From HIP, only the function that queries a stream's capture is used.
//!
//! The signatures are those of the driver interface since CUDA 11.8. If a header maps a plain name to a `_v2` name, the
//! `_v2` is looked up first. A stream or event of the runtime interface is one of the driver's.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// `CUDA_SUCCESS`
pub const SUCCESS: i32 = 0;
/// `CUDA_ERROR_NOT_READY`
pub const NOT_READY: i32 = 600;
/// Result if the loaded driver does not have the function. No driver returns it, because its codes are not negative.
pub const MISSING: i32 = -1;

/// `CU_STREAM_NON_BLOCKING`
pub const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
pub const RELAXED: i32 = 2;
/// Largest handle that means a stream of the current context: null, `CU_STREAM_LEGACY` or `CU_STREAM_PER_THREAD`.
pub const LAST_SPECIAL_STREAM: usize = 2;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $first:literal $(, $second:literal)?;)*) => {
        #[allow(non_camel_case_types, reason = "numbers of the functions, by their names")]
        #[derive(Clone, Copy)]
        enum Number { $($name,)* }

        const NAMES: &[[Option<&CStr>; 2]] = &[$(functions!(@names $first $(, $second)?),)*];

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The driver's own requirements: handles must be alive, and pointers writable.
            #[inline]
            pub unsafe fn $name($($argument: $type),*) -> i32 {
                let address = ADDRESS[Number::$name as usize].load(Ordering::Relaxed);
                if address == 0 {
                    return MISSING;
                }
                // SAFETY: `address` is the driver's function of that name, which has this signature. The caller
                // guarantees the driver's requirements for the arguments.
                unsafe {
                    std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> i32>(address)($($argument),*)
                }
            }
        )*
    };
    (@names $first:literal) => { [Some($first), None] };
    (@names $first:literal, $second:literal) => { [Some($first), Some($second)] };
}

functions! {
    /// Reads the capture status of a stream. Allowed during any capture, and disturbs none.
    stream_is_capturing(stream: usize, status: *mut i32) = c"cuStreamIsCapturing";
    /// Reads the context of a stream; for a special stream, the current context.
    stream_context(stream: usize, context: *mut usize) = c"cuStreamGetCtx";
    /// Creates a stream in the current context.
    stream_create(stream: *mut usize, flags: u32) = c"cuStreamCreate";
    /// Destroys a stream once its work is complete.
    stream_destroy(stream: usize) = c"cuStreamDestroy_v2";
    /// Creates an event in the current context. With flags 0 it records its time.
    event_create(event: *mut usize, flags: u32) = c"cuEventCreate";
    /// Destroys an event once it is complete.
    event_destroy(event: usize) = c"cuEventDestroy_v2";
    /// Records an event on a stream of its context.
    event_record(event: usize, stream: usize) = c"cuEventRecord";
    /// Queries whether an event is complete.
    event_query(event: usize) = c"cuEventQuery";
    /// Reads the milliseconds from one event to another. Both must be complete.
    event_elapsed(ms: *mut f32, start: usize, end: usize) = c"cuEventElapsedTime_v2", c"cuEventElapsedTime";
    /// Reads the current context of the calling thread, 0 if none.
    current_context(context: *mut usize) = c"cuCtxGetCurrent";
    /// Reads the device of the current context.
    current_device(device: *mut i32) = c"cuCtxGetDevice";
    /// Reads the device with an ordinal. Needs no context.
    device_at(device: *mut i32, ordinal: i32) = c"cuDeviceGet";
    /// Reads the name of a device's model. Needs no context.
    device_name(name: *mut c_char, most_bytes: i32, device: i32) = c"cuDeviceGetName";
    /// Reads the PCI address of a device, as text. Needs no context.
    device_address(address: *mut c_char, most_bytes: i32, device: i32) = c"cuDeviceGetPCIBusId";
    /// Reads a number that no other context of the process ever has (since CUDA 12).
    context_id(context: usize, id: *mut u64) = c"cuCtxGetId";
    /// Pushes a context on the thread's stack, which makes it current.
    push_context(context: usize) = c"cuCtxPushCurrent_v2";
    /// Pops the current context.
    pop_context(context: *mut usize) = c"cuCtxPopCurrent_v2";
    /// Reads the newest CUDA version that the driver supports: 1000 × major + 10 × minor.
    driver_version(version: *mut i32) = c"cuDriverGetVersion";
    /// Swaps the calling thread's mode for captures of other threads.
    exchange_capture_mode(mode: *mut i32) = c"cuThreadExchangeStreamCaptureMode";
}

/// Guard: while it lives, calls of this thread disturb no capture of another thread.
pub struct Relaxed {
    before: i32,
}

impl Relaxed {
    /// Sets the mode; `None` if the driver refuses.
    pub fn begin() -> Option<Self> {
        let mut before = RELAXED;
        // SAFETY: `before` is a local.
        let is_done = unsafe { exchange_capture_mode(&raw mut before) } == SUCCESS;
        is_done.then_some(Self { before })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: the pointer is to a field of `self`, which contains the previous mode.
        unsafe { exchange_capture_mode(&raw mut self.before) };
    }
}

static ADDRESS: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
static FOUND: AtomicBool = AtomicBool::new(false);

/// Looks the driver's functions up. Call it when a communicator is created, because that needs the driver. Cold.
#[cold]
pub fn find() {
    if FOUND.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: dlopen and dlsym get NUL-terminated names and only search loaded libraries. The handle is never closed,
    // because the addresses are kept.
    unsafe {
        let handle = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if handle.is_null() {
            find_hip();
            return;
        }
        for (slot, names) in ADDRESS.iter().zip(NAMES) {
            let found = names.iter().flatten().find_map(|name| {
                let address = libc::dlsym(handle, name.as_ptr()) as usize;
                (address != 0).then_some(address)
            });
            slot.store(found.unwrap_or(0), Ordering::Relaxed);
        }
    }
    FOUND.store(true, Ordering::Release);
}

/// Looks up HIP's only used function. Its arguments and results are those of the CUDA driver's.
fn find_hip() {
    const HIP: [&CStr; 4] = [
        c"libamdhip64.so.7",
        c"libamdhip64.so.6",
        c"libamdhip64.so.5",
        c"libamdhip64.so",
    ];
    for name in HIP {
        // SAFETY: dlopen and dlsym get NUL-terminated names and only search loaded libraries. The handle is never
        // closed, because the address is kept.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if !handle.is_null() {
                let address = libc::dlsym(handle, c"hipStreamIsCapturing".as_ptr()) as usize;
                ADDRESS[Number::stream_is_capturing as usize].store(address, Ordering::Relaxed);
                FOUND.store(true, Ordering::Release);
                return;
            }
        }
    }
}

/// Returns true if all functions that events need exist.
pub fn is_whole() -> bool {
    const OTHERS: [Number; 5] = [
        Number::context_id,
        Number::driver_version,
        Number::device_at,
        Number::device_name,
        Number::device_address,
    ];
    FOUND.load(Ordering::Acquire)
        && ADDRESS.iter().enumerate().all(|(number, address)| {
            OTHERS.iter().any(|&other| other as usize == number) || address.load(Ordering::Relaxed) != 0
        })
}
