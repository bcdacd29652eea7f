//! The preloaded library: hooks around communication functions, and the recorder that stores their records.
//!
//! The library is loaded into every process of a job and is inert in nearly all of them. Before the first intercepted
//! call it opens, prints, starts and allocates nothing; loading stores one pointer. Without RANKSCOPE_DIR it does nothing more. With it, loading
//! sets two variables ([`constructor`]).

#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64"
)))]
compile_error!("this machine has no file of stubs beside interpose/src/core/stub_x86_64.rs yet");

mod constructor;
pub mod core;
pub mod cuda;
pub mod cupti;
pub mod gloo;
pub mod nccl;
pub mod nvtx;
pub mod thread;
pub mod torch;

use crate::core::adapters::{self, Adapter};
use crate::core::api::{API_VERSION, Api};
use crate::core::{communicators, life, system_counters};
use crate::thread::ProgramThreads;

/// All adapters, in the order in which they write their definitions.
static ADAPTERS: &[&Adapter] = &[
    &SILENCE,
    &communicators::ADAPTER,
    &nccl::ADAPTER,
    &cupti::ADAPTER,
    &system_counters::ADAPTER,
];

/// The library contains its own copy of the standard library, which would print a panic's message into the job's output.
static SILENCE: Adapter = Adapter {
    on_thread: || std::panic::set_hook(Box::new(|_| {})),
    ..Adapter::NOTHING
};

/// Makes the adapters known to the core. The constructor does this when the library is loaded, and the first lookup of
/// each table of hooks does it too.
pub fn register_adapters() {
    adapters::register(&ADAPTERS);
}

/// Stops recording until [`rankscope_resume`] is called. Sequence counters and definitions continue. For benchmarks,
/// and for programs that find the library by `dlsym`.
#[unsafe(no_mangle)]
pub extern "C" fn rankscope_pause() {
    life::RECORDER.pause();
    nccl::plugin::pause();
    cupti::worker::pause(true);
}

/// Resumes recording after [`rankscope_pause`].
#[unsafe(no_mangle)]
pub extern "C" fn rankscope_resume() {
    life::RECORDER.resume();
    nccl::plugin::resume();
    cupti::worker::pause(false);
}

/// Functions by which programs mark their work.
static API: Api = Api::of::<ProgramThreads>();

/// Returns the table of functions for programs ([`Api`]); null if this library has no such version.
#[unsafe(no_mangle)]
pub extern "C" fn rankscope_api(version: u32) -> *const Api {
    if version == API_VERSION {
        &raw const API
    } else {
        std::ptr::null()
    }
}

/// Version of the library, NUL-terminated.
#[unsafe(no_mangle)]
pub extern "C" fn rankscope_version() -> *const std::ffi::c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Runs at a regular exit. Nothing depends on it, because a killed process never reaches it.
extern "C" fn at_exit() {
    life::finish();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
