//! Parts that all adapters share. The core names no adapter: adapters register in [`adapters`].
//!
//! | file | content |
//! |---|---|
//! | [`stub`] (and a file per machine), [`resolve`], [`real_call`] | exported symbols; search for the real function; the call of it |
//! | [`in_progress`] | a call between its enter and its leave |
//! | [`memory`] | the library's allocator |
//! | crate `rankscope-recorder` | the recording itself, shared with the layer |

pub mod in_progress;
pub mod memory;
pub mod real_call;
pub mod resolve;
pub mod stub;
#[cfg(target_arch = "aarch64")]
mod stub_aarch64;
#[cfg(target_arch = "x86_64")]
mod stub_x86_64;

pub use rankscope_recorder::{
    adapters, api, collectives, communicators, configuration, hash, held_lane, life, marks, own_thread,
    pending, redacted, system_counters, texts, thread_lane,
};
