// What the double of the driver tells beside its interface, and what the double of NCCL tells it.
#pragma once

#include <stdint.h>

#include "nccl_double.h"

extern "C" {
// The calling thread works on this device from now on, if it works on none: as cudaSetDevice does.
void cuDoubleUse(int device);
// It works on this one from now on.
void cuDoubleSwitch(int device);
// A kernel was put on a stream; it is done.
void cuDoubleSubmitted(struct DoubleStream*, int device);
void cuDoubleCompleted(struct DoubleStream*, int device, int64_t rawNs);
// What nobody must do: questions that break a capture, events on a stream that is captured, handles that are none, a
// thread left in another context or mode.
int cuDoubleViolations(void);
// Events that were made and not destroyed.
int cuDoubleEvents(void);
}

// ---- work ----------------------------------------------------------------------------------------------------------

// A function of the device: how long its kernels run.
struct DoubleFunction {
  const char* mangledName;
  int64_t durationNs;
};

// A graph: its kernels run one after the other.
struct DoubleNode {
  uint64_t id;
  const DoubleFunction* function;
};
struct DoubleGraph {
  uint32_t id;
  int count;
  const DoubleNode* nodes;
};

enum { kDoubleKernel, kDoubleCopy, kDoubleSet, kDoubleGraph };

// What the device was given. Times are CLOCK_MONOTONIC_RAW, 0 while they are not known.
struct DoubleWork {
  int kind;
  // Of a copy, by CUPTI's numbers: 1 to the device, 2 from it.
  int direction;
  const char* name;
  uint64_t bytes;
  // Streams and contexts are numbered as CUPTI does.
  uint32_t device, context, stream, correlation, graph;
  uint64_t node;
  uint32_t grid[3], block[3];
  int64_t launchNs, startNs, stopNs;
  // What the tracer keeps of it; null if nothing.
  void* traced;
};

// The numbers of the calls that are traced, which are CUPTI's.
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

// A call of the driver under way, on its thread's stack.
struct DoubleCall {
  // Null if nobody traces; whoever did when it began is told how it ended.
  const struct DoubleTracer* tracer;
  uint32_t function, correlation;
  // The tracer's own.
  uint64_t enteredAt, correlationData;
  bool isRecorded;
};

// Who traces. Nothing is locked in the driver when these are called, but for finished: it must call nobody.
struct DoubleTracer {
  // Gives out the call's correlation.
  void (*enter)(DoubleCall*);
  void (*exit)(DoubleCall*, int result);
  // Before the device has it.
  void (*launched)(DoubleWork*);
  // It is over: its times are known. Only of what the tracer keeps something of.
  void (*finished)(const DoubleWork*);
  // The call waited for a stream, or for a context (no stream).
  void (*waited)(const DoubleCall*, uint32_t context, uint32_t stream);
};

extern "C" {
// From now on, and null: nobody does. What was launched before is told to whoever traced then.
void cuDoubleTraceBy(const DoubleTracer*);
// Whoever traces is told of all that is over.
void cuDoubleSettle(void);
// When this began, 0 if it has not. To be asked only of what was not told to be finished.
int64_t cuDoubleStartOf(const DoubleWork*);
// The driver was initialised, and this is not a child of the process that did.
int cuDoubleIsReady(void);
// Somebody captures in a way that a question of the calling thread breaks.
int cuDoubleIsBroken(void);
// Numbers as CUPTI has them; 0 if there is no such thing.
uint32_t cuDoubleContextId(uintptr_t context);
uint32_t cuDoubleStreamId(struct DoubleStream*);

// Calls and kernels of other doubles. A launch answers null if nobody wants to know; a kernel's turn is when what this
// driver put on its stream before it is over.
void cuDoubleEnter(DoubleCall*, int function);
void cuDoubleExit(DoubleCall*, int result);
DoubleWork* cuDoubleLaunch(const DoubleCall*, struct DoubleStream*, int device, const char* name, uint32_t graph, uint64_t node);
void cuDoubleTurn(DoubleWork*);
void cuDoubleFinish(DoubleWork*, int64_t startNs, int64_t stopNs);

// Kernels, copies and sets that the device was given in this process.
uint64_t cuDoubleLaunched(void);
// Is told of everything that is over. It must call nobody.
void cuDoubleWatch(void (*)(const DoubleWork*));
// Writes all of the truth (see cuda.cc), as at the end of the process: for one that ends otherwise.
void cuDoubleTell(void);

// The driver's interface, as far as it is not declared in the programs.
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
