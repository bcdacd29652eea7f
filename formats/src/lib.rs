//! Formats of the files that rankscope writes from rank logs, and of other profilers' traces that it reads.
//!
//! Each module is one format; `files` opens them, on this machine or in an object store, and `whole_file` replaces
//! them atomically. The crate `rankscope_ranklog` contains the rank log and the vocabulary of its records.

#[cfg(feature = "session")]
pub mod bench;
#[cfg(feature = "session")]
pub mod comparison;
#[cfg(any(feature = "session", feature = "index"))]
pub mod files;
#[cfg(feature = "import")]
pub mod flight_recorder;
#[cfg(feature = "session")]
pub mod gpu_samples;
#[cfg(feature = "session")]
pub mod ids;
#[cfg(feature = "index")]
pub mod index;
#[cfg(feature = "import")]
pub mod inspector;
#[cfg(feature = "import")]
pub mod kineto;
#[cfg(feature = "perfetto")]
pub mod perfetto;
#[cfg(any(feature = "import", feature = "session"))]
pub mod problem;
#[cfg(feature = "session")]
pub mod ras;
#[cfg(feature = "import")]
pub mod ray_timeline;
#[cfg(feature = "session")]
pub mod session;
#[cfg(feature = "session")]
pub mod status;
#[cfg(feature = "session")]
mod vocabulary;
#[cfg(any(feature = "session", feature = "index"))]
pub mod whole_file;
