//! A store on a git branch, by git's plumbing alone: working tree, index and HEAD stay as they are.
//!
//! [`repository`] runs git, [`branch`] is what a store can do. [`commit`] makes a commit from another and replaces the branch's tip if
//! nobody else has meanwhile, [`remote`] pushes and joins what others pushed, [`snapshot`] reads one commit.

pub mod branch;
mod commit;
mod remote;
mod repository;
mod snapshot;

pub use branch::GitBranch;
pub use snapshot::Snapshot;
