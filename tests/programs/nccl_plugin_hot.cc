// Calls the library as NCCL calls its profiler plugin, as fast as possible.
//   nccl_plugin_hot hot VERSION OPERATIONS    from the second operation on every allocation, lock and system call ends
//                                             the process
//   nccl_plugin_hot price VERSION             cost of one operation's callbacks, against the floor (price.h): a call, a
//                                             collective with two channels, and every event of this version
// The library is the preloaded one.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "price.h"

#include "../doubles/guards.h"
#include "../doubles/nccl/profiler_abi.h"

using namespace profiler_abi;

static Plugin* plugin;
static int version, mask;
static void* context;

static void* begin(int type, void* parent, const Union& what) {
  void* handle = nullptr;
  if (version <= 4) {
    Narrow descriptor = {static_cast<uint8_t>(type), parent, 0, what};
    plugin->startEvent(context, &handle, &descriptor);
  } else {
    Wide descriptor = {static_cast<uint64_t>(type), parent, 0, what};
    plugin->startEvent(context, &handle, &descriptor);
  }
  return handle;
}

static void* coll(uint64_t number, void* parent) {
  static char buffer[64];
  Union what = {};
  if (version == 1) what.coll1 = {"", 7, number, 4, buffer, buffer, 1024, 0, 7, 0, 4096, 2, 16, 1, 2, 0, 0};
  else if (version == 2) what.coll2 = {"", 7, number, "AllReduce", buffer, buffer, 1024, 0, "ncclFloat32", 4096, 2, 16, "RING", "SIMPLE"};
  else if (version == 3) what.coll3 = {"", 7, number, "AllReduce", buffer, buffer, 1024, 0, "ncclFloat32", 2, 16, "RING", "SIMPLE"};
  else what.coll4 = {number, "AllReduce", buffer, buffer, 1024, 0, "ncclFloat32", 2, 16, "RING", "SIMPLE", nullptr};
  return begin(kColl, parent, what);
}

static void operation(uint64_t number) {
  Union nothing = {};
  void *group = begin(kGroup, nullptr, nothing), *call = nullptr;
  if (version >= 5) {
    Union what = {};
    what.collApi = {"AllReduce", 1024, "ncclFloat32", 0, nullptr, false};
    call = begin(kCollApi, nullptr, what);
    plugin->stopEvent(call);
  }
  void* task = coll(number, version >= 5 ? call : group);
  plugin->stopEvent(task);
  plugin->stopEvent(group);
  if (!(mask & kKernelCh)) return;
  void* channels[2];
  for (uint8_t channel = 0; channel < 2; channel++) {
    Union what = {};
    what.kernelCh = {channel, 1000000 + number * 100 + channel};
    channels[channel] = begin(kKernelCh, task, what);
  }
  for (uint8_t channel = 0; channel < 2; channel++) {
    uint64_t stop = 1000050 + number * 100 + channel;
    plugin->recordEventState(channels[channel], kKernelChStop, &stop);
    plugin->stopEvent(channels[channel]);
  }
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  version = std::atoi(argv[2]);
  void* library = dlopen(nullptr, RTLD_NOW);
  plugin = static_cast<Plugin*>(dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str()));
  if (plugin == nullptr) return 3;
  if (version <= 3) reinterpret_cast<int (*)(void**, int*)>(plugin->init)(&context, &mask);
  else if (version == 4)
    reinterpret_cast<int (*)(void**, int*, const char*, uint64_t, int, int, int, void*)>(plugin->init)(&context, &mask, "hot", 7, 1, 2, 0, nullptr);
  else
    reinterpret_cast<int (*)(void**, uint64_t, int*, const char*, int, int, int, void*)>(plugin->init)(&context, 7, &mask, "hot", 1, 2, 0, nullptr);
  uint64_t number = 0;
  operation(number++);
  if (std::strcmp(argv[1], "price") == 0) {
    char what[64];
    std::snprintf(what, sizeof what, "profiler plugin v%d, one collective", version);
    price(what, mask != 0, [&] { operation(number++); }, [] {});
    return 0;
  }
  const uint64_t operations = std::strtoull(argv[3], nullptr, 10);
  struct sigaction action = {};
  action.sa_sigaction = onSystemCall;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  if (dup2(2, kComplaints) < 0) return 4;
  current = "a callback";
  forbidSystemCalls();
  guarded = true;
  while (number < operations) operation(number++);
  guarded = false;
  syscall(SYS_exit_group, 0);
}
