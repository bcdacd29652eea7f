//! Text for a terminal.

pub mod look;
pub mod paint;
pub mod selection;
pub mod summary;
pub mod table;
