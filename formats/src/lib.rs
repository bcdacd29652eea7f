//! The files that rankscope writes from rank logs, and the traces of other profilers that it reads.
//!
//! Each module is one format. A rank log and the vocabulary of its records are in the crate `rankscope_ranklog`.

#[cfg(feature = "session")]
pub mod comparison;
#[cfg(feature = "index")]
pub mod index;
#[cfg(feature = "import")]
pub mod kineto;
#[cfg(feature = "perfetto")]
pub mod perfetto;
#[cfg(feature = "session")]
pub mod session;
