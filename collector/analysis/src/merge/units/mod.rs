//! Units: parts of a merge that any process can run. A program with a distributed engine runs them on several machines
//! ([`UnitRunner`](crate::merge::unit_runner::UnitRunner)).
//!
//! There are two stages. Units that *read* take the logs of some ranks, write the tables that need no other rank, and pack what
//! matching needs. Units that *write* make the tables of operations, steps and stalls of some ranks, from the rows that matching
//! found. Matching is between them, in the process that merges.
//!
//! A run in periods has two other stages ([`crate::merge::in_periods`]). Units that *count* make the periods independent. Then each
//! unit merges a *period*, with its matching.
//!
//! | file | content |
//! |---|---|
//! | [`parts`] | directory of inputs and outputs, on storage that all processes reach |
//! | [`input`] | input of a unit |
//! | [`read`] | stage 1: ranks, clocks, communicators, steps; reads the logs |
//! | [`write`] | stage 2: rows of operations, steps and stalls; writes their tables |
//! | [`log_input`] | a log that is opened by its index |
//! | [`count`] | counts messages and graph replays, for periods |
//! | [`period`] | input of the merge of a period |
//! | [`error`] | errors of an attempt |
//! | [`unit`] | runs a unit |
//! | [`output`] | what a unit returns; its file is the receipt of an attempt |
//! | [`driver`] | makes the units, has them run, and takes one attempt of each |
//!
//! A unit may run several times, also at the same time: engines repeat the work of processes that they believe dead. Each
//! attempt has its own directory, and writes its receipt last. The driver takes exactly one attempt with a receipt. So
//! nothing is counted twice, and the result does not depend on what an engine reports.

pub mod count;
pub mod driver;
pub mod error;
pub mod input;
pub mod log_input;
pub mod output;
pub mod parts;
pub mod period;
pub mod read;
pub mod unit;
pub mod write;
