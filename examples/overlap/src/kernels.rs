//! Kernels and the streams on which they run.

use crate::options::Options;
use crate::truth::Stamp;
use cudarc::driver::{self, CudaContext, CudaEvent, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{self, compile_ptx};
use std::error::Error;
use std::sync::Arc;

/// Source of both kernels. They spin for `length` ns and store their start and end. The second name starts like those
/// of NCCL's own kernels.
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

/// One block of one thread, so that the device has capacity for both kernels at once.
const ONE_THREAD: LaunchConfig = LaunchConfig {
    grid_dim: (1, 1, 1),
    block_dim: (1, 1, 1),
    shared_mem_bytes: 0,
};
/// Maximum number of kernels in a round.
const IN_ROUND: usize = 3;

/// Kernels, streams and results of the rounds.
pub struct Kernels {
    compute: CudaFunction,
    communication: CudaFunction,
    compute_stream: Arc<CudaStream>,
    communication_stream: Arc<CudaStream>,
    /// Event after which the communication may start.
    begun: CudaEvent,
    /// Start and end of each launched kernel. No copy back is needed, which would be a work itself.
    stamps: Stamps,
    launched: Vec<bool>,
    before_us: u64,
    beside_us: u64,
    communication_us: u64,
}

impl Kernels {
    /// Compiles and loads the kernels, and runs each once, because lazy loading would delay the first round.
    pub fn new(options: &Options) -> Result<Self, Box<dyn Error>> {
        // SAFETY: the calls only check whether the libraries can be loaded. Without one the next call would end the
        // program.
        let (has_driver, has_compiler) =
            unsafe { (driver::sys::is_culib_present(), nvrtc::sys::is_culib_present()) };
        if !has_driver || !has_compiler {
            return Err("there is no CUDA driver, or no NVRTC (libnvrtc.so.13 in LD_LIBRARY_PATH)".into());
        }
        let context = CudaContext::new(0)?;
        // SAFETY: no memory is passed from stream to stream, so the tracking is not needed. It would order the two
        // streams.
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
        // SAFETY: the arguments are the two of the kernel, and the memory has capacity for all kernels of all rounds.
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

    /// Runs the compute before the communication, the compute concurrent with it, and the rest of the communication
    /// alone. Returns when all of it is over.
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

    /// Returns the start and end of the kernels.
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

/// Two numbers per kernel in host memory, to which the device writes by the same address.
struct Stamps {
    base: *mut u64,
    kernels: usize,
}

impl Stamps {
    fn new(kernels: usize) -> Result<Self, Box<dyn Error>> {
        let bytes = 2 * kernels * size_of::<u64>();
        // SAFETY: a context is current. The memory is kept until the process ends, and is filled before anything reads
        // it.
        let base = unsafe {
            let base = driver::result::malloc_host(bytes, driver::sys::CU_MEMHOSTALLOC_DEVICEMAP)?;
            std::ptr::write_bytes(base.cast::<u8>(), 0, bytes);
            base.cast()
        };
        Ok(Self { base, kernels })
    }

    /// Returns the address to which a kernel writes.
    fn of(&self, kernel: usize) -> u64 {
        assert!(kernel < self.kernels, "more kernels than were planned");
        self.base.wrapping_add(2 * kernel) as u64
    }

    /// Returns the numbers that a kernel wrote. The caller has waited for its stream.
    fn read(&self, kernel: usize) -> [u64; 2] {
        let place = self.of(kernel) as *const u64;
        // SAFETY: both reads are inside the allocated memory.
        unsafe { [place.read_volatile(), place.add(1).read_volatile()] }
    }
}
