// A test double of libnccl.so.2: the names, the calling conventions and the group semantics of the real one, without
// communication. Its behaviour proves nothing about NVIDIA's library. Comparisons with that library are in
// tests/fixtures/gpu.
//
// As in the real library, every nccl name is a weak alias of a pnccl name, and the library calls itself through its PLT
// (ncclBcast is a ncclBroadcast inside a group). Handles of freed communicators are reused, and calls in a group take
// effect at its outermost end. Environment:
//   NCCL_DOUBLE_LATE=1   handles of communicators made in a group are null until its end
// and the variables of profiler.cc.
#include "nccl_double.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "profiler.h"

struct ncclComm {
  uint64_t magic;
  int rank, size;
  // Number of queries that it still answers with "in progress". Then requested children appear.
  int busy;
  ncclResult_t failure;
  struct Child {
    ncclComm_t* handle;
    ncclComm* comm;
  } child;
  // Identity of the communicator on all members, and the number of its children.
  uint64_t id;
  uint64_t children;
  bool blocks;
  int device;
  profiler::Communicator* profiler;
};

static constexpr uint64_t kMagic = 0xD0B1E;

namespace {

thread_local int depth = 0;
// Calls of the library into itself do not count as calls from outside.
thread_local int inside = 0;
thread_local std::vector<std::function<void()>> atEnd;
thread_local DoubleArrived arrived;
thread_local int childRank = 0, childSize = 1;

// Work of a group, or of a graph, on one communicator.
struct Plan {
  ncclComm* comm;
  std::vector<profiler::Task> tasks;
};
thread_local std::vector<Plan> plans;
// Graph of captured streams.
struct Graph {
  uint32_t number;
  std::vector<Plan> plans;
};
std::mutex graphsMutex;
std::map<cudaStream_t, Graph> graphs;

std::mutex freedMutex;
std::vector<ncclComm*> freed;

template <typename T>
uint64_t word(T value) {
  return (uint64_t)value;
}

struct Entered {
  template <typename... T>
  explicit Entered(const char* function, T... arguments) {
    if (inside++ > 0) return;
    arrived = {};
    arrived.function = function;
    int at = 0;
    ((arrived.arguments[at++] = word(arguments)), ...);
  }
  ~Entered() { inside--; }
};

bool isGood(ncclComm_t comm) { return comm != nullptr && comm->magic == kMagic; }

uint64_t hashed(uint64_t one, uint64_t other) { return (one ^ other * 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull; }

uint64_t hashed(const ncclUniqueId& id) {
  return std::hash<std::string_view>()(std::string_view(id.internal, sizeof id.internal));
}

ncclComm* make(int rank, int size, const ncclConfig_t* config, uint64_t id, int device = 0) {
  // The real library loads the driver when it first needs it. This one loads the driver's double in the same directory.
  profiler::usesDevice(device);
  std::lock_guard<std::mutex> guard(freedMutex);
  ncclComm* comm;
  if (freed.empty()) {
    comm = static_cast<ncclComm*>(std::malloc(sizeof(ncclComm)));
  } else {
    comm = freed.back();
    freed.pop_back();
  }
  const bool blocks = config == nullptr || config->size < 24 || config->blocking != 0;
  *comm = {kMagic, rank, size, blocks ? 0 : 3, ncclSuccess, {}, id, 0, blocks, device, nullptr};
  const char* name = config != nullptr && config->size >= sizeof *config ? config->commName : nullptr;
  auto open = [&] { comm->profiler = profiler::opened(id, name, size, rank, device); };
  // In a group, or without blocking, the real library does this on a separate thread.
  if (depth > 0 || !blocks) std::thread(open).join();
  else open();
  return comm;
}

ncclResult_t give(ncclComm_t* handle, int rank, int size, const ncclConfig_t* config, uint64_t id) {
  if (rank < 0 || rank >= size) return ncclInvalidArgument;
  ncclComm* comm = make(rank, size, config, id);
  static const bool late = std::getenv("NCCL_DOUBLE_LATE") != nullptr;
  if (depth > 0 && late) {
    *handle = nullptr;
    atEnd.push_back([handle, comm] { *handle = comm; });
  } else {
    *handle = comm;
  }
  return comm->busy > 0 ? ncclInProgress : ncclSuccess;
}

// A non-blocking child has no handle until the parent has created it: programs poll the parent.
ncclResult_t giveChild(ncclComm_t parent, ncclComm_t* handle, int rank, int size, const ncclConfig_t* config, int color) {
  const uint64_t id = hashed(parent->id, (parent->children += 1) << 32 | static_cast<uint32_t>(color));
  const ncclResult_t result = give(handle, rank, size, config, id);
  if (result != ncclInProgress) return result;
  parent->child = {handle, *handle};
  parent->busy = 3;
  *handle = nullptr;
  return result;
}

ncclResult_t put(ncclComm_t comm, cudaStream_t stream, const profiler::Info& info) {
  if (!isGood(comm) || info.type < 0 || info.type > 11) return ncclInvalidArgument;
  if (comm->busy > 0) return ncclInvalidUsage;
  // For measurements of calls: no work and no allocation.
  if (stream == nullptr && depth == 0) return ncclSuccess;
  // As in 2.18 to 2.21, through the PLT.
  ncclGroupStart();
  if (comm->profiler != nullptr) {
    Plan plan = {comm, {}};
    profiler::called(comm->profiler, info, stream, stream != nullptr && stream->capturing, plan.tasks);
    if (!plan.tasks.empty()) {
      if (stream != nullptr && stream->capturing) {
        std::lock_guard<std::mutex> guard(graphsMutex);
        Graph& graph = graphs[stream];
        // Graphs of other libraries have smaller numbers.
        if (graph.number == 0) graph.number = 1000 + static_cast<uint32_t>(graphs.size());
        graph.plans.push_back(std::move(plan));
      } else {
        plans.push_back(std::move(plan));
      }
    }
  }
  atEnd.push_back([stream] {
    if (stream != nullptr && !stream->capturing) stream->launched++;
  });
  return ncclGroupEnd();
}

// Calls of a single member reach no plugin here.
ncclResult_t putAlone(ncclComm_t comm, cudaStream_t stream, int type) {
  return put(comm, stream, {"Signal", nullptr, nullptr, 0, type, 0});
}

// Launches one kernel for all calls on a communicator.
void launch(std::vector<Plan> all) {
  while (!all.empty()) {
    Plan first = std::move(all.front());
    all.erase(all.begin());
    for (auto one = all.begin(); one != all.end();) {
      if (one->comm != first.comm) {
        ++one;
        continue;
      }
      first.tasks.insert(first.tasks.end(), one->tasks.begin(), one->tasks.end());
      one = all.erase(one);
    }
    auto now = [&] { profiler::launched(first.comm->profiler, std::move(first.tasks)); };
    // Without blocking, the real library launches on a separate thread.
    if (first.comm->blocks) now();
    else std::thread(now).join();
  }
}

}  // namespace

#define API(name, parameters)                                                       \
  extern "C" ncclResult_t pnccl##name parameters;                                   \
  extern "C" ncclResult_t nccl##name parameters __attribute__((weak, alias("pnccl" #name))); \
  extern "C" ncclResult_t pnccl##name parameters

API(GetVersion, (int* version)) {
  // Reports any version, for tests that compare it with other installed versions. With a profiler, the default is 2.28.9,
  // also with the plugin interface 6 of later versions. In those, graphs end kernel times (ADR 0009).
  const char* named = std::getenv("NCCL_DOUBLE_VERSION");
  *version = named != nullptr ? std::atoi(named) : std::getenv("NCCL_DOUBLE_PROFILER") != nullptr ? 22809 : 99900;
  return ncclSuccess;
}

API(GetUniqueId, (ncclUniqueId * id)) {
  return getentropy(id->internal, sizeof id->internal) == 0 ? ncclSuccess : ncclSystemError;
}

API(GroupStart, ()) {
  depth++;
  return ncclSuccess;
}

API(GroupEnd, ()) {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  std::vector<std::function<void()>> all;
  all.swap(atEnd);
  for (auto& one : all) one();
  std::vector<Plan> planned;
  planned.swap(plans);
  launch(std::move(planned));
  return ncclSuccess;
}

API(GroupSimulateEnd, (void*)) {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth == 0) atEnd.clear(), plans.clear();
  return ncclSuccess;
}

