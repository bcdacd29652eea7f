//! Device activity from CUPTI, on request (`--kernels`): kernels, copies, graphs, and the calls that requested them. It
//! is linked to the calls of communication libraries.
//!
//! The following rules keep it harmless (research: CUPTI's attachment, conflicts and life). No CUPTI function is called
//! before the program itself has initialised a driver. CUPTI always gets a buffer. `cuptiFinalize` and `cuptiSubscribe`
//! are never called. A forked child does not touch CUPTI. Another profiler finds everything as it would be without
//! rankscope ([`others`]).

pub mod buffers;
pub mod calls;
pub mod control;
mod dump;
pub mod links;
pub mod mode;
pub mod names;
pub mod others;
pub mod records;
pub mod session;
mod state;
pub mod streams;
mod wake;
pub mod worker;

use crate::core::adapters::Adapter;
use crate::core::configuration;
use mode::ActivityRequest;

/// Runs the CUPTI thread next to the recorder if device activity is requested.
pub static ADAPTER: Adapter = Adapter {
    started,
    each_second: |run_directory| {
        control::poll(run_directory);
        usize::from(worker::is_running())
    },
    finish: worker::finish,
    stepped: |number| {
        if mode::wants_steps() {
            mode::step(number);
        }
    },
    ..Adapter::NOTHING
};

fn started() {
    if let Some(wanted) = configuration::kernels().and_then(ActivityRequest::parse) {
        worker::start(Some(wanted));
    }
}
