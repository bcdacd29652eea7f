// A test double of CUPTI: the first interface of its activity records, over the double of the driver (cuda_double.h).
// Its behaviour proves nothing about NVIDIA's library.
//
// As in the real library, everything exists once per process. Callbacks and the clock belong to the last caller that
// registered them, and disabling a kind disables it for all. A record of the device has its position in a buffer from
// the launch on, and is complete when the work is over. A buffer is delivered when it is full and all its records are
// complete, or with a flush. A flush delivers it if all records are complete. A forced flush always delivers it, and
// work that still runs is lost. Bytes of a record beyond those of 11.8 are garbage, in the size of this version.
//
// Built with -DCUPTI_DOUBLE_VERSION=N, the result of cuptiGetVersion. Environment:
//   CUPTI_DOUBLE_FAILS=N   functions that enable, register or subscribe return this
//   CUPTI_DOUBLE_DROPS=N   every N-th record of the device is dropped, and counted
//   CUPTI_DOUBLE_MOST=N    a buffer is full with N records
//   CUPTI_DOUBLE_STUCK=N   the N-th flush and all later ones never return
//   CUPTI_DOUBLE_HOLDS=N   it requests N buffers more than it needs, and returns them with its fourth flush
//   CUPTI_DOUBLE_ENDS=1    cuptiFinalize is allowed; any later call is a violation
//   CUPTI_DOUBLE_REFUSES=N the kind of this number cannot be enabled
//   CUPTI_DOUBLE_FOREIGN=1 records of overhead have timestamps of the wall clock, whatever clock is registered
// Its own overhead is written to PID.overheads.jsonl in the directory CUDA_DOUBLE_TRUTH, one record a line.
#include "cupti_double.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../nccl/cuda_double.h"

#ifndef CUPTI_DOUBLE_VERSION
#define CUPTI_DOUBLE_VERSION 130001
#endif

using namespace cupti;

namespace {

constexpr int kVersion = CUPTI_DOUBLE_VERSION;
constexpr uint8_t kRubbish = 0xA5;
constexpr size_t kLeastBytes = 1024;
constexpr uint32_t kFunctions = 1024, kAttributes = kVersion < 22 ? 9 : kVersion < 130000 ? 11 : 25;
constexpr uint32_t kZeroedBuffers = 5, kBuffersOfThreads = 9;
constexpr uint32_t kExternalKinds = 6, kDeepest = 64;

// Returns the size of a record of this kind, in bytes.
constexpr size_t sizeOf(uint32_t kind) {
  const bool isOfEnd12 = kVersion >= 26, isOf134 = kVersion >= 130401;
  switch (kind) {
    case kSerialKernel:
    case kConcurrentKernel:
      return kVersion < 20 ? 200 : kVersion < 130001 ? 208 : kVersion < 130101 ? 216 : kVersion < 130301 ? 224 : isOf134 ? 248 : 232;
    case kCopy: return isOf134 ? 112 : isOfEnd12 ? 96 : 88;
    case kSet: return isOf134 ? 104 : 88;
    case kGraphTrace: return isOfEnd12 ? 56 : 48;
    case kDriver:
    case kRuntime: return 40;
    case kExternalCorrelation: return 24;
    case kSynchronization: return isOfEnd12 ? 56 : 40;
    case kOverhead: return isOfEnd12 ? 56 : kVersion >= 20 ? 48 : 40;
    default: return 0;
  }
}

// ---- the driver ----------------------------------------------------------------------------------------------------

struct Driver {
  decltype(&cuDoubleIsReady) isReady;
  decltype(&cuDoubleTraceBy) traceBy;
  decltype(&cuDoubleSettle) settle;
  decltype(&cuDoubleStartOf) startOf;
  decltype(&cuDoubleIsBroken) isBroken;
  decltype(&cuDoubleContextId) contextId;
  decltype(&cuDoubleStreamId) streamId;
  int (*currentContext)(uintptr_t*);
};
Driver driver;
// isOver: the process's exit handlers have been called.
std::atomic<bool> isReady, isForked, isEnded, isOver;
std::atomic<int> violations;

uint64_t setting(const char* name) { return std::getenv(name) != nullptr ? std::strtoull(std::getenv(name), nullptr, 10) : 0; }

__attribute__((constructor)) void watchForks() {
  pthread_atfork(nullptr, nullptr, [] { isForked = isReady.load(); });
}

bool findDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  static std::mutex mutex;
  const std::lock_guard<std::mutex> guard(mutex);
  return find(driver.isReady, "cuDoubleIsReady") && driver.isReady() != 0 && find(driver.traceBy, "cuDoubleTraceBy") &&
         find(driver.settle, "cuDoubleSettle") && find(driver.startOf, "cuDoubleStartOf") && find(driver.isBroken, "cuDoubleIsBroken") &&
         find(driver.contextId, "cuDoubleContextId") && find(driver.streamId, "cuDoubleStreamId") &&
         find(driver.currentContext, "cuCtxGetCurrent");
}

[[noreturn]] void wrong(const char* what) {
  std::fprintf(stderr, "double of CUPTI: %s\n", what);
  std::abort();
}

