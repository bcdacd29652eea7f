// A test double of libcuda.so.1.
//
// It has streams on which kernels of NCCL's double run, events that occur when all earlier work of their stream is
// done, and contexts. It also has captures that an incautious query breaks. Its own device runs kernels, copies and
// sets one after the other on their stream. This needs no thread: their times are known at the launch, and work is over
// when the clock has passed its end. Another double may trace all this (cuda_double.h). Bytes are copied only from and to
// memory that the driver allocated, and two kernels of text modules are executed (cuda_modules.h). Everything else does
// nothing.
//
// Streams, events and contexts make no allocation and take no lock that a test would count. Environment:
//   NCCL_DOUBLE_SLOW_US=N     work on a stream that the driver created starts this much later, as after other work
//   NCCL_DOUBLE_FAILS=N       the N-th query and all later ones fail, as after a crash of a kernel
//   NCCL_DOUBLE_CLOCK=NS,PPM  the device's timer runs this much faster than CLOCK_MONOTONIC_RAW
//   CUDA_DOUBLE_MODEL=NAME    the name of its devices; default "Double of a GPU"
//   CUDA_DOUBLE_VERSION=N     the version that it reports; default 13000
//   CUDA_DOUBLE_DEVICES=N     the number of devices that it counts; default 1
//   CUDA_DOUBLE_SPIN_OFF_NS=N kernels that store their end store it this much too early
//   CUDA_DOUBLE_TRUTH=DIR     a line for every kernel, copy and set is appended to DIR/PID.jsonl when it is over.
//                             At the end of the process, work that is not over is written with stop 0, and with
//                             start 0 if it did not start
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda_double.h"

