//! Merges on several machines: their units as a plan that Ballista runs.
//!
//! `rankscope merge --cluster` makes units of ranks and puts their inputs on shared storage
//! ([`rankscope_analysis::merge::units`]). This crate runs them:
//!
//! | file | content |
//! |---|---|
//! | [`plan`] | the plan: a table of units, and a node above it |
//! | [`unit_exec`] | the node, which runs each unit of its input |
//! | [`codec`] | the node as bytes, for other processes |
//! | [`only_units`] | executors refuse all other plans |
//! | [`access`] | who may connect: tokens, certificates, addresses |
//! | [`scheduler`] | the process that distributes units |
//! | [`executor`] | a process that runs units |
//! | [`submit`] | submits the units of a merge to a scheduler, or runs them in this process |
//! | [`process`] | names of processes |
//!
//! Scheduling, retries and the protocol are Ballista's. A merge only trusts the receipts that units write. Ballista 55 delivers rows
//! twice after an executor died, and fails a job whose results became unreachable (docs/adr/0048-units-on-a-cluster.md).

pub mod access;
pub mod codec;
pub mod executor;
pub mod only_units;
pub mod plan;
pub mod process;
pub mod scheduler;
pub mod submit;
pub mod unit_exec;
