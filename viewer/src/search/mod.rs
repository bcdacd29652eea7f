//! Finding things: by an expression, by a moment, by the name of a command.
//!
//! [`expression`] is what can be asked for, [`parse`] reads it as people type it, [`matcher`] holds it against a session;
//! [`find`] looks through all ranks behind the window, [`bar`] shows what was found, [`go_to`] takes moments and steps.
//! [`keys`] is the one table of commands, [`held_keys`] knows which are let go, [`help`] shows them, and [`palette`] finds in it by [`fuzzy`] names.

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
