//! The kernels, and the streams that they run on.

use crate::options::Options;
use crate::truth::Stamp;
use cudarc::driver::{self, CudaContext, CudaEvent, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{self, compile_ptx};
use std::error::Error;
use std::sync::Arc;

/// Both spin for `length` ns and write down when they began and ended. What NCCL's own kernels are called begins so.
const SOURCE: &str = r#"
__device__ unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
__device__ void spin(unsigned long long *stamps, unsigned long long length) {
    unsigned long long start = now(), end = start;
    while (end - start < length) end = now();
    stamps[0] = start;
    stamps[1] = end;
}
extern "C" __global__ void overlap_compute(unsigned long long *stamps, unsigned long long length) {
    spin(stamps, length);
}
extern "C" __global__ void ncclDevKernel_Overlap_Known(unsigned long long *stamps, unsigned long long length) {
    spin(stamps, length);
}
"#;

/// A block of one thread: the device has room for both at once.
const ONE_THREAD: LaunchConfig = LaunchConfig {
    grid_dim: (1, 1, 1),
    block_dim: (1, 1, 1),
    shared_mem_bytes: 0,
};
/// Kernels of a round at most.
const IN_ROUND: usize = 3;

/// Where a round runs.
pub struct Kernels {
    compute: CudaFunction,
    communication: CudaFunction,
    compute_stream: Arc<CudaStream>,
    communication_stream: Arc<CudaStream>,
    /// The communication may begin.
    begun: CudaEvent,
    /// Begin and end of each kernel that was launched. Nothing has to be copied back, which would be work.
    stamps: Stamps,
    launched: Vec<bool>,
    before_us: u64,
    beside_us: u64,
    communication_us: u64,
}

impl Kernels {
    /// Compiles and loads them, and runs each once: what is loaded late would be late in the first round.
    pub fn new(options: &Options) -> Result<Self, Box<dyn Error>> {
        // SAFETY: looks whether the libraries can be loaded: without one the next call would end the program.
        let (has_driver, has_compiler) =
            unsafe { (driver::sys::is_culib_present(), nvrtc::sys::is_culib_present()) };
        if !has_driver || !has_compiler {
            return Err("there is no CUDA driver, or no NVRTC (libnvrtc.so.13 in LD_LIBRARY_PATH)".into());
        }
        let context = CudaContext::new(0)?;
        // SAFETY: no memory is handed from stream to stream. Otherwise it would order the two for us.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(compile_ptx(SOURCE)?)?;
        let mut kernels = Self {
            compute: module.load_function("overlap_compute")?,
            communication: module.load_function("ncclDevKernel_Overlap_Known")?,
            compute_stream: context.new_stream()?,
            communication_stream: context.new_stream()?,
            begun: context.new_event(None)?,
            stamps: Stamps::new(IN_ROUND * options.rounds)?,
            launched: Vec::new(),
            before_us: options.compute_us - options.overlapped_us(),
            beside_us: options.overlapped_us(),
            communication_us: options.communication_us,
        };
        kernels.launch(false, 1)?;
        kernels.launch(true, 1)?;
        kernels.wait()?;
        kernels.launched.clear();
        Ok(kernels)
    }

    fn launch(&mut self, is_communication: bool, us: u64) -> Result<(), Box<dyn Error>> {
        let address = self.stamps.of(self.launched.len());
        let ns = us * 1000;
        let (stream, function) = if is_communication {
            (&self.communication_stream, &self.communication)
        } else {
            (&self.compute_stream, &self.compute)
        };
        // SAFETY: the two arguments of the kernel; the memory has room for all kernels of all rounds.
        unsafe {
            stream
                .launch_builder(function)
                .arg(&address)
                .arg(&ns)
                .launch(ONE_THREAD)
        }?;
        self.launched.push(is_communication);
        Ok(())
    }

    fn wait(&self) -> Result<(), Box<dyn Error>> {
        self.compute_stream.synchronize()?;
        self.communication_stream.synchronize()?;
        Ok(())
    }

    /// Compute before the communication, compute beside it, and what is left of the communication alone; returns when
    /// all that is over.
    pub fn round(&mut self) -> Result<(), Box<dyn Error>> {
        if self.before_us > 0 {
            self.launch(false, self.before_us)?;
        }
        self.begun.record(&self.compute_stream)?;
        self.communication_stream.wait(&self.begun)?;
        self.launch(true, self.communication_us)?;
        if self.beside_us > 0 {
            self.launch(false, self.beside_us)?;
        }
        self.wait()
    }

    /// When they began and ended.
    pub fn stamps(&self) -> Vec<Stamp> {
        let of_kernel = |(place, &is_communication): (usize, &bool)| {
            let [start, end] = self.stamps.read(place);
            Stamp {
                is_communication,
                start,
                end,
            }
        };
        self.launched.iter().enumerate().map(of_kernel).collect()
    }
}

/// Two numbers per kernel in memory of the host that the device writes to by the same address.
struct Stamps {
    base: *mut u64,
    kernels: usize,
}

impl Stamps {
    fn new(kernels: usize) -> Result<Self, Box<dyn Error>> {
        let bytes = 2 * kernels * size_of::<u64>();
        // SAFETY: a context is current. It is kept until the process ends, and nobody reads it before it is filled.
        let base = unsafe {
            let base = driver::result::malloc_host(bytes, driver::sys::CU_MEMHOSTALLOC_DEVICEMAP)?;
            std::ptr::write_bytes(base.cast::<u8>(), 0, bytes);
            base.cast()
        };
        Ok(Self { base, kernels })
    }

    /// Where a kernel writes them.
    fn of(&self, kernel: usize) -> u64 {
        assert!(kernel < self.kernels, "more kernels than were planned");
        self.base.wrapping_add(2 * kernel) as u64
    }

    /// What it wrote; its stream was waited for.
    fn read(&self, kernel: usize) -> [u64; 2] {
        let place = self.of(kernel) as *const u64;
        // SAFETY: inside of what was allocated.
        unsafe { [place.read_volatile(), place.add(1).read_volatile()] }
    }
}
