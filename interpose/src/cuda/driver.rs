//! The functions of the CUDA driver that we ask: looked up where NCCL has the driver loaded, which we never do. Of HIP,
//! which RCCL has loaded instead, only whether a stream is being captured.
//!
//! Signatures: the driver interface since CUDA 11.8. A `_v2` is looked for first where a header maps the plain name to
//! it. A stream or event of the run-time interface is one of the driver's.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// `CUDA_SUCCESS`
pub const SUCCESS: i32 = 0;
/// `CUDA_ERROR_NOT_READY`
pub const NOT_READY: i32 = 600;
/// What a function returns that the loaded driver does not have. No driver does: its codes are not negative.
pub const MISSING: i32 = -1;

/// `CU_STREAM_NON_BLOCKING`
pub const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
pub const RELAXED: i32 = 2;
/// The largest of the handles that mean a stream of whatever context is current: null, `CU_STREAM_LEGACY`,
/// `CU_STREAM_PER_THREAD`.
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
            /// As the driver has it: handles must be alive, and pointers writable.
            #[inline]
            pub unsafe fn $name($($argument: $type),*) -> i32 {
                let address = ADDRESS[Number::$name as usize].load(Ordering::Relaxed);
                if address == 0 {
                    return MISSING;
                }
                // SAFETY: the driver's function of that name, which has this signature.
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
    /// What a stream's capture stands at. Allowed during any capture, and disturbs none.
    stream_is_capturing(stream: usize, status: *mut i32) = c"cuStreamIsCapturing";
    /// The context of a stream; of a special one the current context.
    stream_context(stream: usize, context: *mut usize) = c"cuStreamGetCtx";
    /// Makes a stream in the current context.
    stream_create(stream: *mut usize, flags: u32) = c"cuStreamCreate";
    /// Forgets a stream when its work is done.
    stream_destroy(stream: usize) = c"cuStreamDestroy_v2";
    /// Makes an event in the current context; flags 0: it takes its time.
    event_create(event: *mut usize, flags: u32) = c"cuEventCreate";
    /// Forgets an event when it has happened.
    event_destroy(event: usize) = c"cuEventDestroy_v2";
    /// Puts an event on a stream of its context.
    event_record(event: usize, stream: usize) = c"cuEventRecord";
    /// Whether it has happened.
    event_query(event: usize) = c"cuEventQuery";
    /// Milliseconds from one event to another, both of which have happened.
    event_elapsed(ms: *mut f32, start: usize, end: usize) = c"cuEventElapsedTime_v2", c"cuEventElapsedTime";
    /// The current context of the calling thread, 0 if none.
    current_context(context: *mut usize) = c"cuCtxGetCurrent";
    /// The device of the current context.
    current_device(device: *mut i32) = c"cuCtxGetDevice";
    /// The device of an ordinal. Needs no context.
    device_at(device: *mut i32, ordinal: i32) = c"cuDeviceGet";
    /// The name of a device's model. Needs no context.
    device_name(name: *mut c_char, most_bytes: i32, device: i32) = c"cuDeviceGetName";
    /// A number that no other context of the process ever has (since CUDA 12).
    context_id(context: usize, id: *mut u64) = c"cuCtxGetId";
    /// Makes a context current, on top of the one that was.
    push_context(context: usize) = c"cuCtxPushCurrent_v2";
    /// Undoes that.
    pop_context(context: *mut usize) = c"cuCtxPopCurrent_v2";
    /// The newest CUDA that it knows: 1000 × major + 10 × minor.
    driver_version(version: *mut i32) = c"cuDriverGetVersion";
    /// Swaps how the calling thread stands to captures of others.
    exchange_capture_mode(mode: *mut i32) = c"cuThreadExchangeStreamCaptureMode";
}

/// As long as this lives, what the calling thread asks disturbs no capture of another thread.
pub struct Relaxed {
    before: i32,
}

impl Relaxed {
    /// Begins; `None` where the driver refuses.
    pub fn begin() -> Option<Self> {
        let mut before = RELAXED;
        // SAFETY: a place of ours.
        let is_done = unsafe { exchange_capture_mode(&raw mut before) } == SUCCESS;
        is_done.then_some(Self { before })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: a place of ours, with the mode that was.
        unsafe { exchange_capture_mode(&raw mut self.before) };
    }
}

static ADDRESS: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
static FOUND: AtomicBool = AtomicBool::new(false);

/// Looks for the driver: to be called when a communicator is made, which needs it. Cold.
#[cold]
pub fn find() {
    if FOUND.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: looks up what is loaded; the handle is kept, for the addresses are.
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

/// The same of HIP: one function, whose arguments and answers are those of the CUDA driver's.
fn find_hip() {
    const HIP: [&CStr; 4] = [
        c"libamdhip64.so.7",
        c"libamdhip64.so.6",
        c"libamdhip64.so.5",
        c"libamdhip64.so",
    ];
    for name in HIP {
        // SAFETY: as in `find`.
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

/// True if all functions are there that events need.
pub fn is_whole() -> bool {
    const OTHERS: [Number; 4] = [
        Number::context_id,
        Number::driver_version,
        Number::device_at,
        Number::device_name,
    ];
    FOUND.load(Ordering::Acquire)
        && ADDRESS.iter().enumerate().all(|(number, address)| {
            OTHERS.iter().any(|&other| other as usize == number) || address.load(Ordering::Relaxed) != 0
        })
}
