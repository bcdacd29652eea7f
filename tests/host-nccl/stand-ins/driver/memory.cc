#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "context.h"

namespace host_nccl {

namespace {

std::mutex& mutex = *new std::mutex;
std::map<uintptr_t, Allocation>& allocations = *new std::map<uintptr_t, Allocation>;

constexpr size_t kPage = 4096;
// Large allocations of the real driver start at this multiple. NCCL relies on it for registered buffers.
constexpr size_t kLargePage = 2 << 20;

size_t roundedUp(size_t size, size_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Maps memory at a multiple of the alignment: reserves more, and releases the rest.
void* map(size_t size, size_t alignment, int file) {
  const size_t reserved = size + alignment;
  void* place = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(place), end = begin + reserved;
  const uintptr_t start = roundedUp(begin, alignment);
  if (start > begin) munmap(place, start - begin);
  if (end > start + size) munmap(reinterpret_cast<void*>(start + size), end - start - size);
  const int flags = MAP_FIXED | (file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  void* mapped = mmap(reinterpret_cast<void*>(start), size, PROT_READ | PROT_WRITE, flags, file, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

void* allocate(size_t size, int device, MemoryKind kind) {
  size = roundedUp(size == 0 ? 1 : size, kPage);
  int file = -1;
  if (kind == MemoryKind::kDevice) {
    file = memfd_create("host-nccl-device", MFD_CLOEXEC);
    if (file < 0) return nullptr;
  }
  void* memory = nullptr;
  if (file < 0 || ftruncate(file, size) == 0) memory = map(size, size >= kLargePage / 2 ? kLargePage : kPage, file);
  if (memory != nullptr) {
    remember({reinterpret_cast<uintptr_t>(memory), size, device, file, kind, nextId()});
  } else if (file >= 0) {
    close(file);
  }
  return memory;
}

void remember(const Allocation& allocation) {
  std::lock_guard<std::mutex> guard(mutex);
  allocations[allocation.start] = allocation;
}

CUresult release(uintptr_t start) {
  std::lock_guard<std::mutex> guard(mutex);
  const auto found = allocations.find(start);
  if (found == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  const Allocation& allocation = found->second;
  if (allocation.kind != MemoryKind::kRegistered) munmap(reinterpret_cast<void*>(start), allocation.size);
  if (allocation.file >= 0) close(allocation.file);
  allocations.erase(found);
  return CUDA_SUCCESS;
}

bool find(uintptr_t address, Allocation* found) {
  std::lock_guard<std::mutex> guard(mutex);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return false;
  const Allocation& allocation = std::prev(after)->second;
  if (address >= allocation.start + allocation.size) return false;
  *found = allocation;
  return true;
}

}  // namespace host_nccl
