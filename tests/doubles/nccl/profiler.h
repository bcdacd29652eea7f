// The half of the double that speaks to profiler plugins, and the device whose work they are told of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_double.h"

namespace profiler {

// What one operation is asked to do.
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

// The calling thread works on this device: the driver is loaded, as the real library does when it first needs one. Here
// its double, which lies beside this one.
void usesDevice(int device);

// The communicator is made: the plugin is loaded where it is not yet, and told. Null where neither a plugin nor a device
// is asked for.
Communicator* opened(uint64_t id, const char* name, int size, int rank, int device);
void closed(Communicator*);

// The program called: the plugin is told as version 5 and later do, and the operation becomes one or several tasks.
void called(Communicator*, const Info&, cudaStream_t, bool captured, std::vector<Task>&);

// The launch of a graph, from its begin to its end: its kernels carry the call's correlation and are its nodes.
struct Replay {
  explicit Replay(uint32_t graph);
  ~Replay();
  DoubleCall call;
  const uint32_t graph;
  uint64_t nodes = 0;
};

// A plan reaches the stream: its kernel is launched, then the plugin is told of its tasks, and the device works on it.
void launched(Communicator*, std::vector<Task>, Replay* = nullptr);

// Waits until the device has done all that was launched.
void synchronized(Communicator*);

size_t elementBytes(int type);

}  // namespace profiler
