// The part of the double that calls profiler plugins, and the device whose work it reports to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_double.h"

namespace profiler {

// Arguments of one operation.
struct Info {
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int type;
  int root;
};

// An operation between its call and the end of its kernel.
struct Task {
  Info info;
  bool isMessage;
  void* apiHandle;
  void* handle;
  int channels;
  cudaStream_t stream;
  int64_t calledNs;
};

class Communicator;

// Makes this device the calling thread's. Loads the driver, as the real library does when it first needs it. Here that
// is the driver's double in the same directory.
void usesDevice(int device);

// A communicator is created. Loads the plugin if necessary, and initialises it. Returns null if neither a plugin nor a
// device is configured.
Communicator* opened(uint64_t id, const char* name, int size, int rank, int device);
void closed(Communicator*);

// A call of the program. Reports it to the plugin as version 5 and later do, and turns it into one or several tasks.
void called(Communicator*, const Info&, cudaStream_t, bool captured, std::vector<Task>&);

// The launch of a graph, from its start to its end. Its kernels carry the call's correlation ID and are nodes of the
// graph.
struct Replay {
  explicit Replay(uint32_t graph);
  ~Replay();
  DoubleCall call;
  const uint32_t graph;
  uint64_t nodes = 0;
};

// Launches a plan on its stream. Reports its tasks to the plugin and launches its kernel, which the device then
// executes.
void launched(Communicator*, std::vector<Task>, Replay* = nullptr);

// Waits until the device has done all launched work.
void synchronized(Communicator*);

size_t elementBytes(int type);

}  // namespace profiler
