//! The recording inside a process. The preloaded library and the layer for Rust programs are built on it.
//!
//! It takes no lock, does not allocate and makes no system call once a thread has its lane. Before the first event it opens,
//! prints, starts and allocates nothing. The recorder names no adapter: adapters register in [`adapters`].
//!
//! | file | content |
//! |---|---|
//! | [`configuration`] | environment variables |
//! | [`thread_lane`], [`own_thread`], [`keeper`] | lane of a thread of the program; threads of the library |
//! | [`adapters`], [`life`] | start, fork and end of recording |
//! | [`communicators`], [`pending`], [`sampling`], [`rate`] | communicators of the process, and the state kept for each |
//! | [`texts`], [`hash`] | text definitions; hash for identities |
//! | [`system_counters`] | memory, processor time and network traffic, on the recorder's thread |
//! | [`marks`], [`collectives`] | marks of the program: spans, steps, counters; its own collectives |
//! | [`api`] | the same as a table of C functions |

pub mod adapters;
pub mod api;
pub mod collectives;
pub mod communicators;
pub mod configuration;
pub mod hash;
pub mod held_lane;
pub mod keeper;
pub mod life;
pub mod marks;
pub mod own_thread;
pub mod pending;
pub mod rate;
pub mod redacted;
pub mod sampling;
pub mod system_counters;
pub mod texts;
pub mod thread_lane;
