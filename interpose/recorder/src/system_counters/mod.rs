//! Counters of the system, which the recorder's thread samples: memory and processor time of the process, and memory and
//! network traffic of its host.
//!
//! | file | content |
//! |---|---|
//! | `memory` | memory of the process; available memory |
//! | `processor_time` | processor time per class of threads |
//! | `network` | traffic of network interfaces |
//! | `samples` | the records |
//!
//! One process per host samples the host: the one with local rank 0. A process without a local rank samples it, too.
//!
//! All files are those of `/proc` and of control groups, which the kernel answers from memory. Counters of devices can block
//! for a minute, and the process could not end meanwhile.

mod memory;
mod network;
mod processor_time;
mod samples;

use crate::adapters::Adapter;
use crate::{configuration, life};
use memory::Memory;
use network::Network;
use processor_time::ProcessorTime;
use rankscope_ranklog::lanes::LaneSet;
use samples::Samples;
use std::cell::Cell;
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
    /// Used on the recorder's thread only; null if there are no samples. A forked child has another recorder's thread, and so a
    /// fresh state. The sampler is never freed: thread-local state of the library has no destructor.
    static SAMPLER: Cell<*mut Sampler> = const { Cell::new(std::ptr::null_mut()) };
}

fn begin(_: &LaneSet) {
    let Some(interval) = configuration::counter_interval() else {
        return;
    };
    // A file that is opened in the program's table could be closed by its `closefrom`, and takes its numbers.
    if !life::has_own_descriptors() {
        return;
    }
    let samples_host = configuration::local_rank().is_none_or(|local_rank| local_rank == 0);
    let sampler = Sampler {
        interval,
        last: Instant::now(),
        samples: Samples::new(),
        memory: Memory::new(samples_host),
        processor_time: ProcessorTime::new(),
        network: samples_host.then(|| Network::new(Path::new("/"))),
    };
    SAMPLER.set(Box::into_raw(Box::new(sampler)));
}

fn each_second(_: &Path) -> usize {
    // SAFETY: null, or a sampler that this thread has leaked. Only this function uses it, and it does not call itself.
    if let Some(sampler) = unsafe { SAMPLER.get().as_mut() } {
        sampler.sample();
    }
    0
}

impl Sampler {
    fn sample(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.last) + TOLERANCE < self.interval {
            return;
        }
        self.last = now;
        self.memory.sample(&self.samples);
        self.processor_time.sample(&self.samples);
        if let Some(network) = &mut self.network {
            network.sample(&self.samples);
        }
    }
}
