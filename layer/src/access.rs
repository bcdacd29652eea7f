//! Finds the recorder: that of the preloaded library, or this crate's own.

use crate::layer::RankscopeLayer;
use crate::threads::OwnThreads;
use rankscope_recorder::adapters::Adapter;
use rankscope_recorder::api::{API_VERSION, Api};
use rankscope_recorder::{adapters, communicators, configuration, life};
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Functions of the recorder; null before a search, or if nothing is recorded.
static FOUND: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());
/// State of the search.
static STATE: AtomicU32 = AtomicU32::new(NOT_SEARCHED);
const NOT_SEARCHED: u32 = 0;
const SEARCHED: u32 = 1;
static SEARCH: Mutex<()> = Mutex::new(());

/// Functions of this crate's own recorder.
static OWN: Api = Api::of::<OwnThreads>();
static ADAPTERS: &[&Adapter] = &[&communicators::ADAPTER];

type Find = unsafe extern "C" fn(u32) -> *const Api;

/// Returns the functions of the recorder; `None` if nothing is recorded.
#[inline]
pub(crate) fn api() -> Option<&'static Api> {
    // SAFETY: null, or the address of a static of this crate or of the preloaded library, which is never unloaded.
    match unsafe { FOUND.load(Ordering::Acquire).as_ref() } {
        Some(api) => Some(api),
        None if STATE.load(Ordering::Acquire) == SEARCHED => None,
        None => search(None),
    }
}

#[cold]
fn search(directory: Option<PathBuf>) -> Option<&'static Api> {
    let _one_at_a_time = SEARCH.lock();
    if STATE.load(Ordering::Acquire) == NOT_SEARCHED {
        let found = preloaded().or_else(|| own(directory));
        if let Some(api) = found {
            FOUND.store(std::ptr::from_ref(api).cast_mut(), Ordering::Release);
        }
        STATE.store(SEARCHED, Ordering::Release);
    }
    // SAFETY: as in `api`.
    unsafe { FOUND.load(Ordering::Acquire).as_ref() }
}

/// Returns the functions of the preloaded library, if it records this process.
fn preloaded() -> Option<&'static Api> {
    // SAFETY: the name is a C string. The library has this function with this signature, and its table is a static.
    unsafe {
        let address: *mut c_void = libc::dlsym(libc::RTLD_DEFAULT, c"rankscope_api".as_ptr());
        if address.is_null() {
            return None;
        }
        let find = std::mem::transmute::<*mut c_void, Find>(address);
        let api = find(API_VERSION).as_ref()?;
        // A later library may have more functions, an earlier one fewer.
        let is_complete = api.bytes as usize >= size_of::<Api>();
        (is_complete && (api.start)() == 1).then_some(api)
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
