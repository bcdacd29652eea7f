//! Foundations of the end-to-end tests in `tests/tests/`: real processes, with and without the preload.
//!
//! A test takes its turn, makes a job, runs it and compares the recording with the program's own report of what it did
//! (its *truth*):
//!
//! ```no_run
//! use rankscope_tests::{compile, job::Job, turn};
//!
//! let turn = turn::take();
//! let Some(program) = compile::gloo("gloo_all.cc") else { return };
//! let directory = tempfile::tempdir().expect("a temporary directory");
//! let finished = Job::program(&program, 4).record_into(directory.path()).run(&turn);
//! finished.expect_status(0);
//! let truth = finished.truth(0);
//! ```
//!
//! The programs are in `tests/programs/`. The first lines of each describe its purpose. Tests of anything that a
//! machine lacks are skipped with a message ([`skip()`]). With `CI=true` a skip is a failure.

pub mod artefacts;
pub mod behaviour;
pub mod compile;
pub mod counter;
pub mod cupti_run;
pub mod disturbed;
pub mod engine;
pub mod host_nccl;
pub mod http;
pub mod hung;
pub mod job;
pub mod nccl;
pub mod network;
pub mod process;
pub mod python;
pub mod recorded;
pub mod results;
pub mod setup;
mod skip;
pub mod training;
pub mod truth;
pub mod turn;
mod wait;

pub use skip::skip;
pub use wait::wait_until;
