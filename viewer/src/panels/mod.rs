//! Panels next to and below the timeline.
//!
//! - [`findings`] lists what the user should know, [`notes`] what users write.
//! - [`instance`] shows one instance on all its ranks.
//! - [`heat_maps`] show the run at a glance.
//! - [`selection`] sums up a time range.
//! - [`background`] reads and computes for the panels on background threads.
//! - [`severity_colours`] maps severity to colours, and [`colours`] sets the look of text.
//! - [`session_key`] detects that a panel's data belongs to another session.

pub mod background;
pub mod colours;
pub mod findings;
pub mod heat_maps;
pub mod instance;
pub mod notes;
pub mod selection;
mod session_key;
mod severity_colours;

pub use findings::FindingsPanel;
pub use heat_maps::HeatMapsPanel;
pub use notes::{Note, Notes, NotesPanel};
pub use selection::SelectionPanels;

#[cfg(test)]
pub(crate) mod test_support;
