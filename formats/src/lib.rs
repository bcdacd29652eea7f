//! rankscope's vocabulary and file formats: what was called ([`Operation`], [`Library`]), the rank log that one
//! process writes ([`ranklog`]), and what the collector writes from many of them.

pub mod communication_kernel;
#[cfg(feature = "session")]
pub mod comparison;
#[cfg(feature = "import")]
pub mod kineto;
pub mod operation;
#[cfg(feature = "perfetto")]
pub mod perfetto;
pub mod ranklog;
#[cfg(feature = "session")]
pub mod session;
#[cfg(feature = "view")]
pub mod view;
pub mod wanted;

pub use operation::{Library, Operation, Pattern};
