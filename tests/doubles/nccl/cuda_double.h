// Reports of the driver's double in addition to its interface, and its inputs from the double of NCCL.
#pragma once

#include <stdint.h>

#include "nccl_double.h"

extern "C" {
// Makes this device the calling thread's, if it has none, as cudaSetDevice does.
void cuDoubleUse(int device);
// Makes this device the calling thread's.
void cuDoubleSwitch(int device);
// A kernel was put on a stream, or is done.
void cuDoubleSubmitted(struct DoubleStream*, int device);
void cuDoubleCompleted(struct DoubleStream*, int device, int64_t rawNs);
// Returns the number of forbidden actions: queries that break a capture, events on a captured stream, invalid handles,
// or a thread left in a different context or mode.
int cuDoubleViolations(void);
// Returns the number of events that were created and not destroyed.
int cuDoubleEvents(void);
}

// ---- work ----------------------------------------------------------------------------------------------------------

// What the kernels of a function do. Others do nothing.
enum {
  kDoubleIdle,
  // Add 1 to 32 words. The first argument is their address.
  kDoubleAdds,
  // Run for a time, and store begin and end. The arguments are the address and the nanoseconds.
  kDoubleSpins,
};

// A function of the device, with the duration of its kernels.
struct DoubleFunction {
  const char* mangledName;
  int64_t durationNs;
  int effect = kDoubleIdle;
};

// A node of a graph. The nodes run one after the other.
struct DoubleNode {
  uint64_t id;
  const DoubleFunction* function;
  // A kernel, or a copy or set of `bytes` without a function.
  int kind = 0;
  uint64_t bytes = 0;
  // First argument of a kernel.
  uint64_t argument = 0;
};
struct DoubleGraph {
  uint32_t id;
  int count;
  const DoubleNode* nodes;
};

enum { kDoubleKernel, kDoubleCopy, kDoubleSet, kDoubleGraph };

// Work that was given to the device. Times are CLOCK_MONOTONIC_RAW, and 0 while they are unknown.
struct DoubleWork {
  int kind;
  // Direction of a copy, by CUPTI's numbers: 1 to the device, 2 from it.
  int direction;
  const char* name;
  uint64_t bytes;
  // Streams and contexts have CUPTI's numbers.
  uint32_t device, context, stream, correlation, graph;
  uint64_t node;
  uint32_t grid[3], block[3];
  int64_t launchNs, startNs, stopNs;
  // The tracer's data about this work, or null.
  void* traced;
  // What the work does when it is over: an effect of a kernel at `target`, or a copy from `source`. 0: nothing.
  int effect;
  uint64_t target, source;
};

// CUPTI's numbers of the traced calls.
enum {
  kDoubleGetVersion = 2,
  kDoubleCtxSynchronize = 17,
  kDoubleStreamSynchronize = 126,
  kDoubleMemset = 216,
  kDoubleToDevice = 277,
  kDoubleToHost = 279,
  kDoubleLaunchKernel = 307,
  kDoubleGraphLaunch = 514,
  kDoubleLaunchKernelEx = 652,
};

// A call of the driver in flight, on its thread's stack.
struct DoubleCall {
  // Null without a tracer. The tracer at the start of the call also gets its end.
  const struct DoubleTracer* tracer;
  uint32_t function, correlation;
  // Data of the tracer.
  uint64_t enteredAt, correlationData;
  bool isRecorded;
};

// Callbacks of a tracer. The driver holds no lock while it calls them. The exception is `finished`, which must call no
// function of the driver.
struct DoubleTracer {
  // Assigns the call's correlation ID.
  void (*enter)(DoubleCall*);
  void (*exit)(DoubleCall*, int result);
  // Called before the device gets the work.
  void (*launched)(DoubleWork*);
  // Called when the work is over and its times are known, only if the tracer has data about it.
  void (*finished)(const DoubleWork*);
  // The call waited for a stream, or for a context (no stream).
  void (*waited)(const DoubleCall*, uint32_t context, uint32_t stream);
};

extern "C" {
// Sets the tracer, or removes it (null). Earlier launches are reported to the tracer of that time.
void cuDoubleTraceBy(const DoubleTracer*);
// Reports all finished work to the tracer.
void cuDoubleSettle(void);
// Returns the start of the work, 0 if it has not started. Only valid for work that was not reported as finished.
int64_t cuDoubleStartOf(const DoubleWork*);
// Returns whether the driver is initialised in this process itself, not in its parent.
int cuDoubleIsReady(void);
// Returns whether there is a capture that a query of the calling thread would break.
int cuDoubleIsBroken(void);
// Return CUPTI's numbers, or 0 if the object does not exist.
uint32_t cuDoubleContextId(uintptr_t context);
uint32_t cuDoubleStreamId(struct DoubleStream*);

// Calls and kernels of other doubles. A launch returns null if nothing needs it. A kernel may start once the earlier
// work of this driver on its stream is over.
void cuDoubleEnter(DoubleCall*, int function);
void cuDoubleExit(DoubleCall*, int result);
DoubleWork* cuDoubleLaunch(const DoubleCall*, struct DoubleStream*, int device, const char* name, uint32_t graph, uint64_t node);
void cuDoubleTurn(DoubleWork*);
void cuDoubleFinish(DoubleWork*, int64_t startNs, int64_t stopNs);

// Returns the number of kernels, copies and sets given to the device in this process.
uint64_t cuDoubleLaunched(void);
// Sets a function that gets all finished work. It must call no function of the driver.
void cuDoubleWatch(void (*)(const DoubleWork*));
// Writes the whole truth (see cuda.cc), as at the end of the process, for a process that ends otherwise.
void cuDoubleTell(void);

// The part of the driver's interface that the programs do not declare.
int cuInit(unsigned flags);
int cuDriverGetVersion(int*);
int cuLaunchKernel(
    const DoubleFunction*, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, unsigned blockZ,
    unsigned shared, struct DoubleStream*, void** arguments, void** extra);
int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, struct DoubleStream*);
int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, struct DoubleStream*);
int cuMemsetD8Async(uintptr_t to, unsigned char value, size_t bytes, struct DoubleStream*);
int cuGraphLaunch(const DoubleGraph*, struct DoubleStream*);
int cuStreamSynchronize(struct DoubleStream*);
int cuCtxSynchronize(void);
}
