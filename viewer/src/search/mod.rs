//! Search by expression, by time, and by the names of commands.
//!
//! - [`expression`] defines the filters, [`parse`] reads them, and [`matcher`] evaluates them on a session.
//! - [`find`] searches all ranks on background threads, and [`bar`] shows the results.
//! - [`go_to`] handles times and steps.
//! - [`keys`] is the table of commands, and [`held_keys`] detects released keys.
//! - [`help`] shows the commands, and [`palette`] finds them by [`fuzzy`] names.

pub mod bar;
pub mod expression;
pub mod find;
pub mod fuzzy;
pub mod go_to;
pub mod held_keys;
pub mod help;
pub mod keys;
pub mod matcher;
pub mod palette;
pub mod parse;
mod row;

pub use bar::SearchBar;
pub use expression::Filter;
pub use find::{Found, Search};
pub use held_keys::HeldKeys;
pub use keys::{COMMANDS, Command, CommandId, Held, held, pressed};
pub use matcher::{LaneMatch, Matcher};
pub use palette::Palette;
pub use parse::{FilterError, parse};

#[cfg(test)]
pub(crate) mod fixture;
