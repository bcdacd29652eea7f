//! The first stage of a merge on several machines, as a plan that Ballista runs.
//!
//! `rankscope merge --cluster` makes units of ranks and puts their inputs on shared storage
//! ([`rankscope_analysis::merge::units`]). This crate runs them:
//!
//! | file | content |
//! |---|---|
//! | [`plan`] | the plan: a table of units, and a node above it |
//! | [`unit_exec`] | the node, which runs each unit of its input |
//! | [`codec`] | the node as bytes, for other processes |
//! | [`access`] | who may connect: tokens, certificates, addresses |
//! | [`scheduler`] | the process that distributes units |
//! | [`executor`] | a process that runs units |
//! | [`submit`] | has a plan run, by a scheduler or in this process |
//!
//! Scheduling, retries and the protocol are Ballista's. What a merge takes from a run are the receipts that units write, never
//! what the scheduler or a stream of results reports: Ballista 55 delivers rows twice after an executor died, and fails a job
//! whose results became unreachable (docs/adr/0048-units-on-a-cluster.md).

pub mod access;
pub mod codec;
pub mod executor;
pub mod plan;
pub mod scheduler;
pub mod submit;
pub mod unit_exec;
