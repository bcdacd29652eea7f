// The look-up of driver functions by name and version.
#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "../exported.h"
#include "log.h"

namespace {

// Functions whose newer variants differ in their arguments. All other functions have one variant here.
struct Variant {
  const char* name;
  int since;
  const char* symbol;
};
constexpr Variant kVariants[] = {
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
    {"cuStreamGetCaptureInfo", 0, "cuStreamGetCaptureInfo"},
    {"cuStreamUpdateCaptureDependencies", 12030, "cuStreamUpdateCaptureDependencies_v2"},
    {"cuStreamUpdateCaptureDependencies", 0, "cuStreamUpdateCaptureDependencies"},
    {"cuGraphAddDependencies", 12030, "cuGraphAddDependencies_v2"},
    {"cuGraphAddDependencies", 0, "cuGraphAddDependencies"},
    {"cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"},
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    {"cuGetProcAddress", 0, "cuGetProcAddress"},
};

void* self() {
  static void* const handle = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&self), &info);
    return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  }();
  return handle;
}

void* lookUp(const std::string& name, int version) {
  for (const Variant& variant : kVariants) {
    if (name == variant.name && version >= variant.since) return dlsym(self(), variant.symbol);
  }
  for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
    if (void* found = dlsym(self(), (name + suffix).c_str())) return found;
  }
  host_nccl::logOnce(("the look-up of " + name).c_str());
  return nullptr;
}

}  // namespace

#undef cuGetProcAddress
EXPORTED CUresult cuGetProcAddress_v2(
    const char* name, void** function, int version, cuuint64_t, CUdriverProcAddressQueryResult* result) {
  *function = lookUp(name, version);
  const bool isFound = *function != nullptr;
  if (result != nullptr) {
    *result = isFound ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return isFound ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORTED CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
