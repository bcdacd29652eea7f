//! Kernels with known start and end, copies, sets and graphs.

use super::kernel_text::{self, EARLY, LATE, SMALL, SPIN};
use super::other_profiler::OtherProfiler;
use super::truth::{DeviceTruth, Graph, KnownKernel};
use crate::cuda::{Device, Memory};
use crate::nccl::functions::{Functions, UniqueId};
use anyhow::{Context, Result};
use cudarc::driver::sys::{CUfunction, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaStream, result};
use rankscope_ranklog::clock::clock_ns;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Lengths of the known kernels, in microseconds, one after the other.
const LENGTHS_US: [u64; 8] = [20, 50, 100, 200, 500, 30, 80, 1000];
/// Small kernels in a batch, which three copies and a set follow.
const BATCH: u64 = 100;
/// Time after which the recorder has taken CUPTI back from another profiler.
const UNTIL_RESUMED: Duration = Duration::from_secs(5);
/// Time before the end of a program in which CUPTI may not have delivered its records: the recorder requests them every
/// second.
const UNDELIVERED_NS: i64 = 1_500_000_000;
/// Replays of each graph.
const REPLAYS: u64 = 100;
/// Kernels in a graph.
const IN_GRAPH: u64 = 5;
/// Bytes of a copy or a set.
const COPIED: u64 = 16 << 10;
/// Offset of the stamps in the memory of the device. Before them are the words of the small kernels, and the copies.
const STAMPS: u64 = 256 << 10;
/// Bytes per stamp pair.
const STAMP_BYTES: u64 = 16;
/// Threads of a small kernel.
const THREADS: u32 = 32;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Number of known kernels.
    pub known: u64,
    /// Number of small kernels.
    pub small: u64,
    /// Pause after each batch, in microseconds.
    pub pause_us: u64,
    /// Whether a graph is replayed that is created while the recording is on.
    pub has_late_graph: bool,
    /// Whether a graph is replayed that was created before.
    pub has_early_graph: bool,
    /// Whether another profiler records the middle third of the known kernels.
    pub has_other_profiler: bool,
}

/// A device with its kernels.
pub struct Kernels {
    device: Device,
    streams: [Arc<CudaStream>; 2],
    memory: Memory,
    small: CUfunction,
    early: CUfunction,
    late: CUfunction,
    spin: CUfunction,
}

impl Kernels {
    /// Compiles the kernels. There is room for the stamps of `known` kernels.
    pub fn load(known: u64) -> Result<Self> {
        let device = Device::open(0)?;
        let (major, minor) = device.context().compute_capability()?;
        let text = CString::new(kernel_text::text(major, minor))?;
        // SAFETY: the text is a module, which the driver copies. It is never unloaded.
        let module = unsafe { result::module::load_data(text.as_ptr().cast()) }
            .context("the driver does not compile the kernels")?;
        let function = |name: &str| -> Result<CUfunction> {
            // SAFETY: the module is loaded.
            Ok(unsafe { result::module::get_function(module, CString::new(name)?) }?)
        };
        let stream = || device.context().new_stream();
        Ok(Self {
            streams: [stream()?, stream()?],
            memory: device.memory(STAMPS + known * STAMP_BYTES)?,
            small: function(SMALL)?,
            early: function(EARLY)?,
            late: function(LATE)?,
            spin: function(SPIN)?,
            device,
        })
    }

    /// Launches a small kernel. Each stream has its own words.
    pub fn launch_small(&self, stream: usize) -> Result<()> {
        self.launch(self.small, stream, self.words(stream), 0)
    }

    /// Waits for all work.
    pub fn wait(&self) -> Result<()> {
        self.device.context().synchronize().context("the device failed")
    }

    fn words(&self, stream: usize) -> u64 {
        self.memory.address(stream as u64 * 4096) as u64
    }

    fn launch(&self, function: CUfunction, stream: usize, mut first: u64, mut second: u64) -> Result<()> {
        let threads = if function == self.spin { 1 } else { THREADS };
        let mut arguments: [*mut c_void; 2] = [(&raw mut first).cast(), (&raw mut second).cast()];
        let stream = self.streams[stream].cu_stream();
        // SAFETY: each kernel has at most these two arguments, and its memory lives as long as `self`.
        unsafe { result::launch_kernel(function, (1, 1, 1), (threads, 1, 1), 0, stream, &mut arguments) }
            .context("a launch failed")
    }

    fn copies_and_set(&self, truth: &mut DeviceTruth) -> Result<()> {
        let at = |offset: u64| self.memory.address(offset) as u64;
        let [one, other] = [self.streams[0].cu_stream(), self.streams[1].cu_stream()];
        let mut host = [0u8; COPIED as usize];
        // SAFETY: all ranges are in the memory of the device, behind the words and before the stamps. The host's buffer
        // outlives its copies, which are waited for.
        unsafe {
            result::memcpy_htod_async(at(64 << 10), &host, one)?;
            result::memcpy_dtod_async(at(96 << 10), at(64 << 10), COPIED as usize, one)?;
            result::memcpy_dtoh_async(&mut host, at(64 << 10), other)?;
            result::memset_d8_async(at(128 << 10), 7, COPIED as usize, other)?;
            result::stream::synchronize(one)?;
            result::stream::synchronize(other)?;
        }
        truth.copies += 3;
        truth.sets += 1;
        Ok(())
    }

    fn known(&self, number: u64, truth: &mut DeviceTruth) -> Result<()> {
        let place = truth.known.len() as u64;
        let stream = (place % 2) as usize;
        let length_us = LENGTHS_US[(number % LENGTHS_US.len() as u64) as usize];
        truth.known.push(KnownKernel {
            start_ns: 0,
            end_ns: 0,
            stream: stream as u8,
            launch_ns: now_ns(),
        });
        truth.kernels += 1;
        let where_to = self.memory.address(STAMPS + place * STAMP_BYTES) as u64;
        self.launch(self.spin, stream, where_to, length_us * 1000)
    }