API(CommInitRank, (ncclComm_t * handle, int size, ncclUniqueId id, int rank)) {
  const Entered entered("CommInitRank", handle, size, rank);
  std::memcpy(arrived.id, id.internal, sizeof id);
  return give(handle, rank, size, nullptr, hashed(id));
}

API(CommInitRankConfig, (ncclComm_t * handle, int size, ncclUniqueId id, int rank, ncclConfig_t* config)) {
  const Entered entered("CommInitRankConfig", handle, size, rank, config);
  std::memcpy(arrived.id, id.internal, sizeof id);
  return give(handle, rank, size, config, hashed(id));
}

API(CommInitRankScalable,
    (ncclComm_t * handle, int size, int rank, int count, ncclUniqueId* ids, ncclConfig_t* config)) {
  const Entered entered("CommInitRankScalable", handle, size, rank, count, ids, config);
  return give(handle, rank, size, config, hashed(ids[0]));
}

API(CommInitAll, (ncclComm_t * handles, int count, const int* devices)) {
  const Entered entered("CommInitAll", handles, count, devices);
  uint64_t id = 0;
  if (getentropy(&id, sizeof id) != 0) return ncclSystemError;
  for (int rank = 0; rank < count; rank++) handles[rank] = make(rank, count, nullptr, id, devices != nullptr ? devices[rank] : rank);
  return ncclSuccess;
}

