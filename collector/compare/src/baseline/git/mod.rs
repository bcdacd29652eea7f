//! Store on a git branch. It uses only git's plumbing commands, so working tree, index and HEAD do not change.
//!
//! [`repository`] runs git, and [`branch`] has the operations of a store. [`commit`] makes a commit and replaces the
//! tip of the branch if it is unchanged. [`remote`] pushes, and joins pushed changes of others. [`snapshot`] reads one
//! commit.

pub mod branch;
mod commit;
mod remote;
mod repository;
mod snapshot;

pub use branch::GitBranch;
pub use snapshot::Snapshot;
