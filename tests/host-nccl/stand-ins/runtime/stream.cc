// Streams, events and kernels.
#include <cstring>

#include "../host_kernel.h"
#include "runtime.h"

EXPORTED cudaError_t cudaStreamCreate(cudaStream_t* stream) { return BOUND(cuStreamCreate(stream, 0)); }

EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return BOUND(cuStreamCreate(stream, flags));
}

EXPORTED cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return BOUND(cuStreamCreateWithPriority(stream, flags, priority));
}

EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t stream) { return BOUND(cuStreamDestroy(stream)); }
EXPORTED cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return BOUND(cuStreamSynchronize(stream)); }
EXPORTED cudaError_t cudaStreamQuery(cudaStream_t stream) { return BOUND(cuStreamQuery(stream)); }

EXPORTED cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return BOUND(cuStreamGetId(stream, id));
}

EXPORTED cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return BOUND(cuStreamWaitEvent(stream, event, flags));
}

EXPORTED cudaError_t cudaEventCreate(cudaEvent_t* event) { return BOUND(cuEventCreate(event, 0)); }

EXPORTED cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return BOUND(cuEventCreate(event, flags));
}

EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t event) { return BOUND(cuEventDestroy(event)); }

EXPORTED cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return BOUND(cuEventRecord(event, stream));
}

EXPORTED cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return BOUND(cuEventRecord(event, stream));
}

EXPORTED cudaError_t cudaEventQuery(cudaEvent_t event) { return BOUND(cuEventQuery(event)); }
EXPORTED cudaError_t cudaEventSynchronize(cudaEvent_t event) { return BOUND(cuEventSynchronize(event)); }

EXPORTED cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return BOUND(cuEventElapsedTime(milliseconds, start, end));
}

EXPORTED cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return BOUND(cuLaunchHostFunc(stream, function, data));
}

static CUfunction kernel(const void* symbol) { return static_cast<CUfunction>(hostKernelOfSymbol(symbol)); }

EXPORTED cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  *function = kernel(symbol);
  return *function == nullptr ? host_nccl::kept(CUDA_ERROR_NOT_FOUND) : cudaSuccess;
}

EXPORTED cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 96;
  attributes->ptxVersion = attributes->binaryVersion = 80;
  return kernel(symbol) == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

EXPORTED cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

EXPORTED cudaError_t cudaLaunchKernel(
    const void* symbol, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return BOUND(cuLaunchKernel(
      kernel(symbol), grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared), stream,
      arguments, nullptr));
}

EXPORTED cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* symbol, void** arguments) {
  return cudaLaunchKernel(
      symbol, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}
