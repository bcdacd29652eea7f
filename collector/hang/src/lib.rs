//! What every rank of a job does at one moment, and why a job hangs (METRICS.md, section 13).
//!
//! The data flows through these files:
//!
//! | file | content |
//! |---|---|
//! | [`process`], [`facts_of_logs`] | facts of a process, from /proc and from its log |
//! | [`view`] | what is known of a job at one moment |
//! | [`look`] | reads a view from the logs of a run |
//! | [`waits`] | who waits for whom |
//! | [`causes`] | what stops the operations that ranks wait in |
//! | [`patience`] | how long a wait may last |
//! | [`verdict`], [`words`] | sentences and evidence |
//! | [`document`] | the document [`rankscope_formats::status::Status`] |
//! | [`stacks`] | stacks of the ranks that others wait for |
//! | [`judge`] | looks again and again |
//! | [`process_handle`], [`memory_kills`], [`endings`], [`ending`] | how processes ended that are not children |
//! | [`lasting_calls`] | a cheap look: which calls last |
//! | [`watch`] | when to look, and what to report once |

pub mod causes;
pub mod document;
pub mod ending;
pub mod endings;
pub mod facts_of_logs;
pub mod judge;
pub mod lasting_calls;
pub mod look;
pub mod memory_kills;
pub mod patience;
pub mod process;
pub mod process_handle;
pub mod stacks;
pub mod verdict;
pub mod view;
pub mod waits;
pub mod watch;
pub mod words;

pub use judge::{Judge, JudgeOptions};
