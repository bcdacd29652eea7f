//! Text for a terminal.

pub mod layout;
pub mod paint;
pub mod selection;
pub mod summary;
pub mod table;
