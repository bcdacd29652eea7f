//! NVTX: ranges and marks that programs and libraries put around what they do.
//!
//! Not intercepted but injected: the first NVTX call of each library loads the library that NVTX_INJECTION64_PATH names
//! and hands it its table of functions (NVTX v3, nvtxDetail/nvtxInit.h). `rankscope run` names us there; who was named
//! before is loaded by us, called first, and keeps getting every call. Needs no GPU.
//!
//! A range starts no recorder: what a process says before its first communication is not kept.

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

/// Whom we were put in front of, if anybody.
const NEXT: &CStr = c"RANKSCOPE_NVTX_NEXT";

type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;
type Initialise = unsafe extern "C" fn(GetExportTable) -> c_int;

/// `NvtxExportTableCallbacks`
#[repr(C)]
struct Callbacks {
    struct_size: usize,
    get_module_function_table: Option<unsafe extern "C" fn(c_int, *mut *mut *mut usize, *mut u32) -> c_int>,
}

/// A function of ours in a module's table, and whom it calls on to.
pub(crate) struct Slot {
    module: c_int,
    /// Number in the module (nvtxTypes.h, `NvtxCallbackIdCore` and `NvtxCallbackIdCore2`).
    number: usize,
    ours: AtomicPtr<c_void>,
    /// The function of the injection behind us; 0 if there is none.
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

/// Where the functions of a module stand.
struct Module {
    functions: *mut *mut usize,
    count: usize,
}

impl Module {
    /// # Safety
    /// `callbacks` must be what NVTX handed out.
    unsafe fn get(callbacks: &Callbacks, module: c_int) -> Option<Self> {
        let mut functions = std::ptr::null_mut();
        let mut count = 0;
        let get = callbacks.get_module_function_table?;
        // SAFETY: NVTX's own function, which writes both.
        let outcome = unsafe { get(module, &raw mut functions, &raw mut count) };
        (outcome == 1 && !functions.is_null()).then_some(Self {
            functions,
            count: count as usize,
        })
    }

    /// Where the function of this number stands.
    fn place(&self, number: usize) -> Option<*mut usize> {
        if number >= self.count {
            return None;
        }
        // SAFETY: NVTX says that there are so many places, each null or that of a function pointer.
        let place = unsafe { *self.functions.add(number) };
        (!place.is_null()).then_some(place)
    }
}

/// Called by NVTX once for each library that uses it.
///
/// # Safety
/// `get_export_table` must be NVTX's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get_export_table: GetExportTable) -> c_int {
    // SAFETY: NVTX hands out a table that lives as long as the library that uses it, or null.
    let Some(callbacks) = (unsafe { get_export_table(CALLBACKS).cast::<Callbacks>().as_ref() }) else {
        return 0;
    };
    if callbacks.struct_size < size_of::<Callbacks>() {
        return 0;
    }
    // SAFETY: as promised by NVTX.
    let (core, core2) = unsafe { (Module::get(callbacks, CORE), Module::get(callbacks, CORE2)) };
    let place_of = |slot: &Slot| {
        let module = if slot.module == CORE { &core } else { &core2 };
        module.as_ref().and_then(|module| module.place(slot.number))
    };
    let mut before = [0usize; ranges::SLOTS.len()];
    for (slot, before) in ranges::SLOTS.iter().zip(&mut before) {
        if let Some(place) = place_of(slot) {
            // SAFETY: a place of NVTX's.
            *before = unsafe { place.read() };
        }
    }
    // SAFETY: handed on as it came.
    let others = unsafe { initialise_next(get_export_table) };
    for (slot, before) in ranges::SLOTS.iter().zip(before) {
        let Some(place) = place_of(slot) else { continue };
        // SAFETY: a place of NVTX's, which it lets injections write now and reads later.
        unsafe {
            let now = place.read();
            // What stands there before any injection are NVTX's own functions that initialise it: never called on.
            if others && now != before {
                slot.next.store(now, Ordering::Relaxed);
            }
            place.write(slot.ours.load(Ordering::Relaxed) as usize);
        }
    }
    1
}

/// Loads the injection that we were put in front of, and lets it put its functions there first.
unsafe fn initialise_next(get_export_table: GetExportTable) -> bool {
    // SAFETY: the environment's string, a library of the user's choice, and the function that every NVTX injection has.
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
