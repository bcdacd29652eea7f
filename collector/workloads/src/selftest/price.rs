//! Time of a call or a launch, as the program sees it.

use super::device_work::{self, Kernels};
use crate::backend::Backend;
use crate::case::{Case, Pattern};
use crate::data::DataType;
use anyhow::Result;
use rankscope_formats::bench::{BenchSpread, Placement};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Launches in a block.
const IN_BLOCK: u32 = 500;
/// Calls in a block. A call of Gloo takes some hundred times as long as a launch.
const CALLS: u32 = 50;
/// Blocks.
const BLOCKS: usize = 41;

/// Time after which a recorder that was started by the first call records everything, also with CUPTI.
const UNTIL_RECORDED: Duration = Duration::from_secs(4);

/// Returns the median time of a launch of a small kernel, in nanoseconds. A communicator of NCCL starts the recorder.
pub fn of_launch(nccl: &Path) -> Result<f64> {
    let kernels = Kernels::load(0)?;
    device_work::connect(nccl)?;
    thread::sleep(UNTIL_RECORDED);
    let mut blocks = Vec::new();
    for _ in 0..BLOCKS {
        let start = Instant::now();
        for _ in 0..IN_BLOCK {
            kernels.launch_small(0)?;
        }
        blocks.push(start.elapsed().as_nanos() as f64 / f64::from(IN_BLOCK));
        // The queue of the device must not fill up: a launch would wait for it.
        kernels.wait()?;
    }
    Ok(BenchSpread::of(&blocks).p50)
}

/// Returns the median time of a small all-reduce on the connected ranks, in nanoseconds. All ranks must call it.
pub fn of_call(backend: &mut dyn Backend, ranks: u32) -> Result<f64> {
    let case = Case::of_size(
        Pattern::AllReduce,
        DataType::Float32,
        8,
        ranks,
        Placement::OutOfPlace,
    );
    let mut prepared = backend.prepare(&case)?;
    prepared.run(CALLS)?;
    let mut blocks = Vec::new();
    for _ in 0..BLOCKS {
        let start = Instant::now();
        prepared.run(CALLS)?;
        blocks.push(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    Ok(BenchSpread::of(&blocks).p50)
}
