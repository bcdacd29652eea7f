// Handles by which another process maps device memory. A handle names the memory's file, which its process keeps open.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "../exported.h"
#include "context.h"
#include "memory.h"

using host_nccl::Allocation;
using host_nccl::Context;
using host_nccl::MemoryKind;

namespace {

constexpr uint32_t kMagic = 0x4e434c48;

struct Handle {
  uint32_t magic;
  int process, file;
  uint64_t size;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

}  // namespace

EXPORTED CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  Allocation allocation;
  if (!host_nccl::find(pointer, &allocation) || allocation.kind != MemoryKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  const Handle handle = {kMagic, getpid(), allocation.file, allocation.size};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle in, unsigned) {
  Handle handle;
  std::memcpy(&handle, &in, sizeof handle);
  if (handle.magic != kMagic) return CUDA_ERROR_INVALID_VALUE;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  void* memory = mmap(nullptr, handle.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    return CUDA_ERROR_MAP_FAILED;
  }
  const Context* context = Context::current();
  const int device = context == nullptr ? 0 : context->device;
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  host_nccl::remember({start, handle.size, device, file, MemoryKind::kImported, host_nccl::nextId()});
  *pointer = start;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) { return host_nccl::release(pointer); }