// Returns the result of a call without a driver, for which some versions end the process, or after the end of CUPTI. 0:
// the call may proceed.
int tooEarly() {
  if (isReady.load(std::memory_order_relaxed)) {
    if (isForked.load(std::memory_order_relaxed)) wrong("called in a forked child");
    if (isOver.load(std::memory_order_relaxed)) wrong("called while the process ends");
    if (!isEnded.load(std::memory_order_relaxed)) return kSuccess;
    violations++;
    return kNotInitialised;
  }
  if (findDriver()) {
    if (!isReady.exchange(true)) std::atexit([] { isOver = true; });
    return kSuccess;
  }
  violations++;
  if (kVersion >= 130201 && kVersion < 130301) wrong("called without a driver");
  return kVersion < 130000 ? kNotInitialised : kUnknown;
}
#define NEEDS_DRIVER() \
  if (const int early = tooEarly()) return early

int fails() {
  static const int result = static_cast<int>(setting("CUPTI_DOUBLE_FAILS"));
  return result;
}
#define MAY_FAIL() \
  NEEDS_DRIVER();  \
  if (fails() != 0) return fails()

// ---- process-wide state --------------------------------------------------------------------------------------------

struct Slot;
struct Buffer {
  uint8_t* memory;
  size_t size, used = 0;
  size_t records = 0, most;
  bool isOfDevice = false;
  // Slots of the device's records, and the number of those that are not complete.
  std::vector<Slot*> slots = {};
  int running = 0;
};

// Slot of a device's record, to which the driver's work refers. Its buffer is null once the buffer was delivered.
struct Slot {
  Buffer* buffer;
  uint8_t* record;
  uint32_t kind;
  const DoubleWork* work;
  int64_t startNs, stopNs;
  bool isOver;
};

// A time of the clock of the records, and CLOCK_MONOTONIC_RAW at the same moment.
struct Sample {
  int64_t raw;
  uint64_t told;
};

struct Subscriber {
  Callback callback;
  void* data;
  bool isSecondInterface;
};

struct State {
  State() {
    if (kVersion >= 130000) attributes[kBuffersOfThreads % kAttributes] = 1;
  }

  std::mutex mutex;
  std::condition_variable toDo, delivered;
  Requested requested = nullptr;
  Completed completed = nullptr;
  // Buffers of threads, by a number of each thread, or 0 if one buffer serves all. Buffers of contexts for device
  // activity.
  std::map<uint64_t, Buffer*> ofThreads, ofContexts;
  // Unused buffers, and full ones.
  std::vector<Buffer*> spare, full;
  int outstanding = 0, delivering = 0;
  uint64_t works = 0, written = 0, dropped = 0;
  int64_t grids = 0;
  std::vector<Sample> samples;
  std::vector<Subscriber*> subscribers;
  // Requested and not needed.
  std::vector<Buffer*> held;
  bool isHolding = setting("CUPTI_DOUBLE_HOLDS") != 0;
  uint64_t attributes[kAttributes] = {};
  std::set<std::string> names;
  bool hasWorker = false;
};
// Never destroyed: threads may still use it when the process ends.
State& state = *new State;

std::atomic<uint64_t> kinds;
// Functions that are excluded from records. As with CUPTI 13.0, a function can only be excluded while its kind is enabled.
// In CUPTI 13.0, enabling the kind again ends the exclusion. Here it does not, because a caller must not rely on that.
std::array<std::atomic<bool>, kFunctions> driverExcluded, runtimeExcluded, driverCallbacks;
std::atomic<bool> isSubscribed, isOfSecondInterface;
std::atomic<uint32_t> correlations;
std::atomic<uint64_t> flushes, stuck;
// Depth of callbacks that request or complete a buffer.
thread_local int inCallback = 0;

struct Stack {
  uint32_t depth;
  uint64_t ids[kDeepest];
};
thread_local Stack stacks[kExternalKinds];

uint64_t threadNumber() {
  static std::atomic<uint64_t> numbers;
  thread_local const uint64_t number = ++numbers;
  return kBuffersOfThreads < kAttributes && state.attributes[kBuffersOfThreads % kAttributes] != 0 ? number : 0;
}

// Activity of the first interface is forbidden once a caller has subscribed by the second.
#define FIRST_INTERFACE() \
  if (isOfSecondInterface.load(std::memory_order_relaxed)) violations++

bool isEnabled(uint32_t kind) { return (kinds.load(std::memory_order_relaxed) >> kind & 1) != 0; }

// ---- time ----------------------------------------------------------------------------------------------------------

int64_t rawNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

uint64_t wallClock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<uint64_t>(now.tv_nsec);
}

std::atomic<Timestamp> theClock = wallClock;
uint64_t now() { return theClock.load()(); }

// Samples the clock. No lock is held, because the clock is a function of the caller.
void sample() {
  const Timestamp clock = theClock;
  Sample best = {};
  for (int64_t shortest = INT64_MAX, tries = 0; tries < 5; tries++) {
    const int64_t before = rawNs();
    const uint64_t told = clock();
    const int64_t took = rawNs() - before;
    if (took < shortest) shortest = took, best = {before + took / 2, told};
  }
  const std::lock_guard<std::mutex> guard(state.mutex);
  if (clock != theClock) return;
  auto& samples = state.samples;
  if (samples.size() >= 4096) samples.erase(samples.begin() + 1, samples.begin() + 2048);
  samples.insert(std::upper_bound(samples.begin(), samples.end(), best, [](const Sample& one, const Sample& other) { return one.raw < other.raw; }), best);
}

