// The part of the driver's double for programs that bring their kernels as text: primary contexts, memory, modules,
// captures. The text is not executed. Its functions are known by their names (rankscope's selftest).
#pragma once

namespace {

const DoubleFunction kModuleFunctions[] = {
    {"rankscope_small", 2000, kDoubleAdds},
    {"rankscope_early", 2000, kDoubleAdds},
    {"rankscope_late", 2000, kDoubleAdds},
    {"rankscope_spin", 0, kDoubleSpins},
};

// A graph that a program captured. It lives to the end of the process.
struct CapturedGraph {
  DoubleGraph graph;
  std::vector<DoubleNode> nodes;
};

// CUPTI's number of an asynchronous copy on the device.
constexpr int kDoubleOnDevice = 281;

enum { kMajor = 75, kMinor = 76 };

}  // namespace

extern "C" {

int cuDeviceGetCount(int* count) {
  if (!isReady) return kNotInitialised;
  const char* text = std::getenv("CUDA_DOUBLE_DEVICES");
  *count = text != nullptr ? std::atoi(text) : 1;
  return kSuccess;
}

// A device of compute capability 9.0 without memory pools.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (!isReady) return kNotInitialised;
  if (device < 0 || device >= kDevices) return kInvalidValue;
  *value = attribute == kMajor ? 9 : 0;
  return kSuccess;
}

int cuDevicePrimaryCtxRetain(uintptr_t* context, int device) {
  if (!isReady || isForked) return kNotInitialised;
  *context = contextOf(device);
  return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }

int cuCtxSetCurrent(uintptr_t context) {
  if (!isReady) return kNotInitialised;
  depth = 0;
  if (context != 0) contexts[depth++] = context;
  return kSuccess;
}

// The memory of the device is memory of the host. A kernel of NCCL's double does not use it.
int cuMemAlloc_v2(uintptr_t* address, size_t bytes) {
  if (depth == 0) return kInvalidContext;
  void* made = std::calloc(1, bytes);
  if (made == nullptr) return kInvalidValue;
  *address = reinterpret_cast<uintptr_t>(made);
  const Guard guard;
  allocated.emplace_back(*address, *address + bytes);
  return kSuccess;
}

// Work on the device may still use it, so it is kept.
int cuMemFree_v2(uintptr_t) { return kSuccess; }

int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, DoubleStream* stream) {
  Call call(kDoubleOnDevice);
  return give(call, stream, kDoubleCopy, "DtoD", 2000, bytes, kOnDevice, nullptr, copying(to, from, to));
}

int cuModuleLoadData(const void** module, const void* image) {
  if (depth == 0) return kInvalidContext;
  *module = image;
  return kSuccess;
}

int cuModuleUnload(const void*) { return kSuccess; }

int cuModuleGetFunction(const DoubleFunction** function, const void*, const char* name) {
  for (const DoubleFunction& known : kModuleFunctions) {
    if (std::strcmp(known.mangledName, name) == 0) {
      *function = &known;
      return kSuccess;
    }
  }
  return 500;  // CUDA_ERROR_NOT_FOUND
}

int cuStreamBeginCapture_v2(DoubleStream* stream, int) {
  const Guard guard;
  if (stream == nullptr || capture.stream != nullptr) return violated(kInvalidValue);
  stream->capturing = true;
  capture.stream = stream;
  capture.works.clear();
  return kSuccess;
}

int cuStreamEndCapture(DoubleStream* stream, CapturedGraph** graph) {
  static std::atomic<uint32_t> graphs{1000};
  static std::atomic<uint64_t> nodes{1 << 20};
  const Guard guard;
  if (stream != capture.stream) return violated(kInvalidValue);
  stream->capturing = false;
  capture.stream = nullptr;
  auto* made = new CapturedGraph();
  for (const Captured& work : capture.works) {
    DoubleNode node{nodes++, work.function, work.kind, work.bytes, work.argument};
    made->nodes.push_back(node);
  }
  made->graph = {graphs++, static_cast<int>(made->nodes.size()), made->nodes.data()};
  *graph = made;
  return kSuccess;
}

int cuGraphInstantiateWithFlags(const DoubleGraph** executable, CapturedGraph* graph, unsigned long long) {
  *executable = &graph->graph;
  return kSuccess;
}

int cuGraphDestroy(CapturedGraph*) { return kSuccess; }
int cuGraphExecDestroy(const DoubleGraph*) { return kSuccess; }
}
