// Answers questions that only a real CUPTI on a real device can answer (research: CUDA, section 10), without rankscope:
//   questions --cupti LIBRARY --cudart LIBRARY --nccl LIBRARY [--only NAME]
// CUPTI's state belongs to its process, so each question runs in a separate process, which may crash or hang. Prints a
// line of JSON per question with the observations, without a verdict. The status is the number of questions without an
// answer. No header of CUPTI is needed: layouts and numbers are those of interpose/cupti-sys/src/bindings.rs.
#include "device.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

// ---- answers --------------------------------------------------------------------------------------------------------

// A JSON object under construction.
class Json {
 public:
  Json& raw(const std::string& name, const std::string& value) {
    text += (text.empty() ? "" : ",") + quoted(name) + ":" + value;
    return *this;
  }
  template <typename Number>
  Json& add(const std::string& name, Number value) {
    if constexpr (std::is_same_v<Number, bool>) return raw(name, value ? "true" : "false");
    if constexpr (std::is_floating_point_v<Number>) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "%.6g", static_cast<double>(value));
      return raw(name, std::isfinite(static_cast<double>(value)) ? buffer : "null");
    } else {
      return raw(name, std::to_string(value));
    }
  }
  Json& add(const std::string& name, const Json& value) { return raw(name, value.whole()); }
  Json& add(const std::string& name, const std::string& value) { return raw(name, quoted(value)); }
  Json& add(const std::string& name, const char* value) { return raw(name, quoted(value)); }
  template <typename Item>
  Json& list(const std::string& name, const std::vector<Item>& items) {
    std::string all;
    for (const Item& item : items) {
      if (!all.empty()) all += ",";
      if constexpr (std::is_same_v<Item, Json>) all += item.whole();
      else if constexpr (std::is_same_v<Item, std::string>) all += quoted(item);
      else all += std::to_string(item);
    }
    return raw(name, "[" + all + "]");
  }
  std::string whole() const { return "{" + text + "}"; }

  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char byte : text) {
      const auto code = static_cast<unsigned char>(byte);
      if (byte == '"' || byte == '\\') {
        out += '\\';
        out += byte;
      } else if (code < 0x20 || code >= 0x7f) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
        out += escaped;
      } else {
        out += byte;
      }
    }
    return out + "\"";
  }

 private:
  std::string text;
};

// ---- CUPTI ----------------------------------------------------------------------------------------------------------

enum Kind : uint32_t { kCopy = 1, kSet = 2, kDriver = 4, kRuntime = 5, kKernel = 10, kOverhead = 17, kExternal = 39 };
// Functions of the driver and of the run-time library, by CUPTI's numbers.
enum Function : uint32_t {
  kCtxSynchronize = 17,
  kStreamSynchronize = 126,
  kLaunchKernel = 307,
  kLaunchKernelEx = 652,
  kCudaLaunchKernel = 211,
  kCudaLaunchKernelExC = 430,
  kCudaMemcpyAsync = 41,
  kCudaMemsetAsync = 51,
  kMemsetD8Async = 216,
  kMemcpyAsync = 306,
  kMemcpyHtoDAsync = 277,
};
constexpr uint32_t kOurs = 5, kPerThread = 9;

using Clock = uint64_t();
using Requested = void(uint8_t**, size_t*, size_t*);
using Completed = void(void*, uint32_t, uint8_t*, size_t, size_t);
using Callback = void(void*, uint32_t, uint32_t, const void*);

struct Cupti {
  void* const handle;
  int (*const version)(uint32_t*) = Found(handle, "cuptiGetVersion");
  int (*const registerCallbacks)(Requested*, Completed*) = Found(handle, "cuptiActivityRegisterCallbacks");
  int (*const enable)(uint32_t) = Found(handle, "cuptiActivityEnable");
  int (*const disable)(uint32_t) = Found(handle, "cuptiActivityDisable");
  int (*const flush)(uint32_t) = Found(handle, "cuptiActivityFlushAll");
  int (*const nextRecord)(uint8_t*, size_t, uint8_t**) = Found(handle, "cuptiActivityGetNextRecord");
  int (*const dropped)(void*, uint32_t, size_t*) = Found(handle, "cuptiActivityGetNumDroppedRecords");
  int (*const registerClock)(Clock*) = Found(handle, "cuptiActivityRegisterTimestampCallback");
  int (*const timestamp)(uint64_t*) = Found(handle, "cuptiGetTimestamp");
  int (*const push)(uint32_t, uint64_t) = Found(handle, "cuptiActivityPushExternalCorrelationId");
  int (*const pop)(uint32_t, uint64_t*) = Found(handle, "cuptiActivityPopExternalCorrelationId");
  int (*const driverFunction)(uint32_t, uint8_t) = Found(handle, "cuptiActivityEnableDriverApi");
  int (*const runtimeFunction)(uint32_t, uint8_t) = Found(handle, "cuptiActivityEnableRuntimeApi");
  int (*const attribute)(uint32_t, size_t*, void*) = Found(handle, "cuptiActivityGetAttribute");
  int (*const setAttribute)(uint32_t, size_t*, void*) = Found(handle, "cuptiActivitySetAttribute");
  int (*const subscribe)(void**, Callback*, void*) = Found(handle, "cuptiSubscribe");
  int (*const unsubscribe)(void*) = Found(handle, "cuptiUnsubscribe");
  int (*const enableCallback)(uint32_t, void*, uint32_t, uint32_t) = Found(handle, "cuptiEnableCallback");
};

// Fields that are read from a record: `function` of a call, `external` of a pushed number, and others.
struct Record {
  uint32_t kind, correlation = 0, function = 0, thread = 0, stream = 0;
  uint64_t start = 0, end = 0, external = 0;
  const char* name = nullptr;
};

struct Buffer {
  long requestedOn, completedOn;
  std::vector<Record> records;
};

static const Cupti* cupti;
static std::mutex mutex;
static std::map<uint8_t*, long> outstanding;
static std::vector<Buffer> buffers;
static size_t requestedBuffers, emptyBuffers;
static constexpr size_t kBufferBytes = 1 << 20;