// Converts a time of the device to the clock. It interpolates between the two samples around it, or along the line
// through the first and the last.
uint64_t told(int64_t raw) {
  const auto& samples = state.samples;
  if (samples.empty()) return 0;
  const auto after = std::partition_point(samples.begin(), samples.end(), [&](const Sample& sample) { return sample.raw < raw; });
  const bool isBetween = after != samples.begin() && after != samples.end();
  const Sample one = isBetween ? after[-1] : samples.front(), other = isBetween ? *after : samples.back();
  // One sample alone gives no rate.
  const __int128 rate = other.raw > one.raw ? static_cast<int64_t>(other.told - one.told) : 1;
  const __int128 span = other.raw > one.raw ? other.raw - one.raw : 1;
  return one.told + static_cast<uint64_t>(static_cast<int64_t>(rate * (raw - one.raw) / span));
}

// ---- buffers -------------------------------------------------------------------------------------------------------

// Requests a buffer from the registered callback, or returns null without one. No lock is held.
Buffer* ask() {
  Requested requested;
  bool isZeroed;
  {
    const std::lock_guard<std::mutex> guard(state.mutex);
    requested = state.requested;
    isZeroed = state.attributes[kZeroedBuffers] != 0;
  }
  if (requested == nullptr) return nullptr;
  uint8_t* memory = nullptr;
  size_t size = 0, most = 0;
  inCallback++;
  requested(&memory, &size, &most);
  inCallback--;
  if (memory == nullptr) {
    // The behaviour of older versions in this case cannot be relied on.
    if (kVersion < 28) wrong("no buffer was given");
    return nullptr;
  }
  if (reinterpret_cast<uintptr_t>(memory) % 8 != 0) wrong("a buffer is not aligned to 8 bytes");
  if (size < kLeastBytes) wrong("a buffer is too small");
  if (!isZeroed) std::memset(memory, 0, size);
  const std::lock_guard<std::mutex> guard(state.mutex);
  state.outstanding++;
  static const uint64_t full = setting("CUPTI_DOUBLE_MOST");
  return new Buffer{memory, size, 0, 0, full != 0 ? full : most};
}

// Requests additional buffers once, as in a process with many threads that call the driver, each of which has a buffer.
void hold() {
  {
    const std::lock_guard<std::mutex> guard(state.mutex);
    if (!std::exchange(state.isHolding, false)) return;
  }
  for (uint64_t left = setting("CUPTI_DOUBLE_HOLDS"); left > 0; left--) {
    Buffer* buffer = ask();
    if (buffer == nullptr) return;
    const std::lock_guard<std::mutex> guard(state.mutex);
    state.held.push_back(buffer);
  }
}

// Returns the buffer with enough capacity. It is locked, except while a new one is requested. Null: no buffer is
// available.
Buffer* withRoom(std::unique_lock<std::mutex>& lock, std::map<uint64_t, Buffer*>& all, uint64_t whose, size_t size) {
  for (;;) {
    Buffer*& buffer = all[whose];
    if (buffer != nullptr) {
      if (buffer->used + size <= buffer->size && (buffer->most == 0 || buffer->records < buffer->most)) return buffer;
      state.full.push_back(buffer);
      buffer = nullptr;
      state.toDo.notify_one();
    }
    if (!state.spare.empty()) {
      buffer = state.spare.back();
      state.spare.pop_back();
      buffer->isOfDevice = &all == &state.ofContexts;
      continue;
    }
    lock.unlock();
    hold();
    Buffer* fresh = ask();
    lock.lock();
    if (fresh == nullptr) return nullptr;
    state.spare.push_back(fresh);
  }
}

// Reserves a record of this kind in the buffer: zeros up to the size of 11.8, and garbage after it.
uint8_t* place(Buffer* buffer, uint32_t kind, size_t known) {
  uint8_t* record = buffer->memory + buffer->used;
  std::memset(record, 0, known);
  std::memset(record + known, kRubbish, sizeOf(kind) - known);
  buffer->used += sizeOf(kind);
  buffer->records++;
  return record;
}

// Writes a record of the calling thread. Returns false if there is no capacity.
template <typename Record>
bool add(std::unique_lock<std::mutex>& lock, const Record& record) {
  Buffer* buffer = withRoom(lock, state.ofThreads, threadNumber(), sizeOf(record.kind));
  if (buffer == nullptr) {
    state.dropped++;
    return false;
  }
  std::memcpy(place(buffer, record.kind, sizeof record), &record, sizeof record);
  return true;
}

// Returns the timestamp of a record of overhead.
uint64_t overheadNow() {
  static const bool isForeign = setting("CUPTI_DOUBLE_FOREIGN") != 0;
  return isForeign ? wallClock() : now();
}

// Writes overhead of the calling thread, or of the context without a thread.
void took(std::unique_lock<std::mutex>& lock, uint32_t what, bool isOfThread, uint64_t start, uint64_t end) {
  const uint32_t thread = static_cast<uint32_t>(syscall(SYS_gettid)), process = static_cast<uint32_t>(getpid());
  // For a context, the same fields hold device and context.
  const Overhead record = isOfThread ? Overhead{kOverhead, what, kThreadObject, process, thread, 0, start, end}
                                     : Overhead{kOverhead, what, kContextObject, 1, 2, 3, start, end};
  if (!add(lock, record)) return;
  static std::FILE* truth = [] {
    const char* directory = std::getenv("CUDA_DOUBLE_TRUTH");
    if (directory == nullptr) return static_cast<std::FILE*>(nullptr);
    return std::fopen((std::string(directory) + "/" + std::to_string(getpid()) + ".overheads.jsonl").c_str(), "ae");
  }();
  if (truth == nullptr) return;
  std::fprintf(truth, "{\"what\":%u,\"thread\":%u,\"start\":%llu,\"end\":%llu}\n", what, isOfThread ? thread : 0,
               static_cast<unsigned long long>(start), static_cast<unsigned long long>(end));
  std::fflush(truth);
}

