//! Parts that all adapters share. The core names no adapter: adapters register in [`adapters`].
//!
//! | file | content |
//! |---|---|
//! | [`stub`], [`resolve`], [`real_call`] | exported symbols; search for the real function; the call of it |
//! | [`configuration`] | environment variables |
//! | [`thread_lane`], [`own_thread`], [`keeper`] | lane of a thread of the program; threads of the library |
//! | [`adapters`], [`life`] | start, fork and end of recording |
//! | [`in_progress`] | a call between its enter and its leave |
//! | [`communicators`], [`pending`], [`sampling`], [`rate`] | communicators of the process, and the state kept for each |
//! | [`texts`], [`hash`], [`memory`] | text definitions; hash for identities; the library's allocator |

pub mod adapters;
pub mod communicators;
pub mod configuration;
pub mod hash;
pub mod in_progress;
pub mod keeper;
pub mod life;
pub mod memory;
pub mod own_thread;
pub mod pending;
pub mod rate;
pub mod real_call;
pub mod resolve;
pub mod sampling;
pub mod stub;
pub mod texts;
pub mod thread_lane;
