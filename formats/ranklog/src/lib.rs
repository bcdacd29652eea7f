//! Rank log: the recording of one process, and the vocabulary of its records.
//!
//! The recorder in the preloaded library writes it ([`lanes`], [`recorder`], [`segment`]). RANKLOG.md specifies it, and
//! [`reader`] reads it. [`Operation`] and [`Library`] name the recorded calls.

pub mod activity;
pub mod activity_request;
pub mod area;
pub mod clock;
pub mod codec;
pub mod collect;
pub mod communication_kernel;
pub mod cuda_calls;
pub mod definition;
pub mod flight;
pub mod free_ring;
pub mod lanes;
pub mod layout;
mod little_endian;
mod live_area;
mod live_copy;
pub mod log_index;
pub mod loss;
pub mod mark;
pub mod marks;
pub mod nccl_version;
mod numbered;
pub mod operation;
pub mod peek;
pub mod place;
pub mod process;
pub mod reader;
pub mod record;
pub mod record_slot;
pub mod recorder;
pub mod secrets;
pub mod segment;
pub mod sequence_lock;
pub mod tail;
pub mod word;
pub mod writer;

pub use operation::{Library, Operation, Pattern};
