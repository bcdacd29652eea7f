//! NVTX: ranges and marks that programs and libraries put around their work.
//!
//! NVTX is not intercepted but injected. At the first NVTX call of each library, NVTX loads the library that
//! NVTX_INJECTION64_PATH names, and passes its table of functions to it (NVTX v3, nvtxDetail/nvtxInit.h). `rankscope
//! run` sets this variable. If it named another library before, this library loads that one, calls it first, and
//! forwards every call to it. No GPU is needed.
//!
//! A range starts no recorder. Ranges before the first communication of a process are not kept.

pub mod handles;
pub mod message;
pub mod ranges;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// `NVTX_ETID_CALLBACKS`
const CALLBACKS: u32 = 1;
/// `NVTX_CB_MODULE_CORE`, `NVTX_CB_MODULE_CORE2`
const CORE: c_int = 1;
const CORE2: c_int = 5;

/// Variable that names the injection that rankscope has replaced, if any.
const NEXT: &CStr = c"RANKSCOPE_NVTX_NEXT";

type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;
type Initialise = unsafe extern "C" fn(GetExportTable) -> c_int;

/// `NvtxExportTableCallbacks`
#[repr(C)]
struct Callbacks {
    struct_size: usize,
    get_module_function_table: Option<unsafe extern "C" fn(c_int, *mut *mut *mut usize, *mut u32) -> c_int>,
}

/// A function of this library in a module's table, and the function that it forwards to.
pub(crate) struct Slot {
    module: c_int,
    /// Number of the function in the module (nvtxTypes.h, `NvtxCallbackIdCore` and `NvtxCallbackIdCore2`).
    number: usize,
    ours: AtomicPtr<c_void>,
    /// The other injection's function; 0 if there is none.
    pub(crate) next: AtomicUsize,
}

impl Slot {
    pub(crate) const fn new(module: c_int, number: usize, ours: *const c_void) -> Self {
        Self {
            module,
            number,
            ours: AtomicPtr::new(ours.cast_mut()),
            next: AtomicUsize::new(0),
        }
    }

    pub(crate) const fn core(number: usize, ours: *const c_void) -> Self {
        Self::new(CORE, number, ours)
    }

    pub(crate) const fn core2(number: usize, ours: *const c_void) -> Self {
        Self::new(CORE2, number, ours)
    }
}

/// Table of a module's function pointers.
struct Module {
    functions: *mut *mut usize,
    count: usize,
}

impl Module {
    /// Returns the table of a module.
    ///
    /// # Safety
    /// `callbacks` must be the table that NVTX returned.
    unsafe fn get(callbacks: &Callbacks, module: c_int) -> Option<Self> {
        let mut functions = std::ptr::null_mut();
        let mut count = 0;
        let get = callbacks.get_module_function_table?;
        // SAFETY: NVTX's own function, which writes only to these two locals.
        let outcome = unsafe { get(module, &raw mut functions, &raw mut count) };
        (outcome == 1 && !functions.is_null()).then_some(Self {
            functions,
            count: count as usize,
        })
    }

    /// Returns the address of this number's function pointer.
    fn place(&self, number: usize) -> Option<*mut usize> {
        if number >= self.count {
            return None;
        }
        // SAFETY: NVTX reports `count` entries, and `number` is less. Each is null or the address of a function
        // pointer.
        let place = unsafe { *self.functions.add(number) };
        (!place.is_null()).then_some(place)
    }
}

/// Installs this library's functions. NVTX calls it once for each library that uses NVTX.
///
/// # Safety
/// `get_export_table` must be NVTX's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get_export_table: GetExportTable) -> c_int {
    // SAFETY: NVTX returns null or a table that lives as long as the library that uses it.
    let Some(callbacks) = (unsafe { get_export_table(CALLBACKS).cast::<Callbacks>().as_ref() }) else {
        return 0;
    };
    if callbacks.struct_size < size_of::<Callbacks>() {
        return 0;
    }
    // SAFETY: `callbacks` is the table that NVTX returned.
    let (core, core2) = unsafe { (Module::get(callbacks, CORE), Module::get(callbacks, CORE2)) };
    let place_of = |slot: &Slot| {
        let module = if slot.module == CORE { &core } else { &core2 };
        module.as_ref().and_then(|module| module.place(slot.number))
    };
    let mut before = [0usize; ranges::SLOTS.len()];
    for (slot, before) in ranges::SLOTS.iter().zip(&mut before) {
        if let Some(place) = place_of(slot) {
            // SAFETY: the address is that of one of NVTX's function pointers.
            *before = unsafe { place.read() };
        }
    }
    // SAFETY: `get_export_table` is NVTX's, forwarded unchanged.
    let others = unsafe { initialise_next(get_export_table) };
    for (slot, before) in ranges::SLOTS.iter().zip(before) {
        let Some(place) = place_of(slot) else { continue };
        // SAFETY: the address is that of one of NVTX's function pointers. NVTX lets injections write them now, and
        // reads them later.
        unsafe {
            let now = place.read();
            // Before any injection the table contains NVTX's own functions, which initialise it. Calls are never
            // forwarded to those.
            if others && now != before {
                slot.next.store(now, Ordering::Relaxed);
            }
            place.write(slot.ours.load(Ordering::Relaxed) as usize);
        }
    }
    1
}

/// Loads the injection that rankscope has replaced, and lets it install its functions first.
unsafe fn initialise_next(get_export_table: GetExportTable) -> bool {
    // SAFETY: getenv returns null or a NUL-terminated string. The user chose the library, and it is never closed. Every
    // NVTX injection has this function with this signature.
    unsafe {
        let path: *const c_char = libc::getenv(NEXT.as_ptr());
        if path.is_null() || *path == 0 {
            return false;
        }
        let handle = libc::dlopen(path, libc::RTLD_LAZY);
        if handle.is_null() {
            return false;
        }
        let address = libc::dlsym(handle, c"InitializeInjectionNvtx2".as_ptr()) as usize;
        if address == 0 || address == InitializeInjectionNvtx2 as *const () as usize {
            return false;
        }
        std::mem::transmute::<usize, Initialise>(address)(get_export_table) == 1
    }
}
