// A test double of libcuda.so.1: streams on which kernels of the other double run, events that happen when what was
// put on their stream before them is done, contexts, and captures that a careless question breaks.
//
// It allocates nothing and takes no lock that a test would count. By the environment:
//   NCCL_DOUBLE_SLOW_US=N     what is put on a stream that the driver made happens so much later, as behind other work
//   NCCL_DOUBLE_FAILS=N       the N-th question and all after it fail, as when a kernel has crashed
//   NCCL_DOUBLE_CLOCK=NS,PPM  the device's timer runs so much faster than CLOCK_MONOTONIC_RAW
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cuda_double.h"

namespace {

enum { kSuccess = 0, kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotReady = 600, kIllegalAddress = 700, kCaptureUnsupported = 900 };
enum { kGlobal = 0, kRelaxed = 2 };
constexpr int kStreams = 64, kEvents = 8192, kRemembered = 4096;

struct Queue {
  std::atomic<DoubleStream*> stream;
  int64_t submitted, completed;
  int64_t doneNs[kRemembered];
};
Queue queues[kStreams];
DoubleStream ownStreams[kStreams], defaultStreams[8];
int ownCount = 0;

struct Event {
  bool isMade;
  uintptr_t context;
  Queue* queue;
  int64_t recordedNs, after, happenedNs;
};
Event events[kEvents];
std::atomic<int> eventCount, violations, questions;

// Not a mutex: what is under test must take none, and this is not what is under test.
std::atomic_flag busy = ATOMIC_FLAG_INIT;
struct Guard {
  Guard() { while (busy.test_and_set(std::memory_order_acquire)) sched_yield(); }
  ~Guard() { busy.clear(std::memory_order_release); }
};

thread_local uintptr_t contexts[8];
thread_local int depth = 0;
thread_local int mode = kGlobal;

int64_t rawNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

double ppm() {
  static const double value = [] {
    long long ahead = 0;
    double ppm = 0;
    if (const char* text = std::getenv("NCCL_DOUBLE_CLOCK")) std::sscanf(text, "%lld,%lf", &ahead, &ppm);
    return ppm;
  }();
  return value;
}

uintptr_t contextOf(int device) { return 0xC0DE000 + static_cast<uintptr_t>(device) * 0x100; }

Queue* queueOf(DoubleStream* stream) {
  for (Queue& queue : queues) {
    if (queue.stream == stream) return &queue;
    if (queue.stream == nullptr) {
      queue.stream = stream;
      return &queue;
    }
  }
  std::abort();
}

// A null stream is the default one of whatever device the thread works on.
DoubleStream* meant(DoubleStream* stream) {
  if (stream != nullptr || depth == 0) return stream;
  const int device = static_cast<int>((contexts[depth - 1] - contextOf(0)) / 0x100);
  defaultStreams[device].device = device;
  return &defaultStreams[device];
}

// In the default mode of a thread its questions break every other capture.
bool isBroken() {
  if (mode == kRelaxed) return false;
  for (Queue& queue : queues)
    if (queue.stream != nullptr && queue.stream.load()->capturing) return true;
  return false;
}

int violated(int result) {
  violations++;
  return result;
}

bool hasHappened(Event& event) {
  if (event.happenedNs != 0) return true;
  if (event.queue == nullptr || event.queue->completed < event.after || rawNs() < event.recordedNs) return false;
  const int64_t before = event.after > 0 ? event.queue->doneNs[(event.after - 1) % kRemembered] : 0;
  event.happenedNs = std::max(event.recordedNs, before);
  return true;
}

Event* eventAt(uintptr_t handle) {
  const uintptr_t number = handle - 1;
  return number < kEvents && events[number].isMade ? &events[number] : nullptr;
}

}  // namespace

