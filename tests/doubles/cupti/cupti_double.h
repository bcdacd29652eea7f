// The part of CUPTI's interface that the double has, and the double's reports. Written independently from its
// documentation, and checked by measurement against the headers of 14 versions. Not NVIDIA's header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupti {

enum Result {
  kSuccess = 0,
  kInvalidParameter = 1,
  kInvalidContext = 3,
  kInvalidOperation = 7,
  kSizeNotSufficient = 10,
  kMaxLimitReached = 12,
  kNotCompatible = 14,
  kNotInitialised = 15,
  kQueueEmpty = 18,
  kInvalidStream = 20,
  kInvalidKind = 21,
  kTaken = 39,
  kUnknown = 999,
};

enum Kind : uint32_t {
  kCopy = 1,
  kSet = 2,
  kSerialKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kGraphTrace = 51,
  kKinds = 60,
};

// Object to which an overhead belongs.
enum Object : uint32_t { kThreadObject = 2, kContextObject = 4 };
enum Taken : uint32_t { kBufferFlush = 1 << 16, kInstrumentation = 2 << 16, kCommandBufferFull = 6 << 16 };

// Records as in 11.8. Later versions start with the same fields.
struct Kernel {
  uint32_t kind;
  uint8_t cacheConfig, sharedMemoryConfig;
  uint16_t registersPerThread;
  uint32_t cacheRequested, cacheExecuted;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t staticSharedMemory, dynamicSharedMemory;
  uint32_t localMemoryPerThread, localMemoryTotal;
  uint32_t correlation;
  int64_t gridId;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launchType, carveoutIsRequested, carveoutRequested, padding;
  uint32_t sharedMemoryExecuted;
  uint64_t graphNode;
  uint32_t sharedMemoryLimit, graph;
  void* accessPolicy;
  uint32_t channel, channelType;
  uint32_t cluster[3], clusterPolicy;
  uint64_t localMemoryTotal2;
};
struct Copy {
  uint32_t kind;
  uint8_t direction, from, to, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtimeCorrelation, padding;
  void* reserved;
  uint64_t graphNode;
  uint32_t graph, channel, channelType, padding2;
};
struct Set {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memoryKind;
  uint32_t padding;
  void* reserved;
  uint64_t graphNode;
  uint32_t graph, channel, channelType, padding2;
};
struct GraphTrace {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
  void* reserved;
};
struct Api {
  uint32_t kind, function;
  uint64_t start, end;
  uint32_t process, thread, correlation, returned;
};
struct ExternalCorrelation {
  uint32_t kind, externalKind;
  uint64_t id;
  uint32_t correlation, reserved;
};
struct Synchronization {
  uint32_t kind, what;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};
struct Overhead {
  uint32_t kind, what, objectKind;
  uint32_t process, thread, padding;
  uint64_t start, end;
};
static_assert(sizeof(Kernel) == 200 && offsetof(Kernel, correlation) == 92 && offsetof(Kernel, name) == 104);
static_assert(offsetof(Kernel, graphNode) == 144 && offsetof(Kernel, channel) == 168 && sizeof(GraphTrace) == 48);
static_assert(sizeof(Copy) == 88 && offsetof(Copy, correlation) == 44 && offsetof(Copy, graphNode) == 64);
static_assert(sizeof(Set) == 88 && offsetof(Set, correlation) == 44 && offsetof(Set, graphNode) == 64);
static_assert(sizeof(Api) == 40 && sizeof(ExternalCorrelation) == 24 && sizeof(Synchronization) == 40);
static_assert(sizeof(Overhead) == 40 && offsetof(Overhead, start) == 24);

using Requested = void (*)(uint8_t** buffer, size_t* size, size_t* mostRecords);
using Completed = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
using Timestamp = uint64_t (*)();
using Callback = void (*)(void* data, uint32_t domain, uint32_t function, const void* what);

struct CallbackData {
  // 0 at the start of the call, 1 at its end.
  uint32_t site;
  const char* functionName;
  const void* arguments;
  void* returned;
  const char* symbolName;
  uintptr_t context;
  uint32_t contextId;
  uint64_t* correlationData;
  uint32_t correlation;
};
static_assert(sizeof(CallbackData) == 72);

struct SubscriberParameters {
  size_t size;
  const char* name;
  char* oldName;
  size_t oldSize;
  uint8_t allowsOthers, padding[7];
};
static_assert(sizeof(SubscriberParameters) == 40);

}  // namespace cupti

extern "C" {
// Returns the number of forbidden actions. They are a call without a driver, a flush that breaks a capture, the end of
// CUPTI, a call after it, and activity of the first interface in addition to the second.
int cuptiDoubleViolations(void);
// Returns the number of flushes that never return.
uint64_t cuptiDoubleStuck(void);
// Returns the number of buffers that CUPTI holds.
int cuptiDoubleOutstanding(void);
// Returns the enabled kinds as bits.
uint64_t cuptiDoubleKinds(void);
// Returns the function to which buffers are currently delivered.
void* cuptiDoubleCallbacks(void);
// Returns the number of records of kernels, copies, sets and graphs written so far.
uint64_t cuptiDoubleRecords(void);
}