static long threadId() { return syscall(SYS_gettid); }

template <typename Value>
static Value at(const uint8_t* record, size_t offset) {
  Value value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

static Record read(const uint8_t* from) {
  Record record;
  record.kind = at<uint32_t>(from, 0);
  switch (record.kind) {
    case kKernel:
      record.start = at<uint64_t>(from, 16), record.end = at<uint64_t>(from, 24), record.stream = at<uint32_t>(from, 48);
      record.correlation = at<uint32_t>(from, 92), record.name = at<const char*>(from, 104);
      break;
    case kCopy:
      record.start = at<uint64_t>(from, 16), record.end = at<uint64_t>(from, 24), record.stream = at<uint32_t>(from, 40);
      record.correlation = at<uint32_t>(from, 44);
      break;
    case kSet:
      record.start = at<uint64_t>(from, 16), record.end = at<uint64_t>(from, 24), record.stream = at<uint32_t>(from, 40);
      record.correlation = at<uint32_t>(from, 44);
      break;
    case kDriver:
    case kRuntime:
      record.function = at<uint32_t>(from, 4), record.start = at<uint64_t>(from, 8), record.end = at<uint64_t>(from, 16);
      record.thread = at<uint32_t>(from, 28), record.correlation = at<uint32_t>(from, 32);
      break;
    case kExternal:
      record.external = at<uint64_t>(from, 8), record.correlation = at<uint32_t>(from, 16);
      break;
    default:
      break;
  }
  return record;
}

static void requested(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes, *most = 0;
  const std::lock_guard<std::mutex> guard(mutex);
  outstanding[*buffer] = threadId();
  requestedBuffers++;
}

static void completed(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  // No lock is held while CUPTI is called.
  std::vector<Record> records;
  for (uint8_t* record = nullptr; valid > 0 && cupti->nextRecord(buffer, valid, &record) == 0;) records.push_back(read(record));
  {
    const std::lock_guard<std::mutex> guard(mutex);
    emptyBuffers += records.empty();
    buffers.push_back({outstanding[buffer], threadId(), std::move(records)});
    outstanding.erase(buffer);
  }
  std::free(buffer);
}

// Returns all records since the last call, in order of the return of their buffers.
static std::vector<Record> taken() {
  const std::lock_guard<std::mutex> guard(mutex);
  std::vector<Record> all;
  for (const Buffer& buffer : buffers) all.insert(all.end(), buffer.records.begin(), buffer.records.end());
  buffers.clear();
  return all;
}

static size_t count(const std::vector<Record>& records, uint32_t kind) {
  return static_cast<size_t>(std::count_if(records.begin(), records.end(), [&](const Record& record) { return record.kind == kind; }));
}

static std::string kindName(uint32_t kind) {
  switch (kind) {
    case kCopy: return "copy";
    case kSet: return "set";
    case kDriver: return "driver";
    case kRuntime: return "runtime";
    case kKernel: return "kernel";
    case kOverhead: return "overhead";
    case kExternal: return "external";
    default: return "kind " + std::to_string(kind);
  }
}

// "driver 307 #12", "kernel #12", "external 1000 #12", "other 17".
static std::string words(const Record& record) {
  std::string text = kindName(record.kind);
  if (record.kind == kDriver || record.kind == kRuntime) text += " " + std::to_string(record.function);
  if (record.kind == kExternal) text += " " + std::to_string(record.external);
  return record.correlation != 0 ? text + " #" + std::to_string(record.correlation) : text;
}

static std::vector<std::string> words(const std::vector<Record>& records) {
  std::vector<std::string> all;
  for (const Record& record : records) all.push_back(words(record));
  return all;
}

static int on(uint32_t kind) { return cupti->enable(kind); }

// Numbers of functions by version (CUPTI_DRIVER_TRACE_CBID_SIZE and CUPTI_RUNTIME_TRACE_CBID_SIZE in its headers).
static std::pair<uint32_t, uint32_t> functionNumbers() {
  uint32_t version = 0;
  FINE(cupti->version(&version));
  if (version >= 130500) return {877, 567};
  if (version >= 130201) return {846, 559};
  if (version >= 130000) return {807, 523};
  if (version >= 28) return {784, 487};
  return {763, 480};
}

// Sets all functions of both lists, except these. Returns how many CUPTI refused.
static int setAllBut(const std::set<uint32_t>& driver, const std::set<uint32_t>& runtime, uint8_t isOn) {
  const auto [drivers, runtimes] = functionNumbers();
  int refused = 0;
  for (uint32_t number = 1; number < drivers; number++)
    if (driver.count(number) == 0) refused += cupti->driverFunction(number, isOn) != 0;
  for (uint32_t number = 1; number < runtimes; number++)
    if (runtime.count(number) == 0) refused += cupti->runtimeFunction(number, isOn) != 0;
  return refused;
}

// Records calls of these functions and of no others. A function can only be denied while its kind is enabled.
static void onlyFunctions(const std::set<uint32_t>& driver, const std::set<uint32_t>& runtime) {
  if (!driver.empty()) FINE(on(kDriver));
  if (!runtime.empty()) FINE(on(kRuntime));
  setAllBut(driver, runtime, 0);
}

static void noFunctions() {
  setAllBut({}, {}, 1);
  cupti->disable(kDriver);
  cupti->disable(kRuntime);
}

// ---- clocks ---------------------------------------------------------------------------------------------------------

static uint64_t tsc() { return __rdtsc(); }
static uint64_t realtime() { return static_cast<uint64_t>(clockNs(CLOCK_REALTIME)); }
static constexpr uint64_t kFar = 5000000000000000000;
static uint64_t farMonotonic() { return static_cast<uint64_t>(clockNs(CLOCK_MONOTONIC_RAW)) + kFar; }
static std::atomic<uint64_t> asked;
static uint64_t countingTsc() {
  asked++;
  return tsc();
}

static double median(std::vector<double> values, double share = 0.5) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

static Json spread(const std::vector<double>& values) {
  Json json;
  json.add("count", values.size()).add("min", median(values, 0)).add("p1", median(values, 0.01)).add("median", median(values));
  return json.add("p99", median(values, 0.99)).add("max", median(values, 1));
}

// ---- questions ------------------------------------------------------------------------------------------------------

struct Asking {
  const Options& options;
  Device device;
  Handle small = device.kernel("rankscope_small"), spin = device.kernel("rankscope_spin");
  Handle stream = device.stream(), other = device.stream();

  explicit Asking(const Options& options) : options(options) {}

  void launch(int times) const {
    for (int at = 0; at < times; at++) FINE(device.driver.launch(small, stream, device.memory));
  }
  void run(int times) const {
    launch(times);
    FINE(device.driver.synchronize(stream));
  }
  void spinFor(uint64_t ns, Handle on) const { FINE(device.driver.launch(spin, on, device.memory + 65536, ns)); }
};

static void listen() { FINE(cupti->registerCallbacks(requested, completed)); }

// Versions, and how buffers are assigned by default.
static Json versions(const Asking& asking) {
  uint32_t version = 0;
  int driver = 0;
  FINE(asking.device.driver.version(&driver));
  const int told = cupti->version(&version);
  uint8_t perThread = 255;
  size_t bytes = sizeof perThread;
  const int asked = cupti->attribute(kPerThread, &bytes, &perThread);
  Json json;
  json.add("cupti", version).add("cupti_result", told).add("driver", driver);
  return json.add("buffers_per_thread", perThread).add("buffers_per_thread_result", asked);
}

static std::atomic<int> callbacks;
static void called(void*, uint32_t, uint32_t, const void*) { callbacks++; }

// (1), (2): another caller subscribes while activity is recorded, which needs no subscriber.
static Json subscribeWhileActive(const Asking& asking) {
  Json json;
  listen();
  json.add("enable", on(kKernel));
  asking.run(10);
  json.add("flush", cupti->flush(0)).add("kernels_without_a_subscriber", count(taken(), kKernel));
  void* subscriber = nullptr;
  json.add("subscribe", cupti->subscribe(&subscriber, called, nullptr));
  json.add("enable_callback", cupti->enableCallback(1, subscriber, 1, kLaunchKernel));
  asking.run(10);
  cupti->flush(0);
  json.add("kernels_with_a_subscriber", count(taken(), kKernel)).add("its_callbacks", callbacks.load());
  void* second = nullptr;
  json.add("second_subscribe", cupti->subscribe(&second, called, nullptr)).add("unsubscribe", cupti->unsubscribe(subscriber));
  asking.run(10);
  cupti->flush(0);
  return json.add("kernels_after_it_left", count(taken(), kKernel));
}

// (1) in the opposite order.
static Json activeWhileSubscribed(const Asking& asking) {
  Json json;
  void *subscriber = nullptr, *second = nullptr;
  json.add("subscribe", cupti->subscribe(&subscriber, called, nullptr)).add("second_subscribe", cupti->subscribe(&second, called, nullptr));
  json.add("register_clock", cupti->registerClock(tsc)).add("register_callbacks", cupti->registerCallbacks(requested, completed)).add("enable", on(kKernel));
  asking.run(10);
  json.add("flush", cupti->flush(0)).add("kernels", count(taken(), kKernel)).add("disable", cupti->disable(kKernel));
  return json.add("unsubscribe", cupti->unsubscribe(subscriber));
}

// Whether CUPTI's timestamp is that of the registered clock.
static Json timestamp(const Asking& asking) {
  Json json;
  uint64_t told = 0;
  const uint64_t before = realtime();
  json.add("before_anything", cupti->timestamp(&told)).add("is_realtime", told >= before && told <= realtime());
  json.add("behind_realtime_ns", static_cast<int64_t>(before - told));
  json.add("register", cupti->registerClock(countingTsc)).add("asked_by_registering", asked.load());
  auto ask = [&](const char* when) {
    int between = 0, failed = 0;
    const uint64_t first = asked;
    for (int at = 0; at < 1000; at++) {
      const uint64_t from = tsc();
      failed += cupti->timestamp(&told) != 0;
      between += told >= from && told <= tsc();
    }
    Json answer;
    answer.add("of_1000_between", between).add("failed", failed).add("asked_per_question", static_cast<double>(asked - first) / 1000);
    json.add(when, answer);
  };
  ask("registered");
  listen();
  json.add("enable", on(kKernel));
  ask("enabled");
  asking.run(100);
  const uint64_t first = asked;
  const auto begun = clockNs(CLOCK_MONOTONIC_RAW);
  while (clockNs(CLOCK_MONOTONIC_RAW) < begun + 1000000000) usleep(1000);
  json.add("asked_in_an_idle_second", asked - first);
  cupti->flush(0);
  return json.add("asked_by_a_flush", asked - first);
}

// Whether the default can be restored.
static Json noClock(const Asking& asking) {
  Json json;
  json.add("register", cupti->registerClock(tsc)).add("register_null", cupti->registerClock(nullptr));
  listen();
  json.add("enable", on(kKernel));
  asking.run(10);
  cupti->flush(0);
  uint64_t told = 0;
  json.add("timestamp", cupti->timestamp(&told)).add("behind_realtime_ns", static_cast<int64_t>(realtime() - told));
  const auto records = taken();
  if (!records.empty()) json.add("kernel_behind_realtime_ns", static_cast<int64_t>(realtime() - records.front().start));
  return json;
}

static Json flushed(const std::function<int()>& flush) {
  Json json;
  const auto begun = clockNs(CLOCK_MONOTONIC_RAW);
  const int result = flush();
  json.add("result", result).add("took_us", static_cast<double>(clockNs(CLOCK_MONOTONIC_RAW) - begun) / 1000);
  size_t handedOut;
  {
    const std::lock_guard<std::mutex> guard(mutex);
    handedOut = buffers.size();
    json.add("outstanding_after", outstanding.size());
  }
  const auto records = taken();
  size_t running = 0;
  for (const Record& record : records) running += record.kind == kKernel && record.end == 0;
  return json.add("buffers", handedOut).add("kernels", count(records, kKernel)).add("kernels_without_end", running).add("calls", count(records, kDriver));
}

// Records that a flush delivers, forced or not, when everything is over and while a kernel runs.
static Json flushes(const Asking& asking) {
  constexpr uint64_t kLong = 300000000;
  Json json;
  listen();
  onlyFunctions({kLaunchKernel}, {});
  FINE(on(kKernel));
  auto gently = [] { return cupti->flush(0); };
  auto byForce = [] { return cupti->flush(1); };
  asking.run(100);
  json.add("outstanding_at_first", outstanding.size());
  json.add("gently_all_over", flushed(gently)).add("gently_again", flushed(gently));
  asking.run(100);
  json.add("by_force_all_over", flushed(byForce)).add("by_force_again", flushed(byForce));
  // Ten kernels that are over, before and after one that runs on another stream.
  asking.run(10);
  asking.spinFor(kLong, asking.other);
  asking.run(10);
  json.add("gently_one_runs", flushed(gently));
  FINE(asking.device.driver.synchronizeContext());
  json.add("gently_then_it_is_over", flushed(gently));
  asking.spinFor(kLong, asking.other);
  asking.run(10);
  json.add("by_force_one_runs", flushed(byForce));
  FINE(asking.device.driver.synchronizeContext());
  json.add("gently_then_it_is_over_too", flushed(gently));
  // More than a buffer holds: records that arrive without a flush.
  for (int at = 0; at < 100; at++) asking.run(200);
  usleep(100000);
  json.add("without_a_flush", flushed([] { return 0; }));
  json.add("the_rest_by_force", flushed(byForce)).add("empty_buffers", emptyBuffers).add("requested", requestedBuffers);
  size_t dropped = 0;
  return json.add("dropped_result", cupti->dropped(nullptr, 0, &dropped)).add("dropped", dropped);
}

// Calls of the run-time library, and the driver's calls inside them.
struct Dim3 {
  unsigned x, y, z;
};
static Json runtimeAndDriver(const Asking& asking) {
  Json json;
  void* const runtime = library(asking.options.text("cudart", "libcudart.so.13").c_str(), RTLD_LOCAL);
  int (*const setDevice)(int) = Found(runtime, "cudaSetDevice");
  int (*const set)(void*, int, size_t, void*) = Found(runtime, "cudaMemsetAsync");
  int (*const copy)(void*, const void*, size_t, int, void*) = Found(runtime, "cudaMemcpyAsync");
  FINE(setDevice(0));
  // A kernel without the compiler's registration, from a loaded library. This exists since 12.8.
  void *loaded = nullptr, *kernel = nullptr;
  auto* load = reinterpret_cast<int (*)(void**, const void*, void*, void**, unsigned, void*, void**, unsigned)>(dlsym(runtime, "cudaLibraryLoadData"));
  auto* find = reinterpret_cast<int (*)(void**, void*, const char*)>(dlsym(runtime, "cudaLibraryGetKernel"));
  auto* launch = reinterpret_cast<int (*)(const void*, Dim3, Dim3, void**, size_t, void*)>(dlsym(runtime, "cudaLaunchKernel"));
  const std::string text = kernelText();
  const int loads = load != nullptr ? load(&loaded, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0) : -1;
  json.add("library_load", loads);
  if (loads == 0 && find != nullptr && launch != nullptr) json.add("library_kernel", find(&kernel, loaded, "rankscope_small"));
  Address memory = asking.device.memory;
  void* const place = reinterpret_cast<void*>(memory);
  void* arguments[] = {&memory};
  auto work = [&](const char* how) {
    Json answer;
    auto told = [&](const char* what, int result) {
      FINE(asking.device.driver.synchronizeContext());
      cupti->flush(0);
      answer.add(std::string(what) + "_result", result).list(what, words(taken()));
    };
    if (kernel != nullptr) told("cudaLaunchKernel", launch(kernel, {1, 1, 1}, {32, 1, 1}, arguments, 0, asking.stream));
    told("cudaMemsetAsync", set(place, 0, 4096, asking.stream));
    told("cudaMemcpyAsync", copy(place, asking.device.host, 4096, 1, asking.stream));
    asking.launch(1);
    told("cuLaunchKernel", 0);
    json.add(how, answer);
  };
  work("warm_up");
  listen();
  for (const uint32_t kind : {kKernel, kCopy, kSet}) FINE(on(kind));
  const uint32_t ofDriver[] = {kLaunchKernel, kLaunchKernelEx, kMemsetD8Async, kMemcpyAsync, kMemcpyHtoDAsync};
  const uint32_t ofRuntime[] = {kCudaLaunchKernel, kCudaLaunchKernelExC, kCudaMemcpyAsync, kCudaMemsetAsync};
  auto functions = [&](bool driver, bool isRuntime) {
    for (const uint32_t number : ofDriver) FINE(cupti->driverFunction(number, driver));
    for (const uint32_t number : ofRuntime) FINE(cupti->runtimeFunction(number, isRuntime));
  };
  work("no_function");
  functions(true, false);
  work("functions_of_the_driver");
  functions(false, true);
  work("functions_of_the_runtime");
  functions(true, true);
  work("functions_of_both");
  functions(false, false);
  FINE(on(kDriver));
  FINE(on(kRuntime));
  work("all_of_both");
  const std::set<uint32_t> driverSet(std::begin(ofDriver), std::end(ofDriver)), runtimeSet(std::begin(ofRuntime), std::end(ofRuntime));
  auto timed = [&](const char* what, uint8_t isOn) {
    const int64_t begun = clockNs(CLOCK_MONOTONIC_RAW);
    const int refused = setAllBut(driverSet, runtimeSet, isOn);
    json.add(std::string(what) + "_us", static_cast<double>(clockNs(CLOCK_MONOTONIC_RAW) - begun) / 1000).add(std::string(what) + "_refused", refused);
  };
  timed("deny_all_but", 0);
  work("both_denied_all_but");
  cupti->disable(kRuntime);
  work("driver_denied_all_but");
  FINE(on(kRuntime));
  work("runtime_off_and_on_again");
  setAllBut(driverSet, runtimeSet, 0);
  cupti->disable(kDriver);
  work("runtime_denied_all_but");
  cupti->disable(kRuntime);
  FINE(on(kDriver));
  FINE(on(kRuntime));
  work("both_off_and_on_again");
  setAllBut(driverSet, runtimeSet, 0);
  FINE(on(kDriver));
  FINE(on(kRuntime));
  work("enabled_twice");
  timed("allow_all", 1);
  work("both_allowed_again");
  cupti->disable(kDriver);
  cupti->disable(kRuntime);
  setAllBut({}, {}, 0);
  FINE(on(kDriver));
  FINE(on(kRuntime));
  work("denied_while_off");
  return json;
}

// Order in which a pushed number, the call and the kernel are reported.
static Json external(const Asking& asking) {
  Json json;
  listen();
  FINE(on(kKernel));
  json.add("enable_external", on(kExternal));
  auto work = [&](const char* how) {
    for (int at = 0; at < 3; at++) {
      FINE(cupti->push(kOurs, 1000 + static_cast<uint64_t>(at)));
      asking.launch(1);
      uint64_t last = 0;
      FINE(cupti->pop(kOurs, &last));
      CHECK(last == 1000 + static_cast<uint64_t>(at));
    }
    asking.run(1);
    cupti->flush(0);
    std::vector<Json> answers;
    {
      const std::lock_guard<std::mutex> guard(mutex);
      for (const Buffer& buffer : buffers) {
        Json answer;
        answer.add("requested_by_the_caller", buffer.requestedOn == threadId()).list("records", words(buffer.records));
        answers.push_back(answer);
      }
    }
    taken();
    json.list(how, answers);
  };
  work("no_function");
  onlyFunctions({kLaunchKernel}, {});
  work("cuLaunchKernel");
  // Number of another user on the same call.
  FINE(cupti->push(3, 77));
  work("and_another_kind_pushed");
  FINE(cupti->pop(3, nullptr));
  noFunctions();
  FINE(on(kDriver));
  work("all_of_the_driver");
  return json;
}

// Buffers that exist with three launching threads.
static Json threads(const Asking& asking, bool isShared) {
  Json json;
  if (isShared) {
    uint8_t no = 0;
    size_t bytes = sizeof no;
    json.add("set_attribute", cupti->setAttribute(kPerThread, &bytes, &no));
  }
  listen();
  onlyFunctions({kLaunchKernel}, {});
  FINE(on(kKernel));
  std::map<long, std::string> names = {{threadId(), "main"}};
  auto work = [&](const char* name) {
    FINE(asking.device.driver.setContext(asking.device.context));
    {
      const std::lock_guard<std::mutex> guard(mutex);
      names[threadId()] = name;
    }
    const Handle stream = asking.device.stream();
    for (int at = 0; at < 50; at++) FINE(asking.device.driver.launch(asking.small, stream, asking.device.memory));
    FINE(asking.device.driver.synchronize(stream));
  };
  std::thread one(work, "one"), two(work, "two");
  one.join(), two.join();
  work("main");
  json.add("requested", requestedBuffers).add("flush", cupti->flush(0));
  std::vector<Json> answers;
  auto name = [&](long thread) { return names.count(thread) != 0 ? names[thread] : "another"; };
  {
    const std::lock_guard<std::mutex> guard(mutex);
    for (const Buffer& buffer : buffers) {
      std::set<std::string> callers;
      for (const Record& record : buffer.records)
        if (record.kind == kDriver) callers.insert(name(record.thread));
      Json answer;
      answer.add("requested_on", name(buffer.requestedOn)).add("completed_on", name(buffer.completedOn));
      answer.add("kernels", count(buffer.records, kKernel)).add("calls", count(buffer.records, kDriver));
      answers.push_back(answer.list("callers", std::vector<std::string>(callers.begin(), callers.end())));
    }
    json.add("outstanding_after", outstanding.size());
  }
  return json.list("buffers", answers);
}

// Clock that stamps records of work before, during and after the registration of another one.
static Json clockChange(const Asking& asking) {
  Json json;
  auto told = [&](const char* what, uint32_t firstNew, const std::vector<Record>& records) {
    Json answer;
    for (const uint32_t kind : {kKernel, kDriver}) {
      int sums[2][3] = {};
      for (const Record& record : records) {
        if (record.kind != kind) continue;
        auto which = [](uint64_t stamp) { return stamp > kFar ? 1 : stamp > 1000000000000000000 ? 0 : 2; };
        sums[record.correlation >= firstNew][which(record.start) == which(record.end) ? which(record.start) : 2]++;
      }
      for (int at = 0; at < 2; at++) {
        Json one;
        one.add("by_the_old_clock", sums[at][0]).add("by_the_new_clock", sums[at][1]).add("by_neither", sums[at][2]);
        answer.add(kindName(kind) + (at == 0 ? "s_launched_before" : "s_launched_after"), one);
      }
    }
    json.add(what, answer);
  };
  // All launched work has been delivered.
  auto settled = [&] {
    asking.run(1);
    cupti->flush(0);
    taken();
  };
  auto handedOut = [] {
    const std::lock_guard<std::mutex> guard(mutex);
    return buffers.size();
  };
  json.add("register_first", cupti->registerClock(realtime));
  listen();
  onlyFunctions({kLaunchKernel}, {});
  FINE(on(kKernel));
  settled();
  asking.run(10);
  json.add("buffers_before", handedOut());
  json.add("register_second", cupti->registerClock(farMonotonic)).add("buffers_after_registering", handedOut());
  asking.run(10);
  cupti->flush(0);
  auto records = taken();
  // Number of the eleventh of twenty launches.
  std::set<uint32_t> numbers;
  for (const Record& record : records)
    if (record.kind == kKernel) numbers.insert(record.correlation);
  json.add("kernels", numbers.size());
  told("over_but_not_flushed", numbers.size() == 20 ? *std::next(numbers.begin(), 10) : UINT32_MAX, records);

  // A kernel that runs while the clock changes back.
  FINE(cupti->registerClock(realtime));
  settled();
  asking.spinFor(200000000, asking.stream);
  FINE(cupti->registerClock(farMonotonic));
  FINE(asking.device.driver.synchronizeContext());
  cupti->flush(0);
  told("it_ran_meanwhile", UINT32_MAX, taken());
  // Everything was delivered before.
  FINE(cupti->registerClock(realtime));
  settled();
  FINE(cupti->registerClock(farMonotonic));
  asking.run(10);
  cupti->flush(0);
  told("flushed_before", 0, taken());
  return json;
}

// Measures how well device times fit a host's clock: starts before the launch, and ends after the return of the wait.
static Json clockError(const Asking& asking, bool isTsc) {
  constexpr int kSeconds = 4;
  constexpr uint64_t kSpinNs = 20000;
  struct Launch {
    uint64_t before, after, back;
  };
  Json json;
  const auto clock = isTsc ? tsc : realtime;
  const uint64_t firstTick = tsc();
  const int64_t firstNs = clockNs(CLOCK_MONOTONIC_RAW);
  json.add("register", cupti->registerClock(clock));
  listen();
  onlyFunctions({kLaunchKernel}, {});
  FINE(on(kKernel));
  std::vector<Launch> launches;
  const int64_t until = firstNs + kSeconds * 1000000000LL;
  int64_t nextFlush = firstNs;
  std::vector<Record> records;
  while (clockNs(CLOCK_MONOTONIC_RAW) < until) {
    Launch launch;
    launch.before = clock();
    asking.spinFor(kSpinNs, asking.stream);
    launch.after = clock();
    FINE(asking.device.driver.synchronize(asking.stream));
    launch.back = clock();
    launches.push_back(launch);
    usleep(1000);
    if (clockNs(CLOCK_MONOTONIC_RAW) > nextFlush) {
      cupti->flush(0);
      nextFlush += 500000000;
    }
  }
  cupti->flush(0);
  records = taken();
  const double perNs = isTsc ? static_cast<double>(tsc() - firstTick) / static_cast<double>(clockNs(CLOCK_MONOTONIC_RAW) - firstNs) : 1.0;
  std::map<uint32_t, Record> kernels, calls;
  for (const Record& record : records) {
    if (record.kind == kKernel) kernels[record.correlation] = record;
    if (record.kind == kDriver) calls[record.correlation] = record;
  }
  std::vector<double> early, late, lasted, call, back;
  auto ns = [&](uint64_t to, uint64_t from) { return static_cast<double>(static_cast<int64_t>(to - from)) / perNs; };
  size_t at = 0;
  for (const auto& [correlation, kernel] : kernels) {
    if (at == launches.size()) break;
    const Launch& launch = launches[at++];
    early.push_back(ns(kernel.start, launch.before));
    late.push_back(ns(launch.back, kernel.end));
    lasted.push_back(ns(kernel.end, kernel.start));
    const auto found = calls.find(correlation);
    if (found == calls.end()) continue;
    call.push_back(ns(found->second.start, launch.before));
    back.push_back(ns(launch.after, found->second.end));
  }
  // The smallest distances by time show a clock error that changes.
  constexpr double kBinNs = 1e8;
  std::map<size_t, std::pair<double, double>> bins;
  for (size_t one = 0; one < early.size(); one++) {
    const auto bin = static_cast<size_t>(ns(launches[one].before, launches[0].before) / kBinNs);
    const auto found = bins.emplace(bin, std::make_pair(early[one], late[one])).first;
    found->second = {std::min(found->second.first, early[one]), std::min(found->second.second, late[one])};
  }
  std::vector<double> earlyBins, lateBins;
  for (const auto& [bin, least] : bins) earlyBins.push_back(std::round(least.first)), lateBins.push_back(std::round(least.second));
  json.list("least_from_launch_to_start_ns_by_100_ms", earlyBins).list("least_from_end_to_return_ns_by_100_ms", lateBins);
  json.add("launched", launches.size()).add("kernels", kernels.size()).add("ticks_per_ns", perNs).add("spin_ns", kSpinNs);
  json.add("from_launch_to_start_ns", spread(early)).add("from_end_to_return_ns", spread(late)).add("lasted_ns", spread(lasted));
  return json.add("from_launch_to_call_ns", spread(call)).add("from_call_to_return_ns", spread(back));
}

// Cost of a launch with different records about it, in interleaved blocks.
static Json cost(const Asking& asking) {
  constexpr int kRounds = 40, kLaunches = 2000, kAtOnce = 200;
  struct How {
    const char* name;
    bool kernels, function, external, driver;
  };
  static const How hows[] = {
      {"nothing", false, false, false, false},
      {"kernels", true, false, false, false},
      {"kernels_and_function", true, true, false, false},
      {"kernels_function_and_external", true, true, true, false},
      {"kernels_and_all_of_the_driver", true, false, false, true},
  };
  const Driver& driver = asking.device.driver;
  std::vector<double> single;
  int (*const query)(Handle) = Found(driver.handle, "cuStreamQuery");
  // A call that is recorded only with all of the driver.
  auto others = [&] {
    const int64_t begun = clockNs(CLOCK_MONOTONIC_RAW);
    for (int one = 0; one < kLaunches; one++) query(asking.stream);
    return static_cast<double>(clockNs(CLOCK_MONOTONIC_RAW) - begun) / kLaunches / 1000;
  };
  auto block = [&](const How& how) {
    double sum = 0;
    for (int at = 0; at < kLaunches; at += kAtOnce) {
      const int64_t begun = clockNs(CLOCK_MONOTONIC_RAW);
      for (int one = 0; one < kAtOnce; one++) {
        if (how.external) cupti->push(kOurs, 1);
        FINE(driver.launch(asking.small, asking.stream, asking.device.memory));
        if (how.external) cupti->pop(kOurs, nullptr);
      }
      sum += static_cast<double>(clockNs(CLOCK_MONOTONIC_RAW) - begun);
      FINE(driver.synchronize(asking.stream));
    }
    return sum / kLaunches / 1000;
  };
  Json json;
  std::vector<double> never;
  for (int at = 0; at < 5; at++) block(hows[0]);
  for (int at = 0; at < 20; at++) never.push_back(block(hows[0]));
  json.add("before_cupti_us", spread(never));
  FINE(cupti->registerClock(tsc));
  listen();
  std::map<std::string, std::vector<double>> all, allOthers;
  size_t kernels = 0, launched = 0;
  for (int round = 0; round < kRounds; round++) {
    std::vector<How> order(std::begin(hows), std::end(hows));
    // The order alternates, so that a drift affects all equally.
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
    for (const How& how : order) {
      if (how.function) onlyFunctions({kLaunchKernel}, {kCudaLaunchKernel});
      if (how.external) FINE(on(kExternal));
      if (how.driver) FINE(on(kDriver));
      if (how.kernels) FINE(on(kKernel));
      all[how.name].push_back(block(how));
      allOthers[how.name].push_back(others());
      if (how.kernels) FINE(cupti->disable(kKernel));
      launched += how.kernels ? kLaunches : 0;
      if (how.external) FINE(cupti->disable(kExternal));
      if (how.driver) FINE(cupti->disable(kDriver));
      if (how.function) noFunctions();
      FINE(cupti->flush(0));
      kernels += count(taken(), kKernel);
    }
  }
  json.add("rounds", kRounds).add("launches_per_block", kLaunches).add("launched_and_to_be_recorded", launched).add("recorded", kernels);
  for (const How& how : hows) {
    std::vector<double> more;
    for (int at = 0; at < kRounds; at++) more.push_back(all[how.name][static_cast<size_t>(at)] - all["nothing"][static_cast<size_t>(at)]);
    double mean = 0, square = 0;
    for (const double value : more) mean += value / kRounds;
    for (const double value : more) square += (value - mean) * (value - mean) / (kRounds - 1);
    // Student's t for 39 degrees of freedom.
    const double half = 2.023 * std::sqrt(square / kRounds);
    Json answer;
    answer.add("launch_us", spread(all[how.name])).add("other_call_us", spread(allOthers[how.name])).add("more_us", mean);
    json.add(how.name, answer.list("more_us_95", std::vector<double>{mean - half, mean + half}));
  }
  return json;
}

// ---- NCCL -----------------------------------------------------------------------------------------------------------

// One of two ranks on the same device. Rank 0 reports.
static Json ncclRank(const Asking& asking) {
  const int rank = static_cast<int>(asking.options.number("rank", 0));
  const std::string directory = asking.options.text("directory", ".");
  Communicator communicator(asking.options.text("nccl", "libnccl.so.2").c_str());
  const std::string path = directory + "/id";
  UniqueId id;
  if (rank == 0) {
    id = communicator.id();
    std::FILE* file = std::fopen((path + ".fresh").c_str(), "wb");
    CHECK(file != nullptr && std::fwrite(&id, sizeof id, 1, file) == 1 && std::fclose(file) == 0);
    CHECK(std::rename((path + ".fresh").c_str(), path.c_str()) == 0);
  } else {
    std::FILE* file;
    while ((file = std::fopen(path.c_str(), "rb")) == nullptr) usleep(1000);
    CHECK(std::fread(&id, sizeof id, 1, file) == 1);
    std::fclose(file);
  }
  communicator.begin(id, rank, 2);
  int (*const allReduce)(const void*, void*, size_t, int, int, Handle, Handle) = Found(communicator.handle, "ncclAllReduce");
  int (*const groupStart)() = Found(communicator.handle, "ncclGroupStart");
  int (*const groupEnd)() = Found(communicator.handle, "ncclGroupEnd");
  void* const place = reinterpret_cast<void*>(asking.device.memory);
  auto reduce = [&] { FINE(allReduce(place, place, 1024, 7, 0, communicator.comm, asking.stream)); };
  for (int at = 0; at < 3; at++) reduce();
  FINE(asking.device.driver.synchronize(asking.stream));
  Json json;
  listen();
  onlyFunctions({kLaunchKernel, kLaunchKernelEx}, {kCudaLaunchKernel, kCudaLaunchKernelExC});
  FINE(on(kExternal));
  FINE(on(kKernel));
  for (uint64_t at = 0; at < 5; at++) {
    FINE(cupti->push(kOurs, 7000 + at));
    reduce();
    FINE(cupti->pop(kOurs, nullptr));
  }
  FINE(groupStart());
  reduce();
  reduce();
  FINE(cupti->push(kOurs, 8000));
  FINE(groupEnd());
  FINE(cupti->pop(kOurs, nullptr));
  FINE(asking.device.driver.synchronize(asking.stream));
  cupti->flush(0);
  const auto records = taken();
  size_t kernels = 0, linked = 0, ownThread = 0;
  std::set<std::string> names, calls;
  std::vector<uint64_t> numbers;
  std::vector<size_t> callsPerKernel;
  for (const Record& kernel : records) {
    if (kernel.kind != kKernel) continue;
    kernels++;
    names.insert(kernel.name != nullptr ? kernel.name : "");
    size_t ofKernel = 0;
    bool isLinked = false;
    for (const Record& record : records) {
      if (record.correlation != kernel.correlation) continue;
      if (record.kind == kExternal) {
        isLinked = true;
        numbers.push_back(record.external);
      }
      if (record.kind != kDriver && record.kind != kRuntime) continue;
      ofKernel++;
      calls.insert(kindName(record.kind) + " " + std::to_string(record.function));
      ownThread += record.thread == static_cast<uint32_t>(threadId());
    }
    linked += isLinked;
    callsPerKernel.push_back(ofKernel);
  }
  auto listOf = [](const std::set<std::string>& set) { return std::vector<std::string>(set.begin(), set.end()); };
  json.add("kernels", kernels).add("linked_to_what_was_pushed", linked).list("numbers", numbers).list("calls_per_kernel", callsPerKernel);
  json.add("calls_on_the_callers_thread", ownThread).list("names", listOf(names)).list("calls", listOf(calls));
  std::vector<std::string> order = words(records);
  order.resize(std::min<size_t>(order.size(), 12));
  return json.list("first_records", order);
}

// ---- main program ---------------------------------------------------------------------------------------------------

struct Question {
  const char* name;
  unsigned seconds;
  std::function<Json(const Asking&)> ask;
};

static const std::vector<Question> questions = {
    {"versions", 10, versions},
    {"subscribe_while_active", 10, subscribeWhileActive},
    {"active_while_subscribed", 10, activeWhileSubscribed},
    {"timestamp", 15, timestamp},
    {"no_clock", 10, noClock},
    {"flushes", 15, flushes},
    {"runtime_and_driver", 15, runtimeAndDriver},
    {"external", 10, external},
    {"threads", 10, [](const Asking& asking) { return threads(asking, false); }},
    {"threads_shared", 10, [](const Asking& asking) { return threads(asking, true); }},
    {"clock_change", 10, clockChange},
    {"clock_error_tsc", 15, [](const Asking& asking) { return clockError(asking, true); }},
    {"clock_error_realtime", 15, [](const Asking& asking) { return clockError(asking, false); }},
    {"cost", 40, cost},
    {"nccl", 40, ncclRank},
};

// Starts this program again with further arguments. Its output is read here.
static pid_t start(std::vector<std::string> arguments, unsigned seconds, int* output) {
  int ends[2] = {-1, -1};
  if (output != nullptr) CHECK(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    if (output != nullptr) dup2(ends[1], 1);
    else dup2(2, 1);
    alarm(seconds);
    std::vector<char*> all;
    for (std::string& argument : arguments) all.push_back(argument.data());
    all.push_back(nullptr);
    execv("/proc/self/exe", all.data());
    std::_Exit(127);
  }
  if (output != nullptr) {
    close(ends[1]);
    *output = ends[0];
  }
  return pid;
}

// Runs one question in a separate process, or in two.
static bool askApart(const Question& question, const std::vector<std::string>& options) {
  const bool isNccl = std::strcmp(question.name, "nccl") == 0;
  const int64_t begun = clockNs(CLOCK_MONOTONIC_RAW);
  std::vector<std::string> arguments = {"questions", question.name};
  arguments.insert(arguments.end(), options.begin(), options.end());
  char directory[] = "/tmp/questions.XXXXXX";
  pid_t second = 0;
  if (isNccl) {
    CHECK(mkdtemp(directory) != nullptr);
    arguments.insert(arguments.end(), {"--directory", directory, "--rank"});
    // Two ranks on one device appear to NCCL as on two hosts, connected by a socket.
    const std::pair<const char*, const char*> settings[] = {
        {"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_NET", "Socket"},        {"NCCL_IB_DISABLE", "1"},   {"NCCL_P2P_DISABLE", "1"}, {"NCCL_SHM_DISABLE", "1"},
        {"NCCL_NVLS_ENABLE", "0"},    {"NCCL_MNNVL_ENABLE", "0"},    {"NCCL_RAS_ENABLE", "0"},   {"NCCL_MAX_CTAS", "2"},    {"NCCL_PROFILER_PLUGIN", "none"},
    };
    for (const auto& [name, value] : settings) setenv(name, value, 1);
    auto others = arguments;
    others.push_back("1");
    setenv("NCCL_HOSTID", "fake1", 1);
    second = start(others, question.seconds, nullptr);
    setenv("NCCL_HOSTID", "fake0", 1);
    arguments.push_back("0");
  }
  int output = -1;
  const pid_t pid = start(arguments, question.seconds, &output);
  std::string said;
  char bytes[4096];
  for (ssize_t got; (got = ::read(output, bytes, sizeof bytes)) > 0;) said.append(bytes, static_cast<size_t>(got));
  close(output);
  int status = -1;
  waitpid(pid, &status, 0);
  if (second > 0) {
    int ofSecond = 0;
    // The second rank is alone now.
    if (status != 0) kill(second, SIGKILL);
    waitpid(second, &ofSecond, 0);
    unlink((std::string(directory) + "/id").c_str());
    rmdir(directory);
  }
  while (!said.empty() && said.back() == '\n') said.pop_back();
  const bool isAnswered = status == 0 && !said.empty() && said.front() == '{' && said.back() == '}';
  Json json;
  json.add("part", "questions").add("question", question.name).add("ok", isAnswered);
  json.add("exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1).add("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  json.add("seconds", static_cast<double>(clockNs(CLOCK_MONOTONIC_RAW) - begun) / 1e9);
  if (isAnswered) json.raw("answer", said);
  else json.add("said", said.substr(0, 2000));
  std::printf("%s\n", json.whole().c_str());
  std::fflush(stdout);
  return isAnswered;
}

int main(int argc, char** argv) {
  const bool isOne = argc > 1 && std::strncmp(argv[1], "--", 2) != 0;
  const Options options(argc, argv, isOne ? 2 : 1);
  const std::string wanted = isOne ? argv[1] : options.text("only", "");
  int unanswered = 0;
  for (const Question& question : questions) {
    if (!wanted.empty() && wanted != question.name) continue;
    if (!isOne) {
      unanswered += !askApart(question, std::vector<std::string>(argv + 1, argv + argc));
      continue;
    }
    // The driver first: some versions of CUPTI end a process without it.
    const Asking asking(options);
    const Cupti table = {library(options.text("cupti", "libcupti.so.13").c_str(), RTLD_LOCAL)};
    cupti = &table;
    std::printf("%s\n", question.ask(asking).whole().c_str());
    std::fflush(stdout);
    // The behaviour of CUPTI at the end of a process is a different question.
    std::_Exit(0);
  }
  return unanswered;
}
