// The CUDA driver and NCCL for the compiled programs, without their headers and without linking. Everything is resolved
// at run time, and kernels are text that the driver compiles. pack.sh builds these programs without a GPU.
#pragma once

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

inline void needed(bool fine, const char* file, int line, const char* what, long result) {
  if (fine) return;
  std::fprintf(stderr, "%s, line %d: %s (%ld)\n", file, line, what, result);
  std::fflush(stderr);
  std::_Exit(3);
}
#define CHECK(condition) needed((condition), __FILE__, __LINE__, #condition, 0)
// A call of the driver, of NCCL or of CUPTI that returns 0 on success.
#define FINE(call)                                              \
  do {                                                          \
    const long result_ = static_cast<long>(call);               \
    needed(result_ == 0, __FILE__, __LINE__, #call, result_);   \
  } while (0)

inline int64_t clockNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

inline void* library(const char* name, int flags) {
  void* handle = dlopen(name, RTLD_NOW | flags);
  if (handle == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  CHECK(handle != nullptr);
  return handle;
}

// A function of a library. Its type is that of the variable to which it is assigned.
class Found {
 public:
  Found(void* library, const char* name) : address(dlsym(library, name)) { needed(address != nullptr, name, 0, "is not there", 0); }
  template <typename Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }

 private:
  void* address;
};

// ---- the driver -----------------------------------------------------------------------------------------------------

using Handle = void*;
using Address = unsigned long long;

struct Driver {
  void* const handle = library("libcuda.so.1", RTLD_LOCAL);
  int (*const init)(unsigned) = Found(handle, "cuInit");
  int (*const version)(int*) = Found(handle, "cuDriverGetVersion");
  int (*const device)(int*, int) = Found(handle, "cuDeviceGet");
  int (*const retainContext)(Handle*, int) = Found(handle, "cuDevicePrimaryCtxRetain");
  int (*const setContext)(Handle) = Found(handle, "cuCtxSetCurrent");
  int (*const synchronizeContext)() = Found(handle, "cuCtxSynchronize");
  int (*const loadModule)(Handle*, const void*) = Found(handle, "cuModuleLoadData");
  int (*const function)(Handle*, Handle, const char*) = Found(handle, "cuModuleGetFunction");
  int (*const createStream)(Handle*, unsigned) = Found(handle, "cuStreamCreate");
  int (*const synchronize)(Handle) = Found(handle, "cuStreamSynchronize");
  int (*const launchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**) = Found(handle, "cuLaunchKernel");
  int (*const allocate)(Address*, size_t) = Found(handle, "cuMemAlloc_v2");
  int (*const allocateHost)(void**, size_t, unsigned) = Found(handle, "cuMemHostAlloc");
  int (*const copyToDevice)(Address, const void*, size_t, Handle) = Found(handle, "cuMemcpyHtoDAsync_v2");
  int (*const copyToHost)(void*, Address, size_t, Handle) = Found(handle, "cuMemcpyDtoHAsync_v2");
  int (*const copyOnDevice)(Address, Address, size_t, Handle) = Found(handle, "cuMemcpyDtoDAsync_v2");
  int (*const set)(Address, unsigned, size_t, Handle) = Found(handle, "cuMemsetD32Async");
  int (*const beginCapture)(Handle, int) = Found(handle, "cuStreamBeginCapture_v2");
  int (*const endCapture)(Handle, Handle*) = Found(handle, "cuStreamEndCapture");
  int (*const graphNodes)(Handle, Handle*, size_t*) = Found(handle, "cuGraphGetNodes");
  int (*const instantiate)(Handle*, Handle, unsigned long long) = Found(handle, "cuGraphInstantiateWithFlags");
  int (*const launchGraph)(Handle, Handle) = Found(handle, "cuGraphLaunch");

  // Launches one block of 32 threads with up to two arguments.
  int launch(Handle kernel, Handle stream, Address first, uint64_t second = 0) const {
    void* arguments[] = {&first, &second, nullptr};
    return launchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);
  }
};

