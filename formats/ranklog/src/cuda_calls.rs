//! CUDA functions whose calls are recorded: those that launch device work, and those that wait for a device.
//!
//! The numbers are from `CUpti_driver_api_trace_cbid` and `CUpti_runtime_api_trace_cbid`. They are the same in every
//! CUPTI since 11.8. A test compares them with the generated bindings.

/// CUDA function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaFunction {
    /// Number of the function in the list of its library.
    pub number: u32,
    /// True for the list of the runtime library, false for the list of the driver.
    pub is_runtime: bool,
    /// True if the function returns only when the device is done.
    pub waits: bool,
    /// Name of the function in programs.
    pub name: &'static str,
}

const fn driver(number: u32, name: &'static str, waits: bool) -> CudaFunction {
    CudaFunction {
        number,
        is_runtime: false,
        waits,
        name,
    }
}

const fn runtime(number: u32, name: &'static str, waits: bool) -> CudaFunction {
    CudaFunction {
        is_runtime: true,
        ..driver(number, name, waits)
    }
}

/// All recorded functions. A name occurs a second time for the variant in which a null stream is the per-thread stream.
pub const CUDA_FUNCTIONS: &[CudaFunction] = &[
    driver(17, "cuCtxSynchronize", true),
    driver(121, "cuEventSynchronize", true),
    driver(126, "cuStreamSynchronize", true),
    driver(216, "cuMemsetD8Async", false),
    driver(218, "cuMemsetD16Async", false),
    driver(220, "cuMemsetD32Async", false),
    driver(276, "cuMemcpyHtoD", true),
    driver(277, "cuMemcpyHtoDAsync", false),
    driver(278, "cuMemcpyDtoH", true),
    driver(279, "cuMemcpyDtoHAsync", false),
    driver(281, "cuMemcpyDtoDAsync", false),
    driver(289, "cuMemcpy2DAsync", false),
    driver(305, "cuMemcpy", true),
    driver(306, "cuMemcpyAsync", false),
    driver(307, "cuLaunchKernel", false),
    driver(319, "cuMemcpyPeerAsync", false),
    driver(397, "cuMemcpyHtoD", true),
    driver(398, "cuMemcpyDtoH", true),
    driver(408, "cuMemcpy", true),
    driver(418, "cuMemcpyAsync", false),
    driver(421, "cuMemcpyHtoDAsync", false),
    driver(422, "cuMemcpyDtoHAsync", false),
    driver(423, "cuMemcpyDtoDAsync", false),
    driver(424, "cuMemcpy2DAsync", false),
    driver(426, "cuMemcpyPeerAsync", false),
    driver(428, "cuMemsetD8Async", false),
    driver(429, "cuMemsetD16Async", false),
    driver(430, "cuMemsetD32Async", false),
    driver(440, "cuStreamSynchronize", true),
    driver(442, "cuLaunchKernel", false),
    driver(477, "cuLaunchCooperativeKernel", false),
    driver(478, "cuLaunchCooperativeKernel", false),
    driver(514, "cuGraphLaunch", false),
    driver(515, "cuGraphLaunch", false),
    driver(652, "cuLaunchKernelEx", false),
    driver(653, "cuLaunchKernelEx", false),
    driver(776, "cuMemcpyBatchAsync", false),
    driver(777, "cuMemcpyBatchAsync", false),
    driver(797, "cuMemcpyBatchAsync", false),
    runtime(31, "cudaMemcpy", true),
    runtime(41, "cudaMemcpyAsync", false),
    runtime(44, "cudaMemcpy2DAsync", false),
    runtime(47, "cudaMemcpyToSymbolAsync", false),
    runtime(49, "cudaMemset", false),
    runtime(51, "cudaMemsetAsync", false),
    runtime(131, "cudaStreamSynchronize", true),
    runtime(137, "cudaEventSynchronize", true),
    runtime(161, "cudaMemcpyPeerAsync", false),
    runtime(165, "cudaDeviceSynchronize", true),
    runtime(211, "cudaLaunchKernel", false),
    runtime(214, "cudaLaunchKernel", false),
    runtime(215, "cudaMemcpy", true),
    runtime(225, "cudaMemcpyAsync", false),
    runtime(228, "cudaMemcpy2DAsync", false),
    runtime(231, "cudaMemcpyToSymbolAsync", false),
    runtime(233, "cudaMemset", false),
    runtime(235, "cudaMemsetAsync", false),
    runtime(239, "cudaStreamSynchronize", true),
    runtime(269, "cudaLaunchCooperativeKernel", false),
    runtime(311, "cudaGraphLaunch", false),
    runtime(312, "cudaGraphLaunch", false),
    runtime(430, "cudaLaunchKernelExC", false),
    runtime(431, "cudaLaunchKernelExC", false),
    runtime(482, "cudaMemcpyBatchAsync", false),
    runtime(483, "cudaMemcpyBatchAsync", false),
    runtime(509, "cudaMemcpyBatchAsync", false),
    runtime(510, "cudaMemcpyBatchAsync", false),
];

/// Returns the function with this number.
pub fn cuda_function(number: u32, is_runtime: bool) -> Option<&'static CudaFunction> {
    cuda_function_position(number, is_runtime).map(|position| &CUDA_FUNCTIONS[position])
}

/// Upper bound (exclusive) of the numbers that are looked up. All known numbers are below it.
const NUMBERS: usize = 1024;
/// Value for "no function".
const NONE: u8 = u8::MAX;

/// Positions in [`CUDA_FUNCTIONS`] by the number of the driver, and by the number of the runtime library.
static POSITIONS: [[u8; NUMBERS]; 2] = {
    let mut positions = [[NONE; NUMBERS]; 2];
    let mut position = CUDA_FUNCTIONS.len();
    while position > 0 {
        // The loop runs backwards, so that of equal numbers the first one counts.
        position -= 1;
        let known = &CUDA_FUNCTIONS[position];
        positions[known.is_runtime as usize][known.number as usize] = position as u8;
    }
    positions
};

/// Returns the position of the function in [`CUDA_FUNCTIONS`].
pub fn cuda_function_position(number: u32, is_runtime: bool) -> Option<usize> {
    let position = *POSITIONS[usize::from(is_runtime)].get(number as usize)?;
    (position != NONE).then_some(usize::from(position))
}