API(CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* handle, ncclConfig_t* config)) {
  const Entered entered("CommSplit", comm, color, key, handle, config);
  // -7 represents any colour that a real library refuses.
  if (!isGood(comm) || color == -7) return ncclInvalidArgument;
  if (color < 0) {
    *handle = nullptr;
    return ncclSuccess;
  }
  return giveChild(comm, handle, childRank, childSize, config, color);
}

API(CommShrink, (ncclComm_t comm, int* excluded, int count, ncclComm_t* handle, ncclConfig_t* config, int flags)) {
  const Entered entered("CommShrink", comm, excluded, count, handle, config, flags);
  if (!isGood(comm)) return ncclInvalidArgument;
  int below = 0;
  for (int i = 0; i < count; i++) below += excluded[i] < comm->rank;
  return give(handle, comm->rank - below, comm->size - count, config, hashed(comm->id, comm->children += 1));
}

API(CommGrow,
    (ncclComm_t comm, int size, const ncclUniqueId* id, int rank, ncclComm_t* handle, ncclConfig_t* config)) {
  const Entered entered("CommGrow", comm, size, id, rank, handle, config);
  return give(handle, comm != nullptr ? comm->rank : rank, size, config, id != nullptr ? hashed(*id) : hashed(comm->id, comm->children += 1));
}

API(CommFinalize, (ncclComm_t comm)) { return isGood(comm) ? ncclSuccess : ncclInvalidArgument; }
API(CommRevoke, (ncclComm_t comm, int)) { return isGood(comm) ? ncclSuccess : ncclInvalidArgument; }

static ncclResult_t release(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  if (!isGood(comm)) return ncclInvalidArgument;
  comm->magic = 0;
  profiler::closed(comm->profiler);
  std::lock_guard<std::mutex> guard(freedMutex);
  freed.push_back(comm);
  return ncclSuccess;
}
API(CommDestroy, (ncclComm_t comm)) { return release(comm); }
API(CommAbort, (ncclComm_t comm)) { return release(comm); }

