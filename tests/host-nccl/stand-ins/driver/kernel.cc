// Kernels are functions of the host, registered by their library. They run on the thread of their stream.
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../exported.h"
#include "../host_kernel.h"
#include "context.h"
#include "log.h"
#include "stream.h"

using host_nccl::Replay;
using host_nccl::Stream;

namespace {

std::mutex& mutex = *new std::mutex;
std::map<const void*, const HostKernel*>& kernels = *new std::map<const void*, const HostKernel*>;

typedef std::vector<char> Arguments;

// Lays the arguments out as a device sees them: each at a multiple of its size, up to 8, or 16 for larger structures.
Arguments packed(const HostKernel& kernel, void** parameters) {
  Arguments out;
  for (int i = 0; i < kernel.argumentCount; i++) {
    const size_t size = kernel.argumentBytes[i];
    const size_t alignment = size >= 16 ? 16 : size >= 8 ? 8 : size;
    while (out.size() % alignment != 0) out.push_back(0);
    const char* bytes = static_cast<const char*>(parameters[i]);
    out.insert(out.end(), bytes, bytes + size);
  }
  return out;
}

// Returns the arguments of a launch whose caller has laid them out.
Arguments given(void** extra) {
  const char* bytes = nullptr;
  size_t size = 0;
  for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) bytes = static_cast<const char*>(extra[i + 1]);
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<size_t*>(extra[i + 1]);
  }
  return bytes == nullptr ? Arguments() : Arguments(bytes, bytes + size);
}

CUresult launch(CUfunction function, unsigned blocks, unsigned threads, CUstream handle, void** parameters, void** extra) {
  static std::atomic<unsigned long long> launches{0};
  const auto* kernel = reinterpret_cast<const HostKernel*>(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto stream = Stream::of(handle);
  const auto arguments = std::make_shared<Arguments>(extra != nullptr ? given(extra) : packed(*kernel, parameters));
  const int device = stream->context->device;
  const unsigned long long id = stream->id;
  return stream->submit(CU_GRAPH_NODE_TYPE_KERNEL, [=](Replay replay) {
    HostLaunch launch = {};
    launch.kernel = kernel->name;
    launch.blocks = blocks, launch.threads = threads;
    launch.device = device, launch.stream = id;
    launch.number = ++launches;
    launch.isReplay = replay.isGraph;
    launch.arguments = arguments->data(), launch.argumentBytes = arguments->size();
    kernel->run(&launch);
  });
}

}  // namespace

EXPORTED void hostKernelRegister(const HostKernel* table, int count) {
  std::lock_guard<std::mutex> guard(mutex);
  for (int i = 0; i < count; i++) kernels[table[i].symbol] = &table[i];
}

EXPORTED void* hostKernelOfSymbol(const void* symbol) {
  std::lock_guard<std::mutex> guard(mutex);
  const auto found = kernels.find(symbol);
  return found == kernels.end() ? nullptr : const_cast<HostKernel*>(found->second);
}

EXPORTED CUresult cuLaunchKernel(
    CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
    CUstream stream, void** parameters, void** extra) {
  return launch(function, blocks, threads, stream, parameters, extra);
}

// Launch attributes (clusters, memory synchronization domains, launch completion events) do not change what runs.
EXPORTED CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  for (unsigned i = 0; i < config->numAttrs; i++) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
      host_nccl::logOnce("a launch completion event");
    }
  }
  return launch(function, config->gridDimX, config->blockDimX, config->hStream, parameters, extra);
}

EXPORTED CUresult cuFuncGetName(const char** name, CUfunction function) {
  *name = reinterpret_cast<const HostKernel*>(function)->name;
  return CUDA_SUCCESS;
}
