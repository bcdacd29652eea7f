//! Panels beside and below the timeline.
//!
//! [`findings`] is what a person should know, [`instance`] one instance across its ranks, [`heat_maps`] the run at a glance, [`notes`] what people write to it,
//! [`selection`] what a range of time adds up to.
//! [`background`] reads and computes for them on other threads, [`mood`] is how serious something looks, [`paper`] what
//! text looks like, [`session_key`] tells when what they made is of another session.

pub mod background;
pub mod findings;
pub mod heat_maps;
pub mod instance;
mod mood;
pub mod notes;
pub mod paper;
pub mod selection;
mod session_key;

pub use findings::FindingsPanel;
pub use heat_maps::HeatMapsPanel;
pub use notes::{Note, Notes, NotesPanel};
pub use selection::SelectionPanels;

#[cfg(test)]
pub(crate) mod test_support;