    /// Reads the stamps of the known kernels.
    fn stamps(&self, truth: &mut DeviceTruth) -> Result<()> {
        let bytes = self
            .memory
            .download(STAMPS, truth.known.len() as u64 * STAMP_BYTES)?;
        let (stamps, _) = bytes.as_chunks::<8>();
        for (known, pair) in truth.known.iter_mut().zip(stamps.chunks(2)) {
            known.start_ns = u64::from_le_bytes(pair[0]);
            known.end_ns = u64::from_le_bytes(pair[1]);
        }
        Ok(())
    }

    /// Captures a set, kernels and a copy into a graph.
    fn capture(&self, function: CUfunction) -> Result<CudaGraph> {
        let stream = &self.streams[0];
        // In relaxed mode, calls of other threads do not disturb the capture.
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
        let captured = || -> Result<()> {
            let at = |offset: u64| self.memory.address(offset) as u64;
            // SAFETY: the ranges are in the memory of the device.
            unsafe { result::memset_d8_async(at(128 << 10), 0, 4096, stream.cu_stream()) }?;
            for _ in 0..IN_GRAPH {
                self.launch(function, 0, self.memory.address(8192) as u64, 0)?;
            }
            // SAFETY: as above.
            unsafe { result::memcpy_dtod_async(at(96 << 10), at(64 << 10), 4096, stream.cu_stream()) }?;
            Ok(())
        };
        let result = captured();
        let graph = stream
            .end_capture(CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)?
            .context("nothing was captured")?;
        result.map(|()| graph)
    }
}

/// Runs the work, and returns the truth. `nccl` is the library of a communicator of one rank, whose creation starts the
/// recorder. `ready` must switch the recording on, and return when it is on.
pub fn run(nccl: &Path, work: &Work, ready: impl FnOnce() -> Result<()>) -> Result<DeviceTruth> {
    let kernels = Kernels::load(work.known)?;
    let early = if work.has_early_graph {
        Some(kernels.capture(kernels.early)?)
    } else {
        None
    };
    let mut truth = DeviceTruth {
        connect_ns: connect(nccl)?,
        ..DeviceTruth::default()
    };
    kernels.wait()?;
    ready()?;
    let mut progress: Vec<(i64, u64)> = Vec::new();
    let mut other = None;
    for number in 0..work.known {
        if work.has_other_profiler && number == work.known / 3 {
            kernels.wait()?;
            other = Some(OtherProfiler::start()?);
        }
        if number == work.known * 2 / 3
            && let Some(other) = other.take()
        {
            kernels.wait()?;
            let launched = work.known * 2 / 3 - work.known / 3;
            truth.seen_by_other = Some(other.stop(launched)?);
            thread::sleep(UNTIL_RESUMED);
        }
        kernels.known(number, &mut truth)?;
        if number % LENGTHS_US.len() as u64 == 0 {
            kernels.wait()?;
            thread::sleep(Duration::from_micros(work.pause_us));
        }
        progress.push((now_ns(), truth.works()));
    }
    let mut launched = 0;
    while launched < work.small {
        for _ in 0..BATCH.min(work.small - launched) {
            kernels.launch_small((launched % 2) as usize)?;
            launched += 1;
            truth.kernels += 1;
            truth.small += 1;
        }
        kernels.copies_and_set(&mut truth)?;
        progress.push((now_ns(), truth.works()));
        thread::sleep(Duration::from_micros(work.pause_us));
    }
    let late = if work.has_late_graph {
        Some(kernels.capture(kernels.late)?)
    } else {
        None
    };
    for (graph, kernel, is_early) in [(early, EARLY, true), (late, LATE, false)] {
        let Some(graph) = graph else { continue };
        for _ in 0..REPLAYS {
            graph.launch()?;
            truth.kernels += IN_GRAPH;
            truth.copies += 1;
            truth.sets += 1;
        }
        kernels.wait()?;
        truth.graphs.push(Graph {
            kernel: kernel.to_owned(),
            kernels: IN_GRAPH,
            replays: REPLAYS,
            is_early,
        });
    }
    kernels.wait()?;
    let end_ns = now_ns();
    progress.push((end_ns, truth.works()));
    truth.launched_before_last_delivery = progress
        .iter()
        .rev()
        .find(|(when, _)| *when <= end_ns - UNDELIVERED_NS)
        .map_or(0, |(_, works)| *works);
    // The program's own readings are copies, too.
    kernels.stamps(&mut truth)?;
    truth.copies += 1;
    let words = kernels.memory.download(0, 2 * 4096)?;
    truth.copies += 1;
    let word = |at: usize| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
    truth.counted_on_device = Some(u64::from(word(0)) + u64::from(word(4096)));
    Ok(truth)
}

/// Creates a communicator of one rank, which lives to the end of the process: destroying it may be work on the device.
/// Returns the times before and after.
pub fn connect(nccl: &Path) -> Result<(i64, i64)> {
    let functions = Functions::load(nccl)?;
    let mut id = UniqueId { bytes: [0; 128] };
    let mut comm = ptr::null_mut();
    // SAFETY: the arguments are valid memory, and a device is current.
    unsafe {
        functions.check("ncclGetUniqueId", (functions.get_unique_id)(&raw mut id))?;
        let before = now_ns();
        functions.check(
            "ncclCommInitRank",
            (functions.comm_init_rank)(&raw mut comm, 1, id, 0),
        )?;
        Ok((before, now_ns()))
    }
}

/// Returns CLOCK_MONOTONIC_RAW, in nanoseconds.
fn now_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW)
}
