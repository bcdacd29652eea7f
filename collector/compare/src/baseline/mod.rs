//! Baselines: summaries of earlier runs, stored in a directory or on a git branch, for comparisons with new runs.
//!
//! In the order of the data: [`batch`] checks runs that become one entry. [`machine`] and [`job`] name their hardware
//! and program. [`key`] is branch, machine and job, and [`entry`] names an entry's file. [`store`] is the interface of
//! all commands. It keeps entries in a [`directory`] or on a branch ([`git`]). [`view`] reads one state of a store, and
//! [`prune`] selects entries to remove.
//!
//! Each entry is a separate file. There is no index that two processes could overwrite for each other.
//!
//! ```text
//! entries/BRANCH/MACHINE/JOB/20261124-020842-123456789-0123456789abcdef.json
//! ```

pub mod backoff;
pub mod batch;
pub mod directory;
pub mod entry;
pub mod error;
pub mod folder;
pub mod git;
pub mod job;
pub mod key;
pub mod machine;
pub mod problem;
pub mod prune;
pub mod store;
#[cfg(test)]
mod test_runs;
pub mod view;

pub use entry::EntryName;
pub use error::StoreError;
pub use key::{Key, KeyFilter};
pub use problem::Problem;
pub use store::{Found, Store, open};
pub use view::View;

/// Name of the directory of entries in a store. A branch or directory may have other files next to it.
pub const ENTRIES: &str = "entries";

/// Maximum size of an entry, in bytes. A typical entry has some kilobytes.
pub const LARGEST_ENTRY: u64 = 64 << 20;
