//! Another user of CUPTI in the same process, as torch.profiler is one: it registers its own buffers.

use super::truth::Seen;
use crate::library::Library;
use anyhow::{Result, bail};
use rankscope_cupti_sys::bindings as cupti;
use rankscope_cupti_sys::table::NAMES;
use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// File of CUPTI, as the recorder takes it.
const CUPTI: &str = "RANKSCOPE_CUPTI";
/// Size of a buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// Alignment of a buffer (cupti_activity.h: ACTIVITY_RECORD_ALIGNMENT).
const ALIGNMENT: usize = 8;

/// Kernels in the delivered buffers.
static KERNELS: AtomicU64 = AtomicU64::new(0);
/// `cuptiActivityGetNextRecord`, for the callback.
static NEXT_RECORD: AtomicU64 = AtomicU64::new(0);

/// The other profiler, while it records.
pub struct OtherProfiler {
    disable: unsafe extern "C" fn(cupti::CUpti_ActivityKind) -> cupti::CUptiResult,
    flush: unsafe extern "C" fn(u32) -> cupti::CUptiResult,
}

type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(cupti::CUcontext, u32, *mut u8, usize, usize);

impl OtherProfiler {
    /// Starts it. Its functions come through the dynamic linker, so that preloaded hooks see them.
    pub fn start() -> Result<Self> {
        let library = load()?;
        // SAFETY: the functions have the types of cupti_activity.h.
        unsafe {
            let register: unsafe extern "C" fn(Requested, Completed) -> cupti::CUptiResult =
                library.function("cuptiActivityRegisterCallbacks")?;
            let enable: unsafe extern "C" fn(cupti::CUpti_ActivityKind) -> cupti::CUptiResult =
                library.function("cuptiActivityEnable")?;
            let next: unsafe extern "C" fn(
                *mut u8,
                usize,
                *mut *mut cupti::CUpti_Activity,
            ) -> cupti::CUptiResult = library.function("cuptiActivityGetNextRecord")?;
            NEXT_RECORD.store(next as usize as u64, Ordering::Release);
            let this = Self {
                disable: library.function("cuptiActivityDisable")?,
                flush: library.function("cuptiActivityFlushAll")?,
            };
            check("cuptiActivityRegisterCallbacks", register(requested, completed))?;
            check(
                "cuptiActivityEnable",
                enable(cupti::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
            )?;
            Ok(this)
        }
    }

    /// Stops it. `launched`: kernels since the start, which are over.
    pub fn stop(self, launched: u64) -> Result<Seen> {
        /// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: also buffers that are not full.
        const FORCED: u32 = 1;
        // SAFETY: the functions have these types.
        unsafe {
            check("cuptiActivityFlushAll", (self.flush)(FORCED))?;
            check(
                "cuptiActivityDisable",
                (self.disable)(cupti::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
            )?;
            check("cuptiActivityFlushAll", (self.flush)(FORCED))?;
        }
        Ok(Seen {
            launched,
            kernels: KERNELS.load(Ordering::Acquire),
        })
    }
}

fn load() -> Result<Library> {
    if let Some(named) = env::var_os(CUPTI).filter(|named| !named.is_empty()) {
        return Library::load(Path::new(&named));
    }
    let names = NAMES.iter().filter_map(|name| name.to_str().ok());
    let mut failed = None;
    for name in names {
        match Library::load(Path::new(name)) {
            Ok(library) => return Ok(library),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => bail!("CUPTI was not found"),
    }
}

fn check(call: &str, result: cupti::CUptiResult) -> Result<()> {
    if result != cupti::CUptiResult::CUPTI_SUCCESS {
        bail!("{call} failed with {}", result.0);
    }
    Ok(())
}

unsafe extern "C" fn requested(buffer: *mut *mut u8, bytes: *mut usize, most_records: *mut usize) {
    // SAFETY: CUPTI passes valid places. The layout is valid. Null is allowed: then CUPTI drops records.
    unsafe {
        let layout = std::alloc::Layout::from_size_align_unchecked(BUFFER_BYTES, ALIGNMENT);
        *buffer = std::alloc::alloc(layout);
        *bytes = BUFFER_BYTES;
        *most_records = 0;
    }
}

unsafe extern "C" fn completed(_: cupti::CUcontext, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: CUPTI returns a buffer of `requested` with `valid` bytes of records. The function was stored before CUPTI got this
    // callback.
    unsafe {
        let next: unsafe extern "C" fn(
            *mut u8,
            usize,
            *mut *mut cupti::CUpti_Activity,
        ) -> cupti::CUptiResult = std::mem::transmute(NEXT_RECORD.load(Ordering::Acquire) as usize);
        let mut record = std::ptr::null_mut();
        while next(buffer, valid, &raw mut record) == cupti::CUptiResult::CUPTI_SUCCESS {
            if (*record).kind == cupti::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL {
                KERNELS.fetch_add(1, Ordering::AcqRel);
            }
        }
        let layout = std::alloc::Layout::from_size_align_unchecked(BUFFER_BYTES, ALIGNMENT);
        std::alloc::dealloc(buffer, layout);
    }
}
