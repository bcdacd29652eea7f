//! Finds the recorder: that of the preloaded library, or this crate's own.

use crate::layer::RankscopeLayer;
use crate::threads::OwnThreads;
use rankscope_recorder::adapters::Adapter;
use rankscope_recorder::api::{API_VERSION, Api};
use rankscope_recorder::{adapters, communicators, configuration, life, system_counters};
use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Functions of the recorder; null before a search, or if nothing is recorded.
static FOUND: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());
/// State of the search.
static STATE: AtomicU32 = AtomicU32::new(NOT_SEARCHED);
const NOT_SEARCHED: u32 = 0;
const SEARCHING: u32 = 1;
const SEARCHED: u32 = 2;

/// Functions of this crate's own recorder.
static OWN: Api = Api::of::<OwnThreads>();
static ADAPTERS: &[&Adapter] = &[&communicators::ADAPTER, &system_counters::ADAPTER];

type Find = unsafe extern "C" fn(u32) -> *const Api;

/// Returns the functions of the recorder; `None` if nothing is recorded.
#[inline]
pub(crate) fn api() -> Option<&'static Api> {
    // SAFETY: null, or the address of a static of this crate or of the preloaded library, which is never unloaded.
    match unsafe { FOUND.load(Ordering::Acquire).as_ref() } {
        Some(api) => Some(api),
        None if STATE.load(Ordering::Acquire) == NOT_SEARCHED => search(None),
        None => None,
    }
}

/// Searches once. Other threads find nothing meanwhile: a lock could be held by a thread that a fork does not copy.
#[cold]
fn search(directory: Option<PathBuf>) -> Option<&'static Api> {
    STATE
        .compare_exchange(NOT_SEARCHED, SEARCHING, Ordering::AcqRel, Ordering::Acquire)
        .ok()?;
    let found = match preloaded() {
        Preloaded::Records(api) => Some(api),
        // Two recorders would make two ranks of one process.
        Preloaded::IsOther => None,
        Preloaded::IsSilent => own(directory),
    };
    if let Some(api) = found {
        FOUND.store(std::ptr::from_ref(api).cast_mut(), Ordering::Release);
    }
    STATE.store(SEARCHED, Ordering::Release);
    found
}

/// State of the preloaded library.
enum Preloaded {
    /// It records this process.
    Records(&'static Api),
    /// It is of another version.
    IsOther,
    /// There is none, or it does not record.
    IsSilent,
}

/// Finds the preloaded library, and starts its recorder.
fn preloaded() -> Preloaded {
    // SAFETY: the name is a C string.
    let is_there = |name: &CStr| !unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.is_null();
    // SAFETY: the name is a C string. The library has this function with this signature, and its table is a static.
    unsafe {
        let address: *mut c_void = libc::dlsym(libc::RTLD_DEFAULT, c"rankscope_api".as_ptr());
        if address.is_null() {
            // Every version of the library has this function.
            return if is_there(c"rankscope_version") {
                Preloaded::IsOther
            } else {
                Preloaded::IsSilent
            };
        }
        let find = std::mem::transmute::<*mut c_void, Find>(address);
        // A later library may have more functions, an earlier one fewer.
        match find(API_VERSION).as_ref() {
            Some(api) if api.bytes as usize >= size_of::<Api>() => {
                if (api.start)() == 1 {
                    Preloaded::Records(api)
                } else {
                    Preloaded::IsSilent
                }
            }
            _ => Preloaded::IsOther,
        }
    }
}

fn own(directory: Option<PathBuf>) -> Option<&'static Api> {
    if let Some(directory) = directory {
        configuration::set_directory(&directory);
    }
    adapters::register(&ADAPTERS);
    if (OWN.start)() != 1 {
        return None;
    }
    // SAFETY: the function has no arguments and may run at any exit.
    unsafe { libc::atexit(at_exit) };
    Some(&OWN)
}

extern "C" fn at_exit() {
    life::finish();
}

/// Returns true if this process is recorded.
pub fn is_recording() -> bool {
    api().is_some()
}

/// Options of the layer.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// let directory = std::env::temp_dir().join("recording");
/// let layer = rankscope_layer::Builder::new().directory(directory).layer();
/// tracing_subscriber::registry().with(layer).init();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    directory: Option<PathBuf>,
}

impl Builder {
    /// Returns options with their default values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records into this run directory, unless a preloaded library records the process or `RANKSCOPE_DIR` names another
    /// one. All processes of a job use the same directory. It has no effect after the first use of this crate.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Starts the recording, and returns the layer.
    pub fn layer(self) -> RankscopeLayer {
        if STATE.load(Ordering::Acquire) == NOT_SEARCHED {
            search(self.directory);
        }
        RankscopeLayer::new()
    }
}