namespace {

enum { kSuccess = 0, kInvalidValue = 1, kNotInitialised = 3, kInvalidContext = 201, kInvalidHandle = 400, kNotReady = 600, kIllegalAddress = 700, kCaptureUnsupported = 900 };
enum { kGlobal = 0, kRelaxed = 2 };
constexpr int kStreams = 64, kEvents = 8192, kRemembered = 4096, kDevices = 8;

struct Queue;
struct Work : DoubleWork {
  const DoubleTracer* tracer;
  Queue* queue;
  Work* next;
  // The graph that contains this node, if anything may need it.
  Work* whole;
  int64_t durationNs;
  // Whether the work belongs to another double, which reports its times when it is over.
  bool isForeign;
  bool isWritten;
};

struct Queue {
  std::atomic<DoubleStream*> stream;
  int64_t submitted, completed;
  int64_t doneNs[kRemembered];
  // CUPTI's number of the stream.
  uint32_t id;
  // Work that is not over, the first work without known times, and the end of all work with known times.
  Work *first, *last, *unplanned;
  int64_t plannedNs;
};
Queue queues[kStreams];
DoubleStream ownStreams[kStreams], defaultStreams[kDevices];
int ownCount = 0;

struct Event {
  bool isMade;
  uintptr_t context;
  Queue* queue;
  int64_t recordedNs, after, happenedNs;
};
Event events[kEvents];
std::atomic<int> eventCount, violations, questions;

// Not a mutex: the tested code must take none, and this double is not the tested code.
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

// Returns the stream that a null stream means: the default one of the thread's current device.
DoubleStream* meant(DoubleStream* stream) {
  if (stream != nullptr || depth == 0) return stream;
  const int device = static_cast<int>((contexts[depth - 1] - contextOf(0)) / 0x100);
  defaultStreams[device].device = device;
  return &defaultStreams[device];
}

// Returns whether a query of this thread breaks a capture. In the default mode of a thread, its queries break every
// other capture.
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

// ---- work ----------------------------------------------------------------------------------------------------------

// Minimum time from a launch to the start of the work.
constexpr int64_t kLaunchNs = 4000;

std::atomic<bool> isReady, isForked, isUsed;
std::atomic<const DoubleTracer*> tracer;
std::atomic<void (*)(const DoubleWork*)> watcher;
std::atomic<uint64_t> launchedWork;
uint32_t contextIds[kDevices], contextCount, streamCounts[kDevices];
// Work that is over and was not yet reported.
Work *ended, *endedLast;
std::FILE* truth;

// Held while finished work is reported, so that a caller that waits for the reports finds all of them complete.
std::atomic_flag isTelling = ATOMIC_FLAG_INIT;
struct Telling {
  Telling() { while (isTelling.test_and_set(std::memory_order_acquire)) sched_yield(); }
  ~Telling() { isTelling.clear(std::memory_order_release); }
};

// The driver cannot be used in a child of the process that initialised it. The double of NCCL may be used there, but
// nothing of it is traced.
__attribute__((constructor)) void watchForks() {
  pthread_atfork(nullptr, nullptr, [] {
    if (isReady.exchange(false)) isForked = true;
  });
}

const char* truthDirectory() {
  static const char* const directory = std::getenv("CUDA_DOUBLE_TRUTH");
  return directory;
}

int deviceOf(uintptr_t context) { return static_cast<int>((context - contextOf(0)) / 0x100); }

uint32_t contextId(int device) {
  if (contextIds[device] == 0) contextIds[device] = ++contextCount;
  return contextIds[device];
}

// The default stream has number 7, as in reality, and the first other one 13.
uint32_t streamId(Queue& queue) {
  if (queue.id != 0) return queue.id;
  DoubleStream* stream = queue.stream;
  const bool isDefault = stream >= defaultStreams && stream < defaultStreams + kDevices;
  return queue.id = isDefault ? 7 : 13 + streamCounts[stream->device]++;
}

// Computes times that can be known, and removes work that is over.
void settle(Queue& queue) {
  if (queue.first == nullptr) return;
  while (Work* work = queue.unplanned) {
    if (work->isForeign) {
      if (work->stopNs == 0) break;
    } else if (work->kind == kDoubleGraph) {
      work->stopNs = std::max(queue.plannedNs, work->startNs);
    } else {
      work->startNs = std::max(work->launchNs + kLaunchNs, queue.plannedNs);
      work->stopNs = work->startNs + work->durationNs;
      if (work->whole != nullptr && work->whole->startNs == 0) work->whole->startNs = work->startNs;
    }
    queue.plannedNs = std::max(queue.plannedNs, work->stopNs);
    queue.unplanned = work->next;
  }
  const int64_t now = rawNs();
  while (Work* work = queue.first) {
    if (work == queue.unplanned || work->stopNs > now) break;
    queue.first = work->next;
    if (queue.first == nullptr) queue.last = nullptr;
    if (!work->isForeign && work->kind != kDoubleGraph) {
      queue.doneNs[queue.completed % kRemembered] = work->stopNs;
      queue.completed++;
    }
    work->next = nullptr;
    (endedLast != nullptr ? endedLast->next : ended) = work;
    endedLast = work;
  }
}

void write(const Work& work, int64_t startNs, int64_t stopNs) {
  static const char* const kinds[] = {"kernel", "copy", "set"};
  if (truth == nullptr) truth = std::fopen((std::string(truthDirectory()) + "/" + std::to_string(getpid()) + ".jsonl").c_str(), "a");
  if (truth == nullptr) std::abort();
  std::fprintf(truth, "{\"kind\":\"%s\",\"name\":\"%s\",\"device\":%u,\"context\":%u,\"stream\":%u,\"correlation\":%u,"
               "\"launch_ns\":%lld,\"start_ns\":%lld,\"stop_ns\":%lld,\"bytes\":%llu,\"graph\":%u,\"graph_node\":%llu}\n",
               kinds[work.kind], work.name, work.device, work.context, work.stream, work.correlation, static_cast<long long>(work.launchNs),
               static_cast<long long>(startNs), static_cast<long long>(stopNs), static_cast<unsigned long long>(work.bytes),
               work.graph, static_cast<unsigned long long>(work.node));
}

constexpr int kWords = 32, kCopies = 100;

// Does what the work does, when it is over. The device's timer is CLOCK_MONOTONIC_RAW.
void takeEffect(const Work& work) {
  if (work.target == 0) return;
  if (work.effect == kDoubleAdds) {
    for (int at = 0; at < kWords; at++) reinterpret_cast<uint32_t*>(work.target)[at]++;
  } else if (work.effect == kDoubleSpins) {
    reinterpret_cast<uint64_t*>(work.target)[0] = static_cast<uint64_t>(work.startNs);
    static const long offNs = std::getenv("CUDA_DOUBLE_SPIN_OFF_NS") != nullptr ? std::atol(std::getenv("CUDA_DOUBLE_SPIN_OFF_NS")) : 0;
    reinterpret_cast<uint64_t*>(work.target)[1] = static_cast<uint64_t>(work.stopNs - offNs);
  } else if (work.effect == kCopies) {
    std::memmove(reinterpret_cast<void*>(work.target), reinterpret_cast<const void*>(work.source), work.bytes);
  }
}

// A captured kernel, copy or set.
struct Captured {
  int kind;
  const DoubleFunction* function;
  uint64_t bytes, argument;
};
// The capture that a program began. The double of NCCL has captures of its own.
struct Capture {
  DoubleStream* stream = nullptr;
  std::vector<Captured> works;
};
Capture capture;

// Reports all finished work. The caller holds Telling.
void tellEnded() {
  Work* all;
  {
    const Guard guard;
    all = ended;
    ended = endedLast = nullptr;
  }
  const bool isAny = all != nullptr;
  while (Work* work = all) {
    all = work->next;
    takeEffect(*work);
    if (work->traced != nullptr) work->tracer->finished(work);
    if (work->kind != kDoubleGraph) {
      if (truthDirectory() != nullptr && !work->isWritten) write(*work, work->startNs, work->stopNs);
      if (auto* watch = watcher.load()) watch(work);
    }
    delete work;
  }
  if (isAny && truth != nullptr) std::fflush(truth);
}

// Makes the next work of a stream, with the numbers of its queue and context.
Work* made(const DoubleCall& call, DoubleStream* stream, int device, int kind, const char* name, int64_t durationNs) {
  Work* work = new Work();
  work->kind = kind, work->name = name, work->durationNs = durationNs;
  work->tracer = call.tracer, work->correlation = call.correlation;
  work->device = static_cast<uint32_t>(device);
  for (int at = 0; at < 3; at++) work->grid[at] = work->block[at] = 1;
  const Guard guard;
  work->queue = queueOf(stream);
  work->context = contextId(device);
  work->stream = streamId(*work->queue);
  return work;
}

// Puts the work on its stream. Afterwards its tracer may release it at any time, unless it belongs to another double.
void put(Work* work) {
  if (!work->isForeign) isUsed = true;
  if (work->tracer != nullptr) work->tracer->launched(work);
  {
    const Guard guard;
    Queue& queue = *work->queue;
    work->launchNs = rawNs();
    if (!work->isForeign && work->kind != kDoubleGraph) queue.submitted++, launchedWork++;
    (queue.last != nullptr ? queue.last->next : queue.first) = work;
    queue.last = work;
    if (queue.unplanned == nullptr) queue.unplanned = work;
    settle(queue);
  }
}

void sleepUntil(int64_t raw) {
  for (int64_t left; (left = raw - rawNs()) > 0;) {
    const timespec time = {left / 1000000000, left % 1000000000};
    nanosleep(&time, nullptr);
  }
}

// Waits until all work of this stream, or of a whole device, is over.
void await(DoubleStream* stream, int device) {
  for (;;) {
    bool isBusy = false;
    int64_t knownNs = 0;
    {
      const Guard guard;
      for (Queue& queue : queues) {
        DoubleStream* const at = queue.stream;
        if (at == nullptr) break;
        if (stream != nullptr ? at != stream : at->device != device) continue;
        settle(queue);
        if (queue.first == nullptr && queue.completed >= queue.submitted) continue;
        isBusy = true;
        if (queue.first != nullptr && queue.first != queue.unplanned) knownNs = std::max(knownNs, queue.plannedNs);
      }
    }
    if (!isBusy) break;
    sleepUntil(std::max(knownNs, rawNs() + 20000));
  }
  const Telling telling;
  tellEnded();
}

// A call of a program, from its start to its result.
struct Call : DoubleCall {
  explicit Call(int function) { cuDoubleEnter(this, function); }
  int ends(int result) {
    cuDoubleExit(this, result);
    return result;
  }
};

// Returns the error that prevents work on a stream, if any.
int refused(DoubleStream* stream) {
  if (!isReady || isForked) return kNotInitialised;
  if (depth == 0 || stream == nullptr) return kInvalidContext;
  return kSuccess;
}

// Puts one kernel, copy or set on a stream. Captured work does not run.
struct Effect {
  int what = kDoubleIdle;
  uint64_t target = 0, source = 0;
  const DoubleFunction* function = nullptr;
};
int give(Call& call, DoubleStream* stream, int kind, const char* name, int64_t durationNs, uint64_t bytes, int direction, const uint32_t* shape, const Effect& effect = {}) {
  stream = meant(stream);
  if (const int wrong = refused(stream)) return call.ends(wrong);
  if (stream->capturing) {
    const Guard guard;
    queueOf(stream);
    if (stream == capture.stream) capture.works.push_back({kind, effect.function, bytes, effect.target});
    return call.ends(kSuccess);
  }
  Work* work = made(call, stream, stream->device, kind, name, durationNs);
  work->effect = effect.what, work->target = effect.target, work->source = effect.source;
  work->bytes = bytes, work->direction = direction;
  for (int at = 0; at < 3 && shape != nullptr; at++) work->grid[at] = shape[at], work->block[at] = shape[at + 3];
  put(work);
  call.ends(kSuccess);
  const Telling telling;
  tellEnded();
  return kSuccess;
}

// Memory that the driver allocated: begin and end.
std::vector<std::pair<uintptr_t, uintptr_t>> allocated;
// CUPTI's number of a copy on the device.
constexpr int kOnDevice = 8;

// Returns a copy, if this address is in memory that the driver allocated. Other addresses are not real.
Effect copying(uintptr_t to, uintptr_t from, uintptr_t onDevice) {
  const Guard guard;
  for (const auto& block : allocated)
    if (onDevice >= block.first && onDevice < block.second) return {kCopies, to, from, nullptr};
  return {};
}

bool hasHappened(Event& event) {
  if (event.happenedNs != 0) return true;
  if (event.queue != nullptr) settle(*event.queue);
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
  // A caller that received the error must not query again.
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
  if (!isReady) return kNotInitialised;
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

int cuDeviceGet(int* device, int ordinal) {
  if (!isReady) return kNotInitialised;
  if (ordinal < 0 || ordinal >= kDevices) return kInvalidValue;
  *device = ordinal;
  return kSuccess;
}

int cuDeviceGetName(char* name, int most, int device) {
  if (!isReady) return kNotInitialised;
  if (most <= 0 || device < 0 || device >= kDevices) return kInvalidValue;
  const char* model = std::getenv("CUDA_DOUBLE_MODEL");
  std::snprintf(name, static_cast<size_t>(most), "%s", model != nullptr ? model : "Double of a GPU");
  return kSuccess;
}

int cuDeviceGetPCIBusId(char* address, int most, int device) {
  if (!isReady) return kNotInitialised;
  if (most < 13 || device < 0 || device >= kDevices) return kInvalidValue;
  // Each rank of a job may have another first GPU, as with CUDA_VISIBLE_DEVICES.
  const char* first = std::getenv("CUDA_DOUBLE_FIRST_BUS");
  const int bus = 0x17 + (first != nullptr ? std::atoi(first) : 0) + device;
  std::snprintf(address, static_cast<size_t>(most), "0000:%02x:00.0", bus);
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

// ---- reports and inputs of the double -------------------------------------------------------------------------------

void cuDoubleUse(int device) {
  isReady = true;
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
  settle(*queue);
  queue->doneNs[queue->completed % kRemembered] = rawNs;
  queue->completed++;
}

int cuDoubleViolations() { return violations + (depth > 1) + (mode != kGlobal); }
int cuDoubleEvents() { return eventCount; }

// ---- work ----------------------------------------------------------------------------------------------------------

int cuInit(unsigned) {
  if (isForked) return kNotInitialised;
  isReady = true;
  return kSuccess;
}

int cuDriverGetVersion(int* version) {
  Call call(kDoubleGetVersion);
  const char* text = std::getenv("CUDA_DOUBLE_VERSION");
  *version = text != nullptr ? std::atoi(text) : 13000;
  return call.ends(kSuccess);
}

int cuLaunchKernel(
    const DoubleFunction* function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, unsigned blockZ,
    unsigned, DoubleStream* stream, void** arguments, void**) {
  Call call(kDoubleLaunchKernel);
  const uint32_t shape[] = {gridX, gridY, gridZ, blockX, blockY, blockZ};
  Effect effect{function->effect, 0, 0, function};
  int64_t durationNs = function->durationNs;
  if (function->effect != kDoubleIdle) effect.target = *static_cast<const uint64_t*>(arguments[0]);
  if (function->effect == kDoubleSpins) durationNs = *static_cast<const int64_t*>(arguments[1]);
  return give(call, stream, kDoubleKernel, function->mangledName, durationNs, 0, 0, shape, effect);
}

// 2 us, plus the time for the rates of PCI Express and device memory.
int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, DoubleStream* stream) {
  Call call(kDoubleToDevice);
  return give(call, stream, kDoubleCopy, "HtoD", 2000 + static_cast<int64_t>(bytes / 25), bytes, 1, nullptr, copying(to, reinterpret_cast<uintptr_t>(from), to));
}

int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, DoubleStream* stream) {
  Call call(kDoubleToHost);
  return give(call, stream, kDoubleCopy, "DtoH", 2000 + static_cast<int64_t>(bytes / 25), bytes, 2, nullptr, copying(reinterpret_cast<uintptr_t>(to), from, from));
}

int cuMemsetD8Async(uintptr_t, unsigned char, size_t bytes, DoubleStream* stream) {
  Call call(kDoubleMemset);
  return give(call, stream, kDoubleSet, "", 2000 + static_cast<int64_t>(bytes / 1000), bytes, 0, nullptr);
}

int cuGraphLaunch(const DoubleGraph* graph, DoubleStream* stream) {
  Call call(kDoubleGraphLaunch);
  stream = meant(stream);
  if (const int wrong = refused(stream)) return call.ends(wrong);
  if (stream->capturing) return call.ends(kSuccess);
  Work* whole = nullptr;
  if (call.tracer != nullptr) {
    whole = made(call, stream, stream->device, kDoubleGraph, "", 0);
    whole->graph = graph->id;
  }
  for (int at = 0; at < graph->count; at++) {
    const DoubleNode& node = graph->nodes[at];
    const bool isKernel = node.kind == kDoubleKernel;
    Work* work = made(call, stream, stream->device, node.kind, isKernel ? node.function->mangledName : "", isKernel ? node.function->durationNs : 2000);
    work->bytes = node.bytes, work->direction = node.kind == kDoubleCopy ? kOnDevice : 0;
    if (isKernel) work->effect = node.function->effect, work->target = node.argument;
    work->graph = graph->id, work->node = node.id, work->whole = whole;
    put(work);
  }
  if (whole != nullptr) put(whole);
  call.ends(kSuccess);
  const Telling telling;
  tellEnded();
  return kSuccess;
}

int cuStreamSynchronize(DoubleStream* stream) {
  Call call(kDoubleStreamSynchronize);
  stream = meant(stream);
  if (const int wrong = refused(stream)) return call.ends(wrong);
  if (stream->capturing) return call.ends(violated(kCaptureUnsupported));
  await(stream, 0);
  if (call.tracer != nullptr) call.tracer->waited(&call, cuDoubleContextId(contextOf(stream->device)), cuDoubleStreamId(stream));
  return call.ends(kSuccess);
}

int cuCtxSynchronize() {
  Call call(kDoubleCtxSynchronize);
  if (!isReady || isForked) return call.ends(kNotInitialised);
  if (depth == 0) return call.ends(kInvalidContext);
  const int device = deviceOf(contexts[depth - 1]);
  {
    // The call would wait for captured work, which never runs.
    const Guard guard;
    for (Queue& queue : queues)
      if (queue.stream != nullptr && queue.stream.load()->device == device && queue.stream.load()->capturing) return call.ends(violated(kCaptureUnsupported));
  }
  await(nullptr, device);
  if (call.tracer != nullptr) call.tracer->waited(&call, cuDoubleContextId(contexts[depth - 1]), 0);
  return call.ends(kSuccess);
}

void cuDoubleTraceBy(const DoubleTracer* by) { tracer = by; }

void cuDoubleSettle() {
  if (isForked) return;
  {
    const Guard guard;
    for (Queue& queue : queues) settle(queue);
  }
  const Telling telling;
  tellEnded();
}

int64_t cuDoubleStartOf(const DoubleWork* work) {
  const Guard guard;
  return work->startNs != 0 && work->startNs <= rawNs() ? work->startNs : 0;
}

int cuDoubleIsReady() { return isReady && !isForked; }

int cuDoubleIsBroken() {
  const Guard guard;
  return isBroken();
}

uint32_t cuDoubleContextId(uintptr_t context) {
  if (context < contextOf(0) || context >= contextOf(kDevices) || (context - contextOf(0)) % 0x100 != 0) return 0;
  const Guard guard;
  return contextId(deviceOf(context));
}

uint32_t cuDoubleStreamId(DoubleStream* stream) {
  stream = meant(stream);
  if (stream == nullptr) return 0;
  const Guard guard;
  return streamId(*queueOf(stream));
}

void cuDoubleEnter(DoubleCall* call, int function) {
  *call = {};
  call->tracer = isForked ? nullptr : tracer.load(), call->function = static_cast<uint32_t>(function);
  if (call->tracer != nullptr) call->tracer->enter(call);
}

void cuDoubleExit(DoubleCall* call, int result) {
  if (call->tracer != nullptr) call->tracer->exit(call, result);
}

DoubleWork* cuDoubleLaunch(const DoubleCall* call, DoubleStream* stream, int device, const char* name, uint32_t graph, uint64_t node) {
  if (isForked) return nullptr;
  launchedWork++;
  // Later work of this driver must wait for it.
  if (call->tracer == nullptr && truthDirectory() == nullptr && watcher == nullptr && !isUsed) return nullptr;
  if (stream == nullptr) defaultStreams[device].device = device;
  Work* work = made(*call, stream != nullptr ? stream : &defaultStreams[device], device, kDoubleKernel, name, 0);
  work->isForeign = true, work->graph = graph, work->node = node;
  put(work);
  return work;
}

void cuDoubleTurn(DoubleWork* given) {
  const Work* work = static_cast<Work*>(given);
  for (;;) {
    int64_t knownNs = 0;
    {
      const Guard guard;
      Queue& queue = *work->queue;
      settle(queue);
      const Work* before = nullptr;
      for (const Work* one = queue.first; one != work; one = one->next)
        if (!one->isForeign) before = one;
      if (before == nullptr) return;
      knownNs = before->stopNs;
    }
    sleepUntil(std::max(knownNs, rawNs() + 20000));
  }
}

void cuDoubleFinish(DoubleWork* given, int64_t startNs, int64_t stopNs) {
  Work* work = static_cast<Work*>(given);
  const Guard guard;
  work->startNs = startNs, work->stopNs = stopNs;
  settle(*work->queue);
}

uint64_t cuDoubleLaunched() { return launchedWork; }
void cuDoubleWatch(void (*watch)(const DoubleWork*)) { watcher = watch; }

__attribute__((destructor)) void cuDoubleTell() {
  if (isForked || truthDirectory() == nullptr) return;
  cuDoubleSettle();
  const Telling telling;
  const Guard guard;
  const int64_t now = rawNs();
  for (Queue& queue : queues) {
    for (Work* work = queue.first; work != nullptr; work = work->next) {
      if (work->kind == kDoubleGraph || work->isWritten) continue;
      write(*work, work->startNs <= now ? work->startNs : 0, 0);
      work->isWritten = true;
    }
  }
  if (truth != nullptr) std::fflush(truth);
}
}

#include "cuda_modules.h"
