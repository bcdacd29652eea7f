//! Text for a terminal.

pub mod layout;
pub mod painter;
pub mod selection;
pub mod summary;
pub mod table;
pub(crate) mod writer;
