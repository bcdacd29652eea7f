//! What devices do, as CUPTI tells: kernels, copies, graphs, and the calls that asked for them, linked to the calls of
//! communication libraries. Only where it is asked for (`--kernels`).
//!
//! What keeps it harmless (research: CUPTI's attachment, conflicts and life): no function of CUPTI is called before the
//! program itself has initialised a driver; CUPTI always gets a buffer; it is never finalised and never subscribed to;
//! a forked child does not touch it; who profiles beside us finds everything as if we were not there ([`others`]).

pub mod buffers;
pub mod control;
mod dump;
pub mod links;
pub mod mode;
pub mod names;
pub mod others;
pub mod records;
pub mod session;
pub mod streams;
pub mod watch;