void stamp(const Slot& slot, uint64_t start, uint64_t end) {
  auto to = [&](auto* record) { record->start = start, record->end = end; };
  switch (slot.kind) {
    case kCopy: return to(reinterpret_cast<Copy*>(slot.record));
    case kSet: return to(reinterpret_cast<Set*>(slot.record));
    case kGraphTrace: return to(reinterpret_cast<GraphTrace*>(slot.record));
    default:
      to(reinterpret_cast<Kernel*>(slot.record));
      reinterpret_cast<Kernel*>(slot.record)->completed = end;
  }
}

// Delivers buffers that were taken from all lists and counted as being delivered. No lock is held.
void handOut(const std::vector<Buffer*>& buffers) {
  if (buffers.empty()) return;
  if (std::any_of(buffers.begin(), buffers.end(), [](const Buffer* buffer) { return !buffer->slots.empty(); })) sample();
  for (Buffer* buffer : buffers) {
    Completed completed;
    {
      const std::lock_guard<std::mutex> guard(state.mutex);
      for (Slot* slot : buffer->slots) {
        if (slot->isOver) {
          stamp(*slot, told(slot->startNs), told(slot->stopNs));
          delete slot;
          continue;
        }
        // It still runs, and is lost.
        const int64_t start = driver.startOf(slot->work);
        stamp(*slot, start != 0 ? told(start) : 0, 0);
        slot->buffer = nullptr;
      }
      state.outstanding--;
      completed = state.completed;
    }
    inCallback++;
    if (completed != nullptr) completed(nullptr, 0, buffer->memory, buffer->size, buffer->used);
    inCallback--;
    delete buffer;
  }
  const std::lock_guard<std::mutex> guard(state.mutex);
  state.delivering--;
  state.delivered.notify_all();
}

// Takes the full buffers that can be delivered.
template <typename Is>
std::vector<Buffer*> takeFull(Is is) {
  std::vector<Buffer*> taken;
  for (auto at = state.full.begin(); at != state.full.end();) {
    if (!is(*at)) {
      ++at;
      continue;
    }
    taken.push_back(*at);
    at = state.full.erase(at);
  }
  if (!taken.empty()) state.delivering++;
  return taken;
}

// The real library has such a thread, too.
void work() {
  for (;;) {
    std::vector<Buffer*> taken;
    bool isWaiting;
    {
      std::unique_lock<std::mutex> lock(state.mutex);
      if (state.full.empty()) state.toDo.wait(lock);
      else state.toDo.wait_for(lock, std::chrono::milliseconds(1));
      taken = takeFull([](const Buffer* buffer) { return buffer->running == 0; });
      isWaiting = !state.full.empty();
    }
    handOut(taken);
    // Running work is over when the driver reports it.
    if (isWaiting) driver.settle();
  }
}

// ---- events of the driver ------------------------------------------------------------------------------------------

const char* functionName(uint32_t function) {
  switch (function) {
    case kDoubleGetVersion: return "cuDriverGetVersion";
    case kDoubleCtxSynchronize: return "cuCtxSynchronize";
    case kDoubleStreamSynchronize: return "cuStreamSynchronize";
    case kDoubleMemset: return "cuMemsetD8Async";
    case kDoubleToDevice: return "cuMemcpyHtoDAsync_v2";
    case kDoubleToHost: return "cuMemcpyDtoHAsync_v2";
    case kDoubleLaunchKernel: return "cuLaunchKernel";
    case kDoubleGraphLaunch: return "cuGraphLaunch";
    case kDoubleLaunchKernelEx: return "cuLaunchKernelEx";
    default: return "";
  }
}

void callBack(DoubleCall* call, uint32_t site, int result) {
  if (!isSubscribed.load(std::memory_order_relaxed) || !driverCallbacks[call->function]) return;
  std::vector<Subscriber> subscribers;
  {
    const std::lock_guard<std::mutex> guard(state.mutex);
    for (const Subscriber* one : state.subscribers) subscribers.push_back(*one);
  }
  uintptr_t context = 0;
  driver.currentContext(&context);
  const CallbackData data = {site, functionName(call->function), nullptr, site == 1 ? &result : nullptr, nullptr, context,
                             driver.contextId(context), &call->correlationData, call->correlation};
  for (const Subscriber& one : subscribers)
    if (one.callback != nullptr) one.callback(one.data, 1, call->function, &data);
}

void enter(DoubleCall* call) {
  call->correlation = ++correlations;
  call->isRecorded = isEnabled(kDriver) && !driverExcluded[call->function].load(std::memory_order_relaxed);
  if (call->isRecorded || isEnabled(kSynchronization)) call->enteredAt = now();
  callBack(call, 0, 0);
}

