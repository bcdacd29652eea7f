//! Baselines: summaries of earlier runs, kept in a directory or on a git branch, so that new runs can be compared with them.
//!
//! In the order of the data: [`batch`] checks runs that are to become one entry, [`machine`] and [`job`] name what they ran on and
//! what they ran, [`key`] is branch, machine and job, [`entry`] names an entry's file. [`store`] is what all commands use; it keeps
//! entries in a [`directory`] or on a branch ([`git`]). [`view`] reads one state of a store, [`prune`] chooses what may go.
//!
//! Each entry is a file of its own. There is no index that two writers could overwrite for each other.
//!
//! ```text
//! entries/BRANCH/MACHINE/JOB/20261124-020842-123456789-0123456789abcdef.json
//! ```

pub mod batch;
pub mod directory;
pub mod entry;
pub mod error;
pub mod folder;
pub mod git;
pub mod job;
pub mod key;
pub mod machine;
#[cfg(test)]
mod made_up;
pub mod pauses;
pub mod problem;
pub mod prune;
pub mod store;
pub mod view;

pub use entry::EntryName;
pub use error::StoreError;
pub use key::{Key, KeyFilter};
pub use problem::Problem;
pub use store::{Found, Store, open};
pub use view::View;

/// Folder of the entries in a store. A branch or directory may hold other files next to it.
pub const ENTRIES: &str = "entries";

/// The largest entry that is read, bytes. A usual one has some kilobytes.
pub const LARGEST_ENTRY: u64 = 64 << 20;