// Returns the kernels. Three of them add 1 to 32 words and differ in their names. One runs for a given number of
// nanoseconds by the device's timer and stores its start and end.
inline std::string kernelText() {
  std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n";
  for (const char* name : {"rankscope_small", "rankscope_early", "rankscope_late"}) {
    text += std::string(".visible .entry ") + name +
            "(.param .u64 where)\n"
            "{\n"
            "  .reg .b32 %v<2>;\n"
            "  .reg .b64 %a<4>;\n"
            "  ld.param.u64 %a0, [where];\n"
            "  cvta.to.global.u64 %a1, %a0;\n"
            "  mov.u32 %v0, %tid.x;\n"
            "  mul.wide.u32 %a2, %v0, 4;\n"
            "  add.s64 %a3, %a1, %a2;\n"
            "  ld.global.u32 %v1, [%a3];\n"
            "  add.s32 %v1, %v1, 1;\n"
            "  st.global.u32 [%a3], %v1;\n"
            "  ret;\n"
            "}\n";
  }
  return text +
         ".visible .entry rankscope_spin(.param .u64 where, .param .u64 length)\n"
         "{\n"
         "  .reg .pred %p0;\n"
         "  .reg .b64 %a<7>;\n"
         "  ld.param.u64 %a0, [where];\n"
         "  ld.param.u64 %a1, [length];\n"
         "  cvta.to.global.u64 %a2, %a0;\n"
         "  mov.u64 %a3, %globaltimer;\n"
         "$again:\n"
         "  mov.u64 %a4, %globaltimer;\n"
         "  sub.s64 %a5, %a4, %a3;\n"
         "  setp.lt.u64 %p0, %a5, %a1;\n"
         "  @%p0 bra $again;\n"
         "  st.global.u64 [%a2], %a3;\n"
         "  st.global.u64 [%a2+8], %a4;\n"
         "  ret;\n"
         "}\n";
}

// The device. Its primary context is current on the calling thread and shared with NCCL and the run-time library.
struct Device {
  const Driver driver;
  Handle context = nullptr, module = nullptr;
  Address memory = 0;
  void* host = nullptr;
  static constexpr size_t kBytes = 1 << 20;

  Device() {
    FINE(driver.init(0));
    int number = -1;
    FINE(driver.device(&number, 0));
    FINE(driver.retainContext(&context, number));
    FINE(driver.setContext(context));
    FINE(driver.loadModule(&module, kernelText().c_str()));
    FINE(driver.allocate(&memory, kBytes));
    FINE(driver.allocateHost(&host, kBytes, 0));
    std::memset(host, 0, kBytes);
    FINE(driver.set(memory, 0, kBytes / 4, nullptr));
    FINE(driver.synchronizeContext());
  }

  Handle kernel(const char* name) const {
    Handle found = nullptr;
    FINE(driver.function(&found, module, name));
    return found;
  }

  // Creates a stream that does not synchronise with any other stream.
  Handle stream() const {
    Handle made = nullptr;
    FINE(driver.createStream(&made, 1));
    return made;
  }
};

// ---- NCCL -----------------------------------------------------------------------------------------------------------

struct UniqueId {
  char bytes[128];
};

// A communicator of one rank, or one of those of `size` processes. The call goes to the library that the dynamic linker
// finds first, a preloaded one included, as in a program that is linked to NCCL. It starts the recorder and makes the
// process a rank.
struct Communicator {
  void* const handle;
  Handle comm = nullptr;

  explicit Communicator(const char* path) : handle(library(path, RTLD_GLOBAL)) {}

  UniqueId id() const {
    int (*const make)(UniqueId*) = Found(handle, "ncclGetUniqueId");
    UniqueId made;
    FINE(make(&made));
    return made;
  }

  void begin(const UniqueId& id, int rank, int size) {
    int (*const make)(Handle*, int, UniqueId, int) = Found(RTLD_DEFAULT, "ncclCommInitRank");
    FINE(make(&comm, size, id, rank));
  }
};

// ---- options --------------------------------------------------------------------------------------------------------

// `--name value` pairs.
class Options {
 public:
  Options(int argc, char** argv, int first) {
    for (int at = first; at + 1 < argc; at += 2) {
      CHECK(std::strncmp(argv[at], "--", 2) == 0);
      values[argv[at] + 2] = argv[at + 1];
    }
    CHECK((argc - first) % 2 == 0);
  }

  std::string text(const char* name, const char* otherwise) const {
    const auto found = values.find(name);
    return found != values.end() ? found->second : otherwise;
  }

  long number(const char* name, long otherwise) const {
    const auto found = values.find(name);
    return found != values.end() ? std::atol(found->second.c_str()) : otherwise;
  }

 private:
  std::map<std::string, std::string> values;
};