void leave(DoubleCall* call, int result) {
  callBack(call, 1, result);
  if (!call->isRecorded) return;
  const uint64_t ended = now();
  std::vector<Buffer*> taken;
  {
    std::unique_lock<std::mutex> lock(state.mutex);
    for (uint32_t kind = 0; kind < kExternalKinds && isEnabled(kExternalCorrelation); kind++) {
      const Stack& stack = stacks[kind];
      if (stack.depth > 0) add(lock, ExternalCorrelation{kExternalCorrelation, kind, stack.ids[stack.depth - 1], call->correlation, 0});
    }
    add(lock, Api{kDriver, call->function, call->enteredAt, ended, static_cast<uint32_t>(getpid()),
                  static_cast<uint32_t>(syscall(SYS_gettid)), call->correlation, static_cast<uint32_t>(result)});
    // The worker delivers device activity. Buffers of calls are delivered here.
    taken = takeFull([](const Buffer* buffer) { return !buffer->isOfDevice; });
  }
  handOut(taken);
}

void waited(const DoubleCall* call, uint32_t context, uint32_t stream) {
  if (!isEnabled(kSynchronization) || call->enteredAt == 0) return;
  const uint64_t ended = now();
  std::unique_lock<std::mutex> lock(state.mutex);
  add(lock, Synchronization{kSynchronization, stream != 0 ? 3u : 4u, call->enteredAt, ended, call->correlation, context,
                            stream != 0 ? stream : UINT32_MAX, UINT32_MAX});
}

// Returns the kind of the work's record, 0 if none is enabled.
uint32_t kindOf(const DoubleWork* work) {
  auto ifEnabled = [](uint32_t kind) { return isEnabled(kind) ? kind : 0; };
  switch (work->kind) {
    case kDoubleCopy: return ifEnabled(kCopy);
    case kDoubleSet: return ifEnabled(kSet);
    case kDoubleGraph: return ifEnabled(kGraphTrace);
    default:
      // If graphs are recorded as a whole, their nodes have no records.
      if (isEnabled(kGraphTrace) && work->graph != 0) return 0;
      return isEnabled(kConcurrentKernel) ? kConcurrentKernel : ifEnabled(kSerialKernel);
  }
}

void fill(uint8_t* to, uint32_t kind, const DoubleWork* work, const char* name) {
  auto common = [&](auto* record) {
    record->kind = kind;
    record->device = work->device, record->context = work->context, record->stream = work->stream;
    record->correlation = work->correlation, record->graph = work->graph;
  };
  if (kind == kCopy) {
    auto* record = reinterpret_cast<Copy*>(to);
    common(record);
    const uint8_t isToDevice = work->direction == 1;
    // Pinned memory and device memory, asynchronous.
    record->direction = static_cast<uint8_t>(work->direction), record->from = isToDevice ? 2 : 3, record->to = isToDevice ? 3 : 2;
    record->flags = 1, record->bytes = work->bytes, record->graphNode = work->node;
    record->channel = 40, record->channelType = 2;
  } else if (kind == kSet) {
    auto* record = reinterpret_cast<Set*>(to);
    common(record);
    record->bytes = work->bytes, record->memoryKind = 3, record->flags = 1, record->graphNode = work->node;
    record->channel = 10, record->channelType = 1;
  } else if (kind == kGraphTrace) {
    common(reinterpret_cast<GraphTrace*>(to));
  } else {
    auto* record = reinterpret_cast<Kernel*>(to);
    common(record);
    for (int at = 0; at < 3; at++) record->grid[at] = static_cast<int32_t>(work->grid[at]), record->block[at] = static_cast<int32_t>(work->block[at]);
    record->registersPerThread = 32, record->name = name, record->gridId = ++state.grids, record->graphNode = work->node;
    record->channel = 8 + work->stream % 8, record->channelType = 1;
  }
}

void launched(DoubleWork* work) {
  const uint32_t kind = kindOf(work);
  if (kind == 0) return;
  static const uint64_t drops = setting("CUPTI_DOUBLE_DROPS");
  // Every 50 launches there is one overhead of CUPTI and one of the driver.
  static std::atomic<uint64_t> launches;
  const uint64_t turn = isEnabled(kOverhead) ? ++launches % 50 : 0;
  uint64_t begun = 0, ended = 0;
  if (turn == 1 || turn == 2) {
    begun = overheadNow();
    for (const int64_t until = rawNs() + 3000; rawNs() < until;) {}
    ended = overheadNow();
  }
  std::unique_lock<std::mutex> lock(state.mutex);
  if (turn == 1) took(lock, kInstrumentation, true, begun, ended);
  if (turn == 2) took(lock, kCommandBufferFull, false, begun, ended);
  if (drops != 0 && ++state.works % drops == 0) {
    state.dropped++;
    return;
  }
  Buffer* buffer = withRoom(lock, state.ofContexts, work->context, sizeOf(kind));
  if (buffer == nullptr) {
    state.dropped++;
    return;
  }
  const size_t known = kind == kCopy ? sizeof(Copy) : kind == kSet ? sizeof(Set) : kind == kGraphTrace ? sizeof(GraphTrace) : sizeof(Kernel);
  uint8_t* record = place(buffer, kind, known);
  // Names belong to the library and are never freed.
  fill(record, kind, work, state.names.insert(work->name).first->c_str());
  Slot* slot = new Slot{buffer, record, kind, work, 0, 0, false};
  buffer->slots.push_back(slot);
  buffer->running++;
  state.written++;
  work->traced = slot;
}

