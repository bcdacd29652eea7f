//! Records spans, steps, counters and collectives of a Rust program for [rankscope](https://github.com/rankscope/rankscope).
//!
//! [`layer`] is a layer for [`tracing_subscriber`]: it records the spans and events of `tracing`'s macros. What `tracing` cannot
//! express has functions here: the boundary of a step ([`step`]), samples of a counter ([`Counter`]), and collectives that the
//! program performs by its own means ([`Communicator`]). rankscope then shows them on one time axis with those of all other
//! ranks, matches collectives between ranks, and reports who waited for whom.
//!
//! ```
//! use rankscope_layer::{Communicator, Counter, Operation};
//! use tracing_subscriber::prelude::*;
//!
//! static LOSS: Counter = Counter::new("loss");
//!
//! tracing_subscriber::registry().with(rankscope_layer::layer()).init();
//!
//! // This process is member 0 of 1.
//! let ring = Communicator::new("ring", 0, 1);
//! for number in 0..3 {
//!     rankscope_layer::step(number);
//!     let gradients = tracing::info_span!("forward", batch = 32).in_scope(|| vec![1.0f32; 1024]);
//!     {
//!         let _collective = ring.collective(Operation::AllReduce, 4 * 1024);
//!         // ... the program's own all-reduce ...
//!     }
//!     LOSS.sample(f64::from(gradients[0]));
//! }
//! ```
//!
//! # Where the recording goes
//!
//! | situation | recording |
//! |---|---|
//! | `rankscope run -- ./program` | into the log of the preloaded library, beside NCCL, Gloo and CUPTI |
//! | the variable `RANKSCOPE_DIR` names a directory, and nothing is preloaded | this crate's own recorder, into that directory |
//! | [`Builder::directory`] | the same, without the variable |
//! | none of these | nothing is recorded, and every function returns at once |
//!
//! A recorder writes into memory that outlives the process: a killed process loses nothing that was recorded.
//!
//! # Fields with a meaning
//!
//! | field of a span or event | meaning |
//! |---|---|
//! | `step`, an integer | a step begins, as with [`step`]. The number of the current step again has no effect |
//! | `tokens`, `samples`, integers | what the step processes, as with [`count`] |
//!
//! | `rank`, `world`, integers of one span or event | this process is member `rank` of `world` members of the program's communicator |
//! | `op`, a text such as `all-reduce`, of a span | the time inside the span is this operation on that communicator |
//! | `bytes`, `peer`, integers of the same span | its payload, and its peer or root |
//!
//! ```
//! tracing::info!(rank = 1, world = 4, "started");
//! let gradients = vec![0f32; 1024];
//! let bytes = (gradients.len() * size_of::<f32>()) as u64;
//! tracing::info_span!("reduce gradients", op = "all-reduce", bytes).in_scope(|| {
//!     // ... the program's own all-reduce, which blocks ...
//! });
//! ```
//!
//! A span with `op` is for a call that blocks: its first entry is the operation. Each further entry is counted as a loss. For
//! asynchronous operations and for several communicators use [`Communicator`].
//!
//! All other fields are shown with their span. Texts are stored once. A process can have some hundred long or about 4,000 short
//! ones. At most half of them are values and messages, so that names have room. Further ones are dropped and counted.
//!
//! # Counters of the system
//!
//! This crate's own recorder samples the memory and processor time of the process, and memory and network of its host, once a
//! second on its own thread. `RANKSCOPE_COUNTERS=off` switches this off.
//!
//! # Platforms
//!
//! Linux on x86-64 with Rust 1.95. It compiles for aarch64, where nothing has run it. A change of the minimum version of Rust is a
//! minor release.
//!
//! # Cost
//!
//! After a thread's first span, recording takes no lock, does not allocate and makes no system call.
//! A span that a filter disables costs what it costs in `tracing`.

mod access;
mod collective;
mod counter;
mod fields;
mod layer;
mod names;
mod operation;
mod operations;
mod span_texts;
mod spans;
mod threads;

pub use access::{Builder, is_recording};
pub use collective::{Collective, Communicator};
pub use counter::{Counter, count, counter, step};
pub use layer::{RankscopeLayer, layer};
pub use operation::Operation;
