//! Counters of the system, which the recorder's thread samples: memory and processor time of the process, and memory and
//! network traffic of its host.
//!
//! | file | content |
//! |---|---|
//! | `memory` | memory of the process; memory that is left |
//! | `processor_time` | processor time per class of threads |
//! | `network` | traffic of network interfaces and of InfiniBand ports |
//! | `samples` | the records |
//!
//! One process per host samples the host: the one with local rank 0. A process without a local rank samples it, too.

mod memory;
mod network;
mod processor_time;
mod samples;

use crate::adapters::Adapter;
use crate::configuration;
use memory::Memory;
use network::Network;
use processor_time::ProcessorTime;
use rankscope_ranklog::lanes::LaneSet;
use samples::Samples;
use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

/// Samples the counters. `RANKSCOPE_COUNTERS` sets the interval, or switches it off.
pub static ADAPTER: Adapter = Adapter {
    ready: begin,
    each_second,
    ..Adapter::NOTHING
};

/// The recorder calls once a second, or a little later. A call that comes this much early is on time.
const TOLERANCE: Duration = Duration::from_millis(250);

/// State between two samples.
struct Sampler {
    interval: Duration,
    last: Instant,
    samples: Samples,
    memory: Memory,
    processor_time: ProcessorTime,
    /// `None` if another process samples the host.
    network: Option<Network>,
}

thread_local! {
    /// Used on the recorder's thread only. A forked child has another recorder's thread, and so a fresh state.
    static SAMPLER: RefCell<Option<Box<Sampler>>> = const { RefCell::new(None) };
}

fn begin(_: &LaneSet) {
    let Some(interval) = configuration::counter_interval() else {
        return;
    };
    let samples_host = configuration::local_rank().is_none_or(|local_rank| local_rank == 0);
    let sampler = Sampler {
        interval,
        last: Instant::now(),
        samples: Samples::new(),
        memory: Memory::new(samples_host),
        processor_time: ProcessorTime::new(),
        network: samples_host.then(|| Network::new(Path::new("/"))),
    };
    SAMPLER.with_borrow_mut(|place| *place = Some(Box::new(sampler)));
}

fn each_second(_: &Path) -> usize {
    SAMPLER.with_borrow_mut(|sampler| {
        if let Some(sampler) = sampler {
            sampler.sample();
        }
    });
    0
}

impl Sampler {
    fn sample(&mut self) {
        let now = Instant::now();
        let elapsed = now.duration_since(self.last);
        if elapsed + TOLERANCE < self.interval {
            return;
        }
        self.last = now;
        self.samples.begin_interval(elapsed);
        self.memory.sample(&self.samples);
        self.processor_time.sample(&self.samples);
        if let Some(network) = &mut self.network {
            network.sample(&self.samples);
        }
    }
}