void finished(const DoubleWork* work) {
  Slot* slot = static_cast<Slot*>(work->traced);
  const std::lock_guard<std::mutex> guard(state.mutex);
  if (slot->buffer == nullptr) {
    delete slot;
    return;
  }
  slot->startNs = work->startNs, slot->stopNs = work->stopNs, slot->isOver = true;
  slot->work = nullptr;
  slot->buffer->running--;
}

const DoubleTracer tracer = {enter, leave, launched, finished, waited};

// Traces the driver as long as anything needs its events.
void traceIfNeeded() {
  const bool isNeeded = kinds != 0 || isSubscribed;
  driver.traceBy(isNeeded ? &tracer : nullptr);
}

void setAll(std::array<std::atomic<bool>, kFunctions>& functions, bool isOn) {
  for (auto& one : functions) one = isOn;
}

int enable(uint32_t kind) {
  static const uint64_t refused = setting("CUPTI_DOUBLE_REFUSES");
  if (kind == 0 || kind >= kKinds || kind == refused) return kInvalidKind;
  if (kind == kConcurrentKernel && isEnabled(kSerialKernel)) return kNotCompatible;
  if (kind == kSerialKernel && isEnabled(kConcurrentKernel)) return kNotCompatible;
  kinds |= 1ull << kind;
  traceIfNeeded();
  sample();
  return kSuccess;
}

int disable(uint32_t kind) {
  if (kind == 0 || kind >= kKinds) return kInvalidKind;
  kinds &= ~(1ull << kind);
  traceIfNeeded();
  return kSuccess;
}

int subscribe(void** handle, Callback callback, void* data, bool isSecondInterface, bool allowsOthers) {
  if (handle == nullptr) return kInvalidParameter;
  const std::lock_guard<std::mutex> guard(state.mutex);
  // From 13.3 on several subscribers are possible by the second interface, if the first of them allowed it.
  static bool allows = false;
  if (!state.subscribers.empty() && !(isSecondInterface && allows && state.subscribers[0]->isSecondInterface)) return kTaken;
  if (state.subscribers.empty()) allows = kVersion >= 130301 && allowsOthers;
  auto* fresh = new Subscriber{callback, data, isSecondInterface};
  state.subscribers.push_back(fresh);
  *handle = fresh;
  isSubscribed = true;
  return kSuccess;
}

}  // namespace

// ---- the interface -------------------------------------------------------------------------------------------------

