// A reduction over one rank: it scales the data or copies it. From 2.19 on, NCCL launches it without work structures.
#include "nccl_headers.h"

#if NCCL_VERSION_CODE >= 22100

#include <cuda_runtime_api.h>

#include "function_table.h"
#include "run.h"

namespace host_nccl {

namespace {

struct Arguments {
  char* to;
  const char* from;
  size_t count;
  int reduction, type;
  uint64_t argument;
};

// Identifies the kernel by its address, and never runs.
void kernel() {}

void run(const HostLaunch* launch) {
  const auto& arguments = *static_cast<const Arguments*>(launch->arguments);
  DeviceFunction function;
  function.reduction = arguments.reduction;
  function.type = static_cast<ncclDataType_t>(arguments.type);
  const Reduction reduction = reductionOf(function, arguments.argument);
  reduction.begin(arguments.to, arguments.from, arguments.count * reduction.elementSize());
}

const HostKernel kKernel = {
    reinterpret_cast<const void*>(&kernel), "ncclDevKernel_OneRank", 1, {sizeof(Arguments)}, run};

const bool kIsRegistered = (hostKernelRegister(&kKernel, 1), true);

}  // namespace

}  // namespace host_nccl

ncclResult_t ncclLaunchOneRank(
    void* to, const void* from, size_t count, ncclDevRedOpFull reduction, ncclDataType_t type, cudaStream_t stream) {
  uint64_t argument = reduction.scalarArg;
  if (reduction.scalarArgIsPtr) argument = host_nccl::argumentAt(type, argument);
  host_nccl::Arguments arguments = {
      static_cast<char*>(to), static_cast<const char*>(from), count, static_cast<int>(reduction.op), type, argument};
  // Other reductions over one rank change nothing.
  if (to == from && reduction.op != ncclDevPreMulSum) return ncclSuccess;
  void* parameters[] = {&arguments};
  const cudaError_t error =
      cudaLaunchKernel(reinterpret_cast<const void*>(&host_nccl::kernel), dim3(1), dim3(32), parameters, 0, stream);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

#endif
