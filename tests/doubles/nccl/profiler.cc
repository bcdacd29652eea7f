// A test double of the loading of profiler plugins and of their events, and of a device that executes the launched
// work. It follows src/plugin/profiler.cc, src/plugin/plugin_open.cc and src/enqueue.cc of NCCL 2.23 to 2.30.
//
// Environment:
//   NCCL_DOUBLE_PROFILER=N    plugins up to version N are loaded, as in the release that introduced N; 0: a device
//                             without a plugin; unset: neither
//   NCCL_PROFILER_PLUGIN      as in the real library: a path, a name, STATIC_PLUGIN, none
//   NCCL_DOUBLE_MEET=DIR      kernels end together on all ranks of a communicator. All ranks must launch the same ones
//   NCCL_DOUBLE_KERNEL_US=N   duration of a kernel once all members have arrived; default 300
//   NCCL_DOUBLE_CLOCK=NS,PPM  the device's timer is this far ahead of CLOCK_MONOTONIC_RAW, and runs this much faster
//   NCCL_DOUBLE_TRUTH=DIR     every task's true times are appended to DIR/PID.jsonl
#include "profiler.h"
#include "profiler_abi.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace profiler {
namespace {

using namespace profiler_abi;

// ---- loading -------------------------------------------------------------------------------------------------------

std::mutex loading;
int users = 0;
void* library = nullptr;
Plugin* plugin = nullptr;
int version = 0;
int mask = 0;

bool same(const char* one, const char* other) { return strcasecmp(one, other) == 0; }

void* openPlugin() {
  const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
  if (name != nullptr && same(name, "none")) return nullptr;
  if (name == nullptr || *name == 0) return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
  if (strncasecmp(name, "STATIC_PLUGIN", std::strlen(name)) == 0) return dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  if (void* found = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return found;
  return dlopen((std::string("libnccl-profiler-") + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

bool load() {
  std::lock_guard<std::mutex> guard(loading);
  if (plugin == nullptr) {
    if (std::atoi(std::getenv("NCCL_DOUBLE_PROFILER")) == 0) return true;
    library = openPlugin();
    if (library == nullptr) return false;
    for (version = std::atoi(std::getenv("NCCL_DOUBLE_PROFILER")); version > 0; version--) {
      plugin = static_cast<Plugin*>(dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str()));
      if (plugin != nullptr) break;
    }
    if (plugin == nullptr) return false;
  }
  users++;
  return true;
}

// As the real library does after its last communicator is destroyed.
void unload() {
  std::lock_guard<std::mutex> guard(loading);
  if (plugin != nullptr && --users == 0) {
    dlclose(library);
    plugin = nullptr;
  }
}

// ---- the driver ----------------------------------------------------------------------------------------------------

template <typename Function>
Function* inDriver(const char* name) {
#ifdef RCCL
  static void* driver = dlopen("libamdhip64.so.6", RTLD_NOW);
#else
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
#endif
  return driver != nullptr ? reinterpret_cast<Function*>(dlsym(driver, name)) : nullptr;
}

// Enters and leaves calls of the driver, for its tracer.
void enter(DoubleCall* call, int function) {
  *call = {};
  static auto* const real = inDriver<void(DoubleCall*, int)>("cuDoubleEnter");
  if (real != nullptr) real(call, function);
}
void leave(DoubleCall* call) {
  static auto* const real = inDriver<void(DoubleCall*, int)>("cuDoubleExit");
  if (real != nullptr) real(call, 0);
}

// Returns the name of the task's kernel. There are few kernels, and each does more than its name says. Names are never
// freed.
const char* kernelName(const Task& task) {
  static std::mutex mutex;
  static auto& names = *new std::set<std::string>;
  const std::string function = task.info.function;
  std::string name = "ncclDevKernel_" + (task.isMessage ? "SendRecv" : function);
  if (function == "AllReduce" || function == "ReduceScatter" || function == "Reduce") name += "_Sum_f32";
  if (!task.isMessage) name += "_RING_LL";
  const std::lock_guard<std::mutex> guard(mutex);
  return names.insert("_Z" + std::to_string(name.size()) + name + "24ncclDevKernelArgsStorageILm4096EE").first->c_str();
}

// ---- the device ----------------------------------------------------------------------------------------------------

int64_t rawNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Converts a time to the device's timer.
uint64_t timer(int64_t raw) {
  static const std::pair<long long, double> clock = [] {
    long long ahead = 0;
    double ppm = 0;
    if (const char* text = std::getenv("NCCL_DOUBLE_CLOCK")) std::sscanf(text, "%lld,%lf", &ahead, &ppm);
    return std::make_pair(ahead, ppm);
  }();
  return static_cast<uint64_t>(raw + clock.first + static_cast<int64_t>(raw * clock.second * 1e-6));
}

int kernelUs() {
  static const int us = [] {
    const char* text = std::getenv("NCCL_DOUBLE_KERNEL_US");
    return text != nullptr ? std::atoi(text) : 300;
  }();
  return us;
}

const char* typeName(int type) {
  static const char* names[] = {"ncclInt8", "Unknown", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
                                "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  return type >= 0 && type < 10 ? names[type] : "Unknown";
}

// Returns the number of a function in version 1.
int functionNumber(const std::string& name) {
  static const char* names[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"};
  for (int at = 0; at < 8; at++)
    if (name == names[at]) return at;
  return 8;
}

constexpr int kFunctions = 9;
constexpr int kMeetings = 1 << 14;
// Number of channels of the largest task.
constexpr int kChannels = 2;

}  // namespace

size_t elementBytes(int type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < 12 ? bytes[type] : 1;
}

class Communicator {
 public:
  Communicator(uint64_t id, const char* name, int size, int rank, int deviceNumber)
      : id(id), name(name == nullptr ? "" : name), size(size), rank(rank), deviceNumber(deviceNumber) {
    const char* names = this->name.c_str();
    if (plugin == nullptr) {
      // Only a device, without a plugin.
    } else if (version <= 3) {
      reinterpret_cast<int (*)(void**, int*)>(plugin->init)(&context, &mask);
    } else if (version == 4) {
      reinterpret_cast<int (*)(void**, int*, const char*, uint64_t, int, int, int, void*)>(plugin->init)(
          &context, &mask, names, id, 1, size, rank, nullptr);
    } else {
      reinterpret_cast<int (*)(void**, uint64_t, int*, const char*, int, int, int, void*)>(plugin->init)(
          &context, id, &mask, names, 1, size, rank, nullptr);
    }
    if (const char* directory = std::getenv("NCCL_DOUBLE_MEET")) meet(directory);
    if (const char* directory = std::getenv("NCCL_DOUBLE_TRUTH"))
      truth = std::fopen((std::string(directory) + "/" + std::to_string(getpid()) + ".jsonl").c_str(), "a");
    device = std::thread([this] { work(); });
  }

  ~Communicator() {
    {
      std::lock_guard<std::mutex> guard(mutex);
      ended = true;
    }
    wake.notify_all();
    device.join();
    if (context != nullptr) plugin->finalize(context);
    if (truth != nullptr) std::fclose(truth);
  }

  void called(const Info& info, cudaStream_t stream, bool captured, std::vector<Task>& tasks) {
    const std::string function = info.function;
    const size_t bytes = elementBytes(info.type);
    auto at = [&](const void* buffer, int part) {
      return const_cast<void*>(static_cast<const void*>(static_cast<const char*>(buffer) + part * info.count * bytes));
    };
    auto message = [&](const char* direction, void* buffer, int peer) {
      add({direction, buffer, buffer, info.count, info.type, peer}, true, stream, captured, tasks);
    };
    if (function == "Send" || function == "Recv") {
      message(info.function, info.receive, info.root);
    } else if (info.count == 0 || size == 1) {
      // No data, or a copy: there is no task.
    } else if (function == "AlltoAll") {
      for (int peer = 0; peer < size; peer++) {
        message("Send", at(info.send, peer), peer);
        message("Recv", at(info.receive, peer), peer);
      }
    } else if (function == "Gather") {
      message("Send", at(info.send, 0), info.root);
      for (int peer = 0; peer < size && rank == info.root; peer++) message("Recv", at(info.receive, peer), peer);
    } else if (function == "Scatter") {
      for (int peer = 0; peer < size && rank == info.root; peer++) message("Send", at(info.send, peer), peer);
      message("Recv", at(info.receive, 0), info.root);
    } else if (function == "AllGather" || function == "Broadcast") {
      // The library counts these in bytes.
      add({info.function, info.send, info.receive, info.count * bytes, ncclInt8, info.root}, false, stream, captured, tasks);
    } else {
      add(info, false, stream, captured, tasks);
    }
  }

  void launched(std::vector<Task> tasks, Replay* replay) {
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& one, const Task& other) {
      if (one.isMessage != other.isMessage) return other.isMessage;
      return one.info.count * elementBytes(one.info.type) > other.info.count * elementBytes(other.info.type);
    });
    void* group = nullptr;
    if (mask != 0) start(kGroup, nullptr, &group, {});
    // A message to the rank itself whose data is already in place is no task.
    tasks.erase(std::remove_if(tasks.begin(), tasks.end(), [&](const Task& task) { return isToItself(task) && task.info.send == inPlace(tasks, task); }), tasks.end());
    for (Task& task : tasks) reached(task, group);
    DoubleCall call;
    DoubleWork* work = nullptr;
    static auto* const launch =
        inDriver<DoubleWork*(const DoubleCall*, cudaStream_t, int, const char*, uint32_t, uint64_t)>("cuDoubleLaunch");
    if (replay == nullptr) enter(&call, kDoubleLaunchKernelEx);
    // The streams of the tasks are joined, and the kernel runs on the first.
    if (launch != nullptr && !tasks.empty()) {
      const uint64_t node = replay != nullptr ? static_cast<uint64_t>(replay->graph) << 32 | ++replay->nodes : 0;
      const DoubleCall* by = replay != nullptr ? &replay->call : &call;
      work = launch(by, tasks[0].stream, deviceNumber, kernelName(tasks[0]), replay != nullptr ? replay->graph : 0, node);
    }
    {
      // From here on the proxy thread has the work.
      std::lock_guard<std::mutex> guard(mutex);
      for (cudaStream_t stream : streamsOf(tasks)) inDriver<void(cudaStream_t, int)>("cuDoubleSubmitted")(stream, deviceNumber);
      kernels.push_back({tasks, work});
      underWay++;
    }
    wake.notify_all();
    if (replay == nullptr) leave(&call);
    for (const Task& task : tasks)
      if (task.handle != nullptr) plugin->stopEvent(task.handle);
    if (group != nullptr) plugin->stopEvent(group);
  }

  void synchronized() {
    std::unique_lock<std::mutex> guard(mutex);
    done.wait(guard, [this] { return underWay == 0; });
  }

 private:
  void start(int type, void* parent, void** handle, const Union& what) {
    if (version <= 4) {
      Narrow descriptor;
      // Unwritten fields are arbitrary, as on the real library's stack.
      std::memset(&descriptor, 0xA5, sizeof descriptor);
      descriptor.type = static_cast<uint8_t>(type), descriptor.parentObj = parent, descriptor.rank = rank, descriptor.u = what;
      plugin->startEvent(context, handle, &descriptor);
    } else {
      Wide descriptor;
      std::memset(&descriptor, 0xA5, sizeof descriptor);
      descriptor.type = static_cast<uint64_t>(type), descriptor.parentObj = parent, descriptor.rank = rank, descriptor.u = what;
      plugin->startEvent(context, handle, &descriptor);
    }
  }

  void add(const Info& info, bool isMessage, cudaStream_t stream, bool captured, std::vector<Task>& tasks) {
    Task task = {info, isMessage, nullptr, nullptr, isMessage ? 1 : 2, stream, rawNs()};
    if (version >= 5 && mask != 0) {
      Union what = {};
      if (isMessage) {
        what.p2pApi = {info.function, info.count, typeName(info.type), stream, captured};
        start(kP2pApi, nullptr, &task.apiHandle, what);
      } else {
        what.collApi = {info.function, info.count, typeName(info.type), info.root, stream, captured};
        start(kCollApi, nullptr, &task.apiHandle, what);
      }
      if (task.apiHandle != nullptr) plugin->stopEvent(task.apiHandle);
    }
    tasks.push_back(task);
  }

  // Reports the task in the form of this version.
  void reached(Task& task, void* group) {
    const Info& info = task.info;
    const int function = functionNumber(info.function);
    void* parent = version >= 5 ? task.apiHandle : group;
    Union what = {};
    if (task.isMessage) {
      void* buffer = info.receive;
      const char* type = typeName(info.type);
      if (version == 1) {
        what.p2p1 = {name.c_str(), id, static_cast<uint8_t>(function), buffer, static_cast<uint8_t>(info.type), info.count, info.root};
      } else if (version <= 3) {
        what.p2p2 = {name.c_str(), id, info.function, buffer, type, info.count, info.root};
      } else {
        what.p2p4 = {info.function, buffer, type, info.count, info.root, static_cast<uint8_t>(task.channels), group};
      }
      if (mask & (kP2p | kProxyOp | kProxyStep | kKernelCh)) start(kP2p, parent, &task.handle, what);
      return;
    }
    const uint64_t number = numbers[function]++;
    const char *type = typeName(info.type), *algorithm = info.count * elementBytes(info.type) > 65536 ? "RING" : "TREE";
    const char* protocol = info.count * elementBytes(info.type) > 65536 ? "SIMPLE" : "LL";
    const uint8_t channels = static_cast<uint8_t>(task.channels), warps = 16;
    if (version == 1) {
      what.coll1 = {name.c_str(), id, number, static_cast<uint8_t>(function), info.send, info.receive, info.count, info.root,
                    static_cast<uint8_t>(info.type), 0, 0, channels, warps, static_cast<uint8_t>(algorithm[0] == 'R'),
                    static_cast<uint8_t>(protocol[0] == 'S' ? 2 : 0), 0, 0};
    } else if (version == 2) {
      what.coll2 = {name.c_str(), id, number, info.function, info.send, info.receive, info.count, info.root, type, 0, channels, warps, algorithm, protocol};
    } else if (version == 3) {
      what.coll3 = {name.c_str(), id, number, info.function, info.send, info.receive, info.count, info.root, type, channels, warps, algorithm, protocol};
    } else {
      what.coll4 = {number, info.function, info.send, info.receive, info.count, info.root, type, channels, warps, algorithm, protocol, group};
    }
    if (mask & (kColl | kProxyOp | kProxyStep | kKernelCh)) start(kColl, parent, &task.handle, what);
  }

  // Returns the receive buffer of a message to the rank itself.
  const void* inPlace(const std::vector<Task>& tasks, const Task& one) const {
    for (const Task& other : tasks)
      if (isToItself(other) && std::strcmp(other.info.function, one.info.function) != 0 && other.info.send == one.info.send) return other.info.send;
    return nullptr;
  }

  bool isToItself(const Task& task) const { return task.isMessage && task.info.root == rank; }

  void meet(const char* directory) {
    char path[512];
    std::snprintf(path, sizeof path, "%s/meet-%016llx", directory, static_cast<unsigned long long>(id));
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    const size_t bytes = sizeof(int64_t) * kMeetings * static_cast<size_t>(size);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) std::abort();
    close(file);
    arrivals = static_cast<int64_t*>(memory);
  }

  // Waits until the kernels of all members have arrived. Returns the last arrival, or this one if members do not meet.
  int64_t all(uint64_t kernel, int64_t arrived) {
    if (arrivals == nullptr || kernel >= kMeetings) return arrived;
    // A device that stops never arrives. Its peers wait for it.
    static const char* const stops = std::getenv("NCCL_DOUBLE_STOPS_AT");
    while (stops != nullptr && kernel >= std::strtoull(stops, nullptr, 10)) usleep(1000);
    int64_t* row = arrivals + kernel * static_cast<size_t>(size);
    __atomic_store_n(&row[rank], arrived, __ATOMIC_RELEASE);
    int64_t last = 0;
    for (int member = 0; member < size; member++) {
      int64_t came;
      while ((came = __atomic_load_n(&row[member], __ATOMIC_ACQUIRE)) == 0) usleep(20);
      last = std::max(last, came);
    }
    return last;
  }

  static void until(int64_t raw) {
    for (int64_t left; (left = raw - rawNs()) > 0;) usleep(static_cast<useconds_t>(left / 1000 + 1));
  }

  static std::vector<cudaStream_t> streamsOf(const std::vector<Task>& tasks) {
    std::vector<cudaStream_t> streams;
    for (const Task& task : tasks)
      if (std::find(streams.begin(), streams.end(), task.stream) == streams.end()) streams.push_back(task.stream);
    return streams;
  }

  void work() {
    for (uint64_t meetings = 0;; launches++) {
      std::vector<Task> kernel;
      DoubleWork* launched;
      {
        std::unique_lock<std::mutex> guard(mutex);
        wake.wait(guard, [this] { return ended || !kernels.empty(); });
        if (kernels.empty()) return;
        kernel = std::move(kernels.front().tasks);
        launched = kernels.front().work;
        kernels.pop_front();
      }
      if (launched != nullptr) inDriver<void(DoubleWork*)>("cuDoubleTurn")(launched);
      int64_t start = rawNs();
      const int64_t begin = start;
      std::vector<int64_t> starts(kernel.size()), stops(kernel.size());
      int64_t together = 0;
      for (size_t at = 0; at < kernel.size(); at++) {
        Task& task = kernel[at];
        if (isToItself(task)) {
          // A copy. No channel reports it, although channels were announced. The device counts it on these channels.
          for (int channel = 0; channel < task.channels; channel++) channelWorks[channel].times.push_back({start, start});
          stops[at] = start;
          continue;
        }
        const bool isTold = version >= 4 && (mask & kKernelCh) && task.handle != nullptr;
        starts[at] = start;
        std::vector<void*> channels(static_cast<size_t>(task.channels), nullptr);
        // Channels start one after the other.
        for (int channel = 0; channel < task.channels; channel++) channelWorks[channel].times.push_back({start + 500 * channel, 0});
        for (int channel = 0; channel < task.channels && isTold; channel++) {
          Union what = {};
          what.kernelCh = {static_cast<uint8_t>(channel), timer(channelWorks[channel].reported().start)};
          this->start(kKernelCh, task.handle, &channels[static_cast<size_t>(channel)], what);
        }
        if (at == 0 || together == 0) together = all(meetings++, start);
        const int64_t stop = std::max(together, start) + kernelUs() * 1000LL;
        until(stop);
        stops[at] = stop;
        if (version >= 4 && (mask & (kProxyOp | kProxyStep))) traffic(task);
        for (int channel = 0; channel < task.channels; channel++) {
          channelWorks[channel].times.back().stop = stop - 500 * (task.channels - 1 - channel);
          const int64_t reportedStop = channelWorks[channel].reported().stop;
          channelWorks[channel].hostCount++;
          void* handle = channels[static_cast<size_t>(channel)];
          if (handle == nullptr) continue;
          uint64_t pTimer = timer(reportedStop);
          plugin->recordEventState(handle, kKernelChStop, &pTimer);
          plugin->stopEvent(handle);
        }
        tell(task, starts[at], stop);
        start = stop;
      }
      for (cudaStream_t stream : streamsOf(kernel)) inDriver<void(cudaStream_t, int, int64_t)>("cuDoubleCompleted")(stream, deviceNumber, start);
      if (launched != nullptr) inDriver<void(DoubleWork*, int64_t, int64_t)>("cuDoubleFinish")(launched, begin, start);
      std::lock_guard<std::mutex> guard(mutex);
      if (--underWay == 0) done.notify_all();
    }
  }

  // Reports half of the payload to the next and from the previous member, in two steps each.
  void traffic(const Task& task) {
    for (int isSend = 0; isSend < 2; isSend++) {
      const int peer = task.isMessage ? task.info.root : isSend ? (rank + 1) % size : (rank + size - 1) % size;
      if (task.isMessage && isSend != (std::strcmp(task.info.function, "Send") == 0)) continue;
      void* op = nullptr;
      Union what = {};
      what.proxyOp = {getpid(), 0, peer, 2, 1 << 19, isSend};
      start(kProxyOp, task.handle, &op, what);
      if (op == nullptr) continue;
      const size_t bytes = task.info.count * elementBytes(task.info.type);
      size_t stale = 77;
      for (int step = 0; step < 2; step++) {
        void* handle = nullptr;
        Union number = {};
        number.step = step;
        start(kProxyStep, op, &handle, number);
        if (handle == nullptr) continue;
        size_t moved = step == 0 ? bytes / 2 : bytes - bytes / 2;
        plugin->recordEventState(handle, isSend ? kSendGpuWait : kRecvWait, &stale);
        if (isSend) plugin->recordEventState(handle, kSendPeerWait, &stale);
        usleep(200);
        plugin->recordEventState(handle, isSend ? kSendWait : kRecvFlushWait, &moved);
        if (!isSend) plugin->recordEventState(handle, kRecvGpuWait, &stale);
        plugin->stopEvent(handle);
      }
      plugin->stopEvent(op);
    }
  }

  void tell(const Task& task, int64_t start, int64_t stop) {
    if (truth == nullptr) return;
    std::fprintf(truth, "{\"communicator\":\"%016llx\",\"rank\":%d,\"function\":\"%s\",\"bytes\":%zu,\"launch\":%llu,\"called_ns\":%lld,\"start_ns\":%lld,\"stop_ns\":%lld}\n",
                 static_cast<unsigned long long>(id), rank, task.info.function, task.info.count * elementBytes(task.info.type),
                 static_cast<unsigned long long>(launches), static_cast<long long>(task.calledNs), static_cast<long long>(start), static_cast<long long>(stop));
    std::fflush(truth);
  }

  const uint64_t id;
  const std::string name;
  const int size, rank, deviceNumber;
  void* context = nullptr;
  uint64_t numbers[kFunctions] = {};
  int64_t* arrivals = nullptr;
  uint64_t launches = 0;
  std::FILE* truth = nullptr;
  std::mutex mutex;
  std::condition_variable wake, done;
  int underWay = 0;
  struct Kernel {
    std::vector<Task> tasks;
    // The driver's work, if it needs it.
    DoubleWork* work;
  };
  std::deque<Kernel> kernels;
  // Times of the works of a channel. The device counts all works. The host does not count copies of a rank to itself. It
  // reports the times of the work with its own count, which is then an earlier work.
  struct ChannelWorks {
    struct Times {
      int64_t start, stop;
    };
    std::vector<Times> times;
    size_t hostCount = 0;
    const Times& reported() const { return times[hostCount]; }
  };
  ChannelWorks channelWorks[kChannels];
  bool ended = false;
  std::thread device;
};

void usesDevice(int device) {
  if (auto* use = inDriver<void(int)>("cuDoubleUse")) use(device);
}

Communicator* opened(uint64_t id, const char* name, int size, int rank, int device) {
  if (std::getenv("NCCL_DOUBLE_PROFILER") == nullptr || !load()) return nullptr;
  return new Communicator(id, name, size, rank, device);
}

void closed(Communicator* communicator) {
  if (communicator == nullptr) return;
  delete communicator;
  unload();
}

void called(Communicator* communicator, const Info& info, cudaStream_t stream, bool captured, std::vector<Task>& tasks) {
  communicator->called(info, stream, captured, tasks);
}

void launched(Communicator* communicator, std::vector<Task> tasks, Replay* replay) {
  communicator->launched(std::move(tasks), replay);
}

Replay::Replay(uint32_t graph) : graph(graph) { enter(&call, kDoubleGraphLaunch); }
Replay::~Replay() { leave(&call); }

void synchronized(Communicator* communicator) { communicator->synchronized(); }

}  // namespace profiler
