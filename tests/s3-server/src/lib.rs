//! An S3 server for tests, with injected failures.
//!
//! [`S3Server`] serves the buckets of a directory on a port of this machine, to any S3 client. The protocol is that of the
//! crates `s3s` and `s3s-fs`. This crate adds three things:
//!
//! - [`Fault`]: refusals, lost connections, cut answers and delays, for chosen requests.
//! - [`Counters`] and [`Request`]: what clients asked for, and how many bytes they moved.
//! - The parts of S3 that `s3s-fs` lacks and readers of sessions need (`store`).
//!
//! ```
//! use rankscope_s3_server::{Effect, Fault, Refusal, S3Server};
//!
//! let root = tempfile::tempdir().expect("a directory");
//! let server = S3Server::start(root.path());
//! server.bucket("runs");
//! // The first two reads of tables are refused, as by a busy bucket.
//! server.faults(vec![Fault::new("GET", "/tables/", Effect::Answer(Refusal::SlowDown)).first(2)]);
//! assert_eq!(server.fired(), [0]);
//! ```

mod body;
mod conditions;
mod connection;
mod fault;
mod front;
mod key_locks;
mod record;
mod schedule;
mod server;
mod store;
mod tags;
mod uploads;

pub use fault::{Effect, Fault, Refusal};
pub use record::{Counters, Request};
pub use server::S3Server;
pub use uploads::Upload;