extern "C" {

int cuptiGetVersion(uint32_t* version) {
  NEEDS_DRIVER();
  if (version == nullptr) return kInvalidParameter;
  *version = kVersion;
  return kSuccess;
}

int cuptiGetResultString(int result, const char** text) {
  NEEDS_DRIVER();
  if (text == nullptr) return kInvalidParameter;
  static const std::map<int, const char*> texts = {
      {kSuccess, "CUPTI_SUCCESS"},
      {kInvalidParameter, "CUPTI_ERROR_INVALID_PARAMETER"},
      {kInvalidOperation, "CUPTI_ERROR_INVALID_OPERATION"},
      {kMaxLimitReached, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
      {kNotCompatible, "CUPTI_ERROR_NOT_COMPATIBLE"},
      {kNotInitialised, "CUPTI_ERROR_NOT_INITIALIZED"},
      {kQueueEmpty, "CUPTI_ERROR_QUEUE_EMPTY"},
      {kInvalidKind, "CUPTI_ERROR_INVALID_KIND"},
      {kTaken, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
      {kUnknown, "CUPTI_ERROR_UNKNOWN"},
  };
  const auto found = texts.find(result);
  *text = found != texts.end() ? found->second : "<unknown>";
  return found != texts.end() ? kSuccess : kInvalidParameter;
}

int cuptiActivityRegisterCallbacks(Requested requested, Completed completed) {
  MAY_FAIL();
  FIRST_INTERFACE();
  if (requested == nullptr || completed == nullptr) return kInvalidParameter;
  const std::lock_guard<std::mutex> guard(state.mutex);
  state.requested = requested, state.completed = completed;
  if (!state.hasWorker) {
    state.hasWorker = true;
    // Signals are for the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(work).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  return kSuccess;
}

int cuptiActivityEnable(uint32_t kind) {
  MAY_FAIL();
  FIRST_INTERFACE();
  return enable(kind);
}
int cuptiActivityEnableAndDump(uint32_t kind) {
  MAY_FAIL();
  FIRST_INTERFACE();
  return enable(kind);
}
int cuptiActivityEnableContext(uintptr_t, uint32_t kind) {
  MAY_FAIL();
  FIRST_INTERFACE();
  return enable(kind);
}

int cuptiActivityDisable(uint32_t kind) {
  NEEDS_DRIVER();
  FIRST_INTERFACE();
  return disable(kind);
}
int cuptiActivityDisableContext(uintptr_t, uint32_t kind) {
  NEEDS_DRIVER();
  FIRST_INTERFACE();
  return disable(kind);
}

int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  NEEDS_DRIVER();
  if (buffer == nullptr || record == nullptr) return kInvalidParameter;
  uint32_t kind;
  uint8_t* next = buffer;
  if (*record != nullptr) {
    std::memcpy(&kind, *record, sizeof kind);
    next = *record + sizeOf(kind);
  }
  if (next >= buffer + valid) return kMaxLimitReached;
  std::memcpy(&kind, next, sizeof kind);
  if (sizeOf(kind) == 0) return kInvalidKind;
  *record = next;
  return kSuccess;
}

int cuptiActivityGetNumDroppedRecords(uintptr_t, uint32_t, size_t* dropped) {
  NEEDS_DRIVER();
  FIRST_INTERFACE();
  if (dropped == nullptr) return kInvalidParameter;
  const std::lock_guard<std::mutex> guard(state.mutex);
  *dropped = state.dropped;
  state.dropped = 0;
  return kSuccess;
}

int cuptiActivityFlushAll(uint32_t flag) {
  NEEDS_DRIVER();
  FIRST_INTERFACE();
  static const uint64_t stuckFrom = setting("CUPTI_DOUBLE_STUCK");
  const uint64_t flush = ++flushes;
  if (stuckFrom != 0 && flush >= stuckFrom) {
    stuck++;
    for (;;) pause();
  }
  if (inCallback > 0) wrong("flushed from a callback for buffers");
  if (driver.isBroken() != 0) violations++;
  const uint64_t begun = isEnabled(kOverhead) ? overheadNow() : 0;
  driver.settle();
  const uint64_t ended = isEnabled(kOverhead) ? overheadNow() : 0;
  std::vector<Buffer*> taken;
  {
    std::unique_lock<std::mutex> lock(state.mutex);
    if (state.completed == nullptr) return kInvalidOperation;
    // Overhead of a thread, for the flush of a buffer.
    if (begun != 0 && ended != 0) took(lock, kBufferFlush, true, begun, ended);
    auto isOut = [&](const Buffer* buffer) { return flag == 1 || buffer->running == 0; };
    taken = takeFull(isOut);
    if (taken.empty()) state.delivering++;
    for (auto* all : {&state.ofThreads, &state.ofContexts}) {
      for (auto at = all->begin(); at != all->end();) {
        if (at->second != nullptr && !isOut(at->second)) {
          ++at;
          continue;
        }
        if (at->second != nullptr) taken.push_back(at->second);
        at = all->erase(at);
      }
    }
    // Buffers that were requested meanwhile and not needed.
    taken.insert(taken.end(), state.spare.begin(), state.spare.end());
    state.spare.clear();
    if (flush >= 4) {
      taken.insert(taken.end(), state.held.begin(), state.held.end());
      state.held.clear();
    }
    if (taken.empty()) state.delivering--;
  }
  handOut(taken);
  // It also waits until other threads have delivered theirs.
  std::unique_lock<std::mutex> lock(state.mutex);
  state.delivered.wait(lock, [] { return state.delivering == 0; });
  return kSuccess;
}

// Full buffers are delivered at once.
int cuptiActivityFlushPeriod(uint32_t) {
  NEEDS_DRIVER();
  return kSuccess;
}

int cuptiActivitySetAttribute(uint32_t attribute, size_t* size, void* value) {
  NEEDS_DRIVER();
  if (attribute >= kAttributes || size == nullptr || value == nullptr) return kInvalidParameter;
  if (*size < 1) return kSizeNotSufficient;
  uint64_t number = 0;
  std::memcpy(&number, value, std::min(*size, sizeof number));
  const std::lock_guard<std::mutex> guard(state.mutex);
  state.attributes[attribute] = number;
  return kSuccess;
}

int cuptiActivityGetAttribute(uint32_t attribute, size_t* size, void* value) {
  NEEDS_DRIVER();
  if (attribute >= kAttributes || size == nullptr || value == nullptr) return kInvalidParameter;
  if (*size < 1) return kSizeNotSufficient;
  const std::lock_guard<std::mutex> guard(state.mutex);
  std::memcpy(value, &state.attributes[attribute], std::min(*size, sizeof(uint64_t)));
  return kSuccess;
}

int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id) {
  NEEDS_DRIVER();
  FIRST_INTERFACE();
  if (kind == 0 || kind >= kExternalKinds) return kInvalidParameter;
  Stack& stack = stacks[kind];
  if (stack.depth == kDeepest) wrong("more numbers are pushed than popped");
  stack.ids[stack.depth++] = id;
  return kSuccess;
}

int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t* last) {
  NEEDS_DRIVER();
  if (kind == 0 || kind >= kExternalKinds) return kInvalidParameter;
  Stack& stack = stacks[kind];
  if (stack.depth == 0) return kQueueEmpty;
  stack.depth--;
  if (last != nullptr) *last = stack.ids[stack.depth];
  return kSuccess;
}

int cuptiActivityRegisterTimestampCallback(Timestamp clock) {
  MAY_FAIL();
  FIRST_INTERFACE();
  if (clock == nullptr) return kInvalidParameter;
  {
    const std::lock_guard<std::mutex> guard(state.mutex);
    theClock = clock;
    state.samples.clear();
  }
  sample();
  return kSuccess;
}

int cuptiGetTimestamp(uint64_t* timestamp) {
  NEEDS_DRIVER();
  if (timestamp == nullptr) return kInvalidParameter;
  *timestamp = now();
  return kSuccess;
}

#if CUPTI_DOUBLE_VERSION >= 24
int cuptiActivityEnableDriverApi(uint32_t function, uint8_t isOn) {
  MAY_FAIL();
  FIRST_INTERFACE();
  if (function >= kFunctions) return kInvalidParameter;
  if (isEnabled(kDriver)) driverExcluded[function] = isOn == 0;
  return kSuccess;
}

// The run-time library is never called here.
int cuptiActivityEnableRuntimeApi(uint32_t function, uint8_t isOn) {
  MAY_FAIL();
  FIRST_INTERFACE();
  if (function >= kFunctions) return kInvalidParameter;
  if (isEnabled(kRuntime)) runtimeExcluded[function] = isOn == 0;
  return kSuccess;
}
#endif

int cuptiGetStreamIdEx(uintptr_t, DoubleStream* stream, uint8_t, uint32_t* id) {
  NEEDS_DRIVER();
  if (id == nullptr) return kInvalidParameter;
  *id = driver.streamId(stream);
  return *id != 0 ? kSuccess : kInvalidStream;
}

int cuptiGetContextId(uintptr_t context, uint32_t* id) {
  NEEDS_DRIVER();
  if (id == nullptr) return kInvalidParameter;
  *id = driver.contextId(context);
  return *id != 0 ? kSuccess : kInvalidContext;
}

int cuptiSubscribe(void** subscriber, Callback callback, void* data) {
  MAY_FAIL();
  return subscribe(subscriber, callback, data, false, false);
}

#if CUPTI_DOUBLE_VERSION >= 130001
int cuptiSubscribe_v2(void** subscriber, Callback callback, void* data, const SubscriberParameters* parameters) {
  MAY_FAIL();
  // A caller of the second interface must find nothing of the first in use.
  if (kinds != 0 || cuptiDoubleOutstanding() != 0) violations++;
  isOfSecondInterface = true;
  const bool allowsOthers = parameters != nullptr && parameters->size >= sizeof *parameters && parameters->allowsOthers != 0;
  return subscribe(subscriber, callback, data, true, allowsOthers);
}
#endif

int cuptiUnsubscribe(void* subscriber) {
  NEEDS_DRIVER();
  {
    const std::lock_guard<std::mutex> guard(state.mutex);
    const auto found = std::find(state.subscribers.begin(), state.subscribers.end(), subscriber);
    if (subscriber == nullptr || found == state.subscribers.end()) return kInvalidParameter;
    delete *found;
    state.subscribers.erase(found);
    if (state.subscribers.empty()) isSubscribed = false;
  }
  if (!isSubscribed) setAll(driverCallbacks, false);
  traceIfNeeded();
  return kSuccess;
}

// Only calls of the driver lead to callbacks.
int cuptiEnableCallback(uint32_t isOn, void* subscriber, uint32_t domain, uint32_t function) {
  MAY_FAIL();
  if (subscriber == nullptr || domain == 0 || domain > 6 || function >= kFunctions) return kInvalidParameter;
  if (domain == 1) driverCallbacks[function] = isOn != 0;
  traceIfNeeded();
  return kSuccess;
}
int cuptiEnableDomain(uint32_t isOn, void* subscriber, uint32_t domain) {
  MAY_FAIL();
  if (subscriber == nullptr || domain == 0 || domain > 6) return kInvalidParameter;
  if (domain == 1) setAll(driverCallbacks, isOn != 0);
  traceIfNeeded();
  return kSuccess;
}

#if CUPTI_DOUBLE_VERSION >= 130301
int cuptiIsTracingSessionRunning(uint8_t* isRunning) {
  NEEDS_DRIVER();
  if (isRunning == nullptr) return kInvalidParameter;
  *isRunning = kinds != 0 || isSubscribed;
  return kSuccess;
}
#endif

int cuptiFinalize() {
  if (setting("CUPTI_DOUBLE_ENDS") == 0) violations++;
  NEEDS_DRIVER();
  isEnded = true;
  kinds = 0;
  setAll(driverExcluded, false), setAll(runtimeExcluded, false), setAll(driverCallbacks, false);
  traceIfNeeded();
  std::unique_lock<std::mutex> lock(state.mutex);
  state.delivered.wait(lock, [] { return state.delivering == 0; });
  // No callback is made any more, and no buffer is returned.
  state.requested = nullptr, state.completed = nullptr;
  auto forget = [](const Buffer* buffer) {
    if (buffer == nullptr) return;
    for (Slot* slot : buffer->slots) slot->buffer = nullptr;
  };
  for (auto* all : {&state.ofThreads, &state.ofContexts}) {
    for (const auto& [whose, buffer] : *all) forget(buffer);
    all->clear();
  }
  for (auto* all : {&state.full, &state.spare, &state.held}) {
    for (const Buffer* buffer : *all) forget(buffer);
    all->clear();
  }
  return kSuccess;
}

// ---- reports of the double -----------------------------------------------------------------------------------------

int cuptiDoubleViolations() { return violations; }
uint64_t cuptiDoubleStuck() { return stuck; }
int cuptiDoubleOutstanding() {
  const std::lock_guard<std::mutex> guard(state.mutex);
  return state.outstanding;
}
uint64_t cuptiDoubleKinds() { return kinds; }
void* cuptiDoubleCallbacks() {
  const std::lock_guard<std::mutex> guard(state.mutex);
  return reinterpret_cast<void*>(state.completed);
}
uint64_t cuptiDoubleRecords() {
  const std::lock_guard<std::mutex> guard(state.mutex);
  return state.written;
}
}