API(CommGetAsyncError, (ncclComm_t comm, ncclResult_t* error)) {
  if (!isGood(comm)) return ncclInvalidArgument;
  if (comm->busy > 0 && --comm->busy == 0 && comm->child.comm != nullptr) {
    comm->child.comm->busy = 0;
    *comm->child.handle = comm->child.comm;
    comm->child = {};
  }
  *error = comm->failure != ncclSuccess ? comm->failure : comm->busy > 0 ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

static ncclResult_t ask(ncclComm_t comm, int* answer, int value) {
  if (!isGood(comm)) return ncclInvalidArgument;
  if (comm->busy > 0) {
    comm->busy--;
    return ncclInProgress;
  }
  *answer = value;
  return ncclSuccess;
}
API(CommCount, (ncclComm_t comm, int* count)) { return ask(comm, count, isGood(comm) ? comm->size : 0); }
API(CommUserRank, (ncclComm_t comm, int* rank)) { return ask(comm, rank, isGood(comm) ? comm->rank : 0); }

API(CommCuDevice, (ncclComm_t comm, int* device)) { return ask(comm, device, isGood(comm) ? comm->device : 0); }

API(MemAlloc, (void** memory, size_t bytes)) {
  *memory = std::malloc(bytes);
  return ncclSuccess;
}
API(MemFree, (void* memory)) {
  std::free(memory);
  return ncclSuccess;
}
API(CommRegister, (ncclComm_t comm, void* buffer, size_t, void** handle)) {
  *handle = buffer;
  return isGood(comm) ? ncclSuccess : ncclInvalidArgument;
}
API(CommDeregister, (ncclComm_t comm, void*)) { return isGood(comm) ? ncclSuccess : ncclInvalidArgument; }
API(CommWindowRegister, (ncclComm_t comm, void* buffer, size_t, ncclWindow_t* window, int)) {
  *window = static_cast<ncclWindow_t>(buffer);
  void* registered;
  ncclCommRegister(comm, buffer, 1, &registered);
  return isGood(comm) ? ncclSuccess : ncclInvalidArgument;
}
API(CommWindowDeregister, (ncclComm_t comm, ncclWindow_t)) { return isGood(comm) ? ncclSuccess : ncclInvalidArgument; }
API(CommSuspend, (ncclComm_t comm, int)) { return isGood(comm) ? ncclSuccess : ncclInvalidArgument; }
API(CommResume, (ncclComm_t comm)) { return isGood(comm) ? ncclSuccess : ncclInvalidArgument; }

API(AllReduce, (const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("AllReduce", send, receive, count, type, op, comm, stream);
  return put(comm, stream, {"AllReduce", send, receive, count, type, 0});
}
API(AllGather, (const void* send, void* receive, size_t count, int type, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("AllGather", send, receive, count, type, comm, stream);
  return put(comm, stream, {"AllGather", send, receive, count, type, 0});
}
API(ReduceScatter,
    (const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("ReduceScatter", send, receive, count, type, op, comm, stream);
  return put(comm, stream, {"ReduceScatter", send, receive, count, type, 0});
}
API(Broadcast, (const void* send, void* receive, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Broadcast", send, receive, count, type, root, comm, stream);
  return put(comm, stream, {"Broadcast", send, receive, count, type, root});
}
API(Bcast, (void* buffer, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Bcast", buffer, count, type, root, comm, stream);
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
API(Reduce,
    (const void* send, void* receive, size_t count, int type, int op, int root, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Reduce", send, receive, count, type, op, root, comm, stream);
  return put(comm, stream, {"Reduce", send, receive, count, type, root});
}
API(AlltoAll, (const void* send, void* receive, size_t count, int type, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("AlltoAll", send, receive, count, type, comm, stream);
  return put(comm, stream, {"AlltoAll", send, receive, count, type, 0});
}
API(Gather, (const void* send, void* receive, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Gather", send, receive, count, type, root, comm, stream);
  return put(comm, stream, {"Gather", send, receive, count, type, root});
}
API(Scatter, (const void* send, void* receive, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Scatter", send, receive, count, type, root, comm, stream);
  return put(comm, stream, {"Scatter", send, receive, count, type, root});
}
API(AllReduceConfig,
    (const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm, cudaStream_t stream,
     void* config)) {
  const Entered entered("AllReduceConfig", send, receive, count, type, op, comm, stream, config);
  return put(comm, stream, {"AllReduce", send, receive, count, type, 0});
}
API(ReduceConfig,
    (const void* send, void* receive, size_t count, int type, int op, int root, ncclComm_t comm, cudaStream_t stream,
     void* config)) {
  const Entered entered("ReduceConfig", send, receive, count, type, op, root, comm, stream, config);
  return put(comm, stream, {"Reduce", send, receive, count, type, root});
}
API(Send, (const void* buffer, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Send", buffer, count, type, peer, comm, stream);
  return put(comm, stream, {"Send", nullptr, const_cast<void*>(buffer), count, type, peer});
}
API(Recv, (void* buffer, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Recv", buffer, count, type, peer, comm, stream);
  return put(comm, stream, {"Recv", nullptr, buffer, count, type, peer});
}
API(PutSignal,
    (const void* buffer, size_t count, int type, int peer, ncclWindow_t window, size_t offset, int signal, int context,
     unsigned flags, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered(
      "PutSignal", buffer, count, type, peer, window, offset, signal, context, flags, comm, stream);
  return putAlone(comm, stream, type);
}
API(Signal, (int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("Signal", peer, signal, context, flags, comm, stream);
  return putAlone(comm, stream, 0);
}
API(WaitSignal, (int count, ncclWaitSignalDesc_t* what, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("WaitSignal", count, what, comm, stream);
  return putAlone(comm, stream, 0);
}

#ifdef RCCL
// Functions that RCCL has in addition.
API(AllToAll, (const void* send, void* receive, size_t count, int type, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("AllToAll", send, receive, count, type, comm, stream);
  return put(comm, stream, {"AlltoAll", send, receive, count, type, 0});
}
API(AllToAllv,
    (const void* send, const size_t* sendCounts, const size_t* sendOffsets, void* receive, const size_t* receiveCounts,
     const size_t* receiveOffsets, int type, ncclComm_t comm, cudaStream_t stream)) {
  const Entered entered("AllToAllv", send, sendCounts, sendOffsets, receive, receiveCounts, receiveOffsets, type, comm, stream);
  ncclGroupStart();
  // As in the real library, through the PLT.
  for (int peer = 0; isGood(comm) && peer < comm->size; peer++) {
    ncclSend(send, sendCounts[peer], type, peer, comm, stream);
    ncclRecv(receive, receiveCounts[peer], type, peer, comm, stream);
  }
  return ncclGroupEnd();
}
API(AllReduceWithBias,
    (const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm, cudaStream_t stream,
     const void* bias)) {
  const Entered entered("AllReduceWithBias", send, receive, count, type, op, comm, stream, bias);
  return put(comm, stream, {"AllReduce", send, receive, count, type, 0});
}
#endif

extern "C" const DoubleArrived* ncclDoubleArrived() { return &arrived; }
extern "C" void ncclDoubleNextChild(int rank, int size) { childRank = rank, childSize = size; }
extern "C" void ncclDoubleFail(ncclComm_t comm, ncclResult_t failure) { comm->failure = failure; }
extern "C" void ncclDoubleReplay(cudaStream_t stream) {
  Graph graph;
  {
    std::lock_guard<std::mutex> guard(graphsMutex);
    graph = graphs[stream];
  }
  profiler::Replay replay(graph.number);
  // In the real library the driver makes this callback.
  std::thread([&] {
    for (Plan& plan : graph.plans) profiler::launched(plan.comm->profiler, plan.tasks, &replay);
  }).join();
}

extern "C" void ncclDoubleSynchronize(ncclComm_t comm) {
  if (comm->profiler != nullptr) profiler::synchronized(comm->profiler);
}
