//! SQL queries on sessions.
//!
//! [`Runs`] finds the sessions of directories, [`Engine`] has their tables ([`tables`], [`documents`]) and rankscope's
//! functions ([`functions`]), and [`output`] writes results. DataFusion plans and runs the queries. This crate computes no metric:
//! the tables have the figures of METRICS.md, and the functions call the code that computed them.

pub mod documents;
pub mod engine;
pub mod errors;
pub mod functions;
pub mod output;
pub mod prompt;
pub mod runs;
pub mod statements;
pub mod tables;

pub use engine::{Engine, EngineOptions};
pub use runs::{Run, Runs};
