// How a library that nvcc compiled registers and launches its kernels. CUDA's documentation has none of these functions.
// nvcc's headers declare them (crt/host_runtime.h). PyTorch calls them when it is loaded.
//
// The stand-ins cannot execute code of a GPU. The launch of such a kernel is an error, and the log has its name.
#include <map>
#include <mutex>
#include <string>

#include "../driver/log.h"
#include "runtime.h"

static std::mutex& mutex = *new std::mutex;
static std::map<const void*, const char*>& names = *new std::map<const void*, const char*>;

EXPORTED void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}

EXPORTED void __cudaRegisterFatBinaryEnd(void**) {}
EXPORTED void __cudaUnregisterFatBinary(void**) {}

// The name is in the memory of the library, which stays loaded.
EXPORTED void __cudaRegisterFunction(
    void**, const char* symbol, char*, const char* name, int, void*, void*, void*, void*, int*) {
  std::lock_guard<std::mutex> guard(mutex);
  names[symbol] = name;
}

EXPORTED void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

// The configuration of a launch does not matter, because no launch succeeds.
EXPORTED unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t) { return 0; }

EXPORTED cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = *block = dim3{1, 1, 1};
  *shared = 0;
  *static_cast<cudaStream_t*>(stream) = nullptr;
  return cudaSuccess;
}

EXPORTED cudaError_t __cudaGetKernel(void** kernel, const void* symbol) {
  *kernel = const_cast<void*>(symbol);
  return cudaSuccess;
}

EXPORTED cudaError_t __cudaLaunchKernel(void* kernel, dim3, dim3, void**, size_t, cudaStream_t) {
  std::lock_guard<std::mutex> guard(mutex);
  const auto found = names.find(kernel);
  host_nccl::logOnce((std::string("the kernel ") + (found == names.end() ? "?" : found->second)).c_str());
  return host_nccl::kept(CUDA_ERROR_NOT_SUPPORTED);
}