extern "C" {

int cuStreamIsCapturing(DoubleStream* stream, int* status) {
  const Guard guard;
  if (stream != nullptr) queueOf(stream);
  *status = stream != nullptr && stream->capturing;
  return kSuccess;
}

int cuStreamGetCtx(DoubleStream* stream, uintptr_t* context) {
  if (stream != nullptr && stream->capturing) return violated(kCaptureUnsupported);
  *context = stream != nullptr ? contextOf(stream->device) : depth > 0 ? contexts[depth - 1] : 0;
  return *context != 0 ? kSuccess : kInvalidContext;
}

int cuStreamCreate(DoubleStream** stream, unsigned) {
  const Guard guard;
  if (isBroken()) return violated(kCaptureUnsupported);
  if (depth == 0 || ownCount == kStreams) return kInvalidContext;
  *stream = &ownStreams[ownCount++];
  (*stream)->device = static_cast<int>((contexts[depth - 1] - contextOf(0)) / 0x100);
  return kSuccess;
}

int cuStreamDestroy_v2(DoubleStream* stream) { return stream >= ownStreams && stream < ownStreams + kStreams ? kSuccess : kInvalidHandle; }

int cuEventCreate(uintptr_t* event, unsigned flags) {
  const Guard guard;
  if (flags != 0) return violated(kInvalidValue);
  if (depth == 0) return kInvalidContext;
  for (int at = 0; at < kEvents; at++) {
    if (events[at].isMade) continue;
    events[at] = {true, contexts[depth - 1], nullptr, 0, 0, 0};
    *event = static_cast<uintptr_t>(at) + 1;
    eventCount++;
    return kSuccess;
  }
  return kInvalidValue;
}

int cuEventDestroy_v2(uintptr_t handle) {
  const Guard guard;
  Event* event = eventAt(handle);
  if (event == nullptr) return violated(kInvalidHandle);
  event->isMade = false;
  eventCount--;
  return kSuccess;
}

int cuEventRecord(uintptr_t handle, DoubleStream* stream) {
  const Guard guard;
  Event* event = eventAt(handle);
  stream = meant(stream);
  if (event == nullptr || stream == nullptr) return violated(kInvalidHandle);
  if (stream->capturing) return violated(kCaptureUnsupported);
  if (event->context != contextOf(stream->device)) return violated(kInvalidHandle);
  event->queue = queueOf(stream);
  static const long slowNs = std::getenv("NCCL_DOUBLE_SLOW_US") != nullptr ? std::atol(std::getenv("NCCL_DOUBLE_SLOW_US")) * 1000 : 0;
  const bool isOwn = stream >= ownStreams && stream < ownStreams + kStreams;
  event->recordedNs = rawNs() + (isOwn ? slowNs : 0);
  event->after = event->queue->submitted;
  event->happenedNs = 0;
  return kSuccess;
}

int cuEventQuery(uintptr_t handle) {
  const Guard guard;
  Event* event = eventAt(handle);
  if (event == nullptr) return violated(kInvalidHandle);
  if (isBroken()) return violated(kCaptureUnsupported);
  static const int fails = std::getenv("NCCL_DOUBLE_FAILS") != nullptr ? std::atoi(std::getenv("NCCL_DOUBLE_FAILS")) : 0;
  // Who was told once asks no more.
  if (fails > 0 && ++questions >= fails) return questions == fails ? kIllegalAddress : violated(kIllegalAddress);
  return hasHappened(*event) ? kSuccess : kNotReady;
}

int cuEventElapsedTime(float* ms, uintptr_t start, uintptr_t end) {
  const Guard guard;
  Event *first = eventAt(start), *second = eventAt(end);
  if (first == nullptr || second == nullptr || first->context != second->context) return violated(kInvalidHandle);
  if (depth == 0) return violated(kInvalidContext);
  if (!hasHappened(*first) || !hasHappened(*second)) return kNotReady;
  const double ns = static_cast<double>(second->happenedNs - first->happenedNs) * (1 + ppm() * 1e-6);
  *ms = static_cast<float>(ns * 1e-6);
  return kSuccess;
}

int cuCtxGetCurrent(uintptr_t* context) {
  *context = depth > 0 ? contexts[depth - 1] : 0;
  return kSuccess;
}

int cuCtxGetId(uintptr_t context, uint64_t* id) {
  *id = context * 7;
  return kSuccess;
}

int cuCtxGetDevice(int* device) {
  if (depth == 0) return kInvalidContext;
  *device = static_cast<int>((contexts[depth - 1] - contextOf(0)) / 0x100);
  return kSuccess;
}

int cuCtxPushCurrent_v2(uintptr_t context) {
  if (depth == 8) return kInvalidValue;
  contexts[depth++] = context;
  return kSuccess;
}

int cuCtxPopCurrent_v2(uintptr_t* context) {
  if (depth == 0) return violated(kInvalidContext);
  *context = contexts[--depth];
  return kSuccess;
}

int cuThreadExchangeStreamCaptureMode(int* other) {
  std::swap(mode, *other);
  return kSuccess;
}

// ---- what the double tells and is told ------------------------------------------------------------------------------

void cuDoubleUse(int device) {
  if (depth == 0) contexts[depth++] = contextOf(device);
}

void cuDoubleSwitch(int device) {
  depth = 0;
  cuDoubleUse(device);
}

void cuDoubleSubmitted(DoubleStream* stream, int device) {
  const Guard guard;
  if (stream == nullptr) stream = &defaultStreams[device];
  queueOf(stream)->submitted++;
}

void cuDoubleCompleted(DoubleStream* stream, int device, int64_t rawNs) {
  const Guard guard;
  if (stream == nullptr) stream = &defaultStreams[device];
  Queue* queue = queueOf(stream);
  queue->doneNs[queue->completed % kRemembered] = rawNs;
  queue->completed++;
}

int cuDoubleViolations() { return violations + (depth > 1) + (mode != kGlobal); }
int cuDoubleEvents() { return eventCount; }
}
