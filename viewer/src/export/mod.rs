//! Exports of the current view: the window as a picture ([`svg`]), the visible range as a trace for ui.perfetto.dev
//! ([`perfetto`]), and the dialog ([`dialog`]).

pub mod dialog;
pub mod file_server;
mod free_name;
pub mod keeper;
pub mod perfetto;
pub mod svg;

pub use dialog::{Export, ExportDialog};
pub use free_name::free_name;
pub use keeper::ShapesKeeper;
