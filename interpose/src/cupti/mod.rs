//! What devices do, as CUPTI tells: kernels, copies, graphs, and the calls that asked for them, linked to the calls of
//! communication libraries. Only where it is asked for (`--kernels`).
//!
//! What keeps it harmless (research: CUPTI's attachment, conflicts and life): no function of CUPTI is called before the
//! program itself has initialised a driver; CUPTI always gets a buffer; it is never finalised and never subscribed to;
//! a forked child does not touch it; who profiles beside us finds everything as if we were not there ([`others`]).

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
pub mod watch;

use crate::core::adapters::Adapter;
use crate::core::configuration;
use mode::Wanted;

/// CUPTI's thread runs beside the recorder if device activity is requested.
pub static ADAPTER: Adapter = Adapter {
    started,
    each_second: |run_directory| {
        control::look(run_directory);
        usize::from(watch::is_running())
    },
    finish: watch::finish,
    ..Adapter::NOTHING
};

fn started() {
    if let Some(wanted) = configuration::kernels().and_then(Wanted::parse) {
        watch::start(Some(wanted));
    }
}
