// The memory of the stand-in devices: memory of the host. Device memory has a file, so that other processes can map it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace host_nccl {

enum class MemoryKind { kDevice, kHost, kRegistered, kImported };

struct Allocation {
  uintptr_t start;
  size_t size;
  int device;
  int file;
  MemoryKind kind;
  unsigned long long id;
};

// Returns null if there is no memory.
void* allocate(size_t size, int device, MemoryKind kind);
void remember(const Allocation& allocation);
// Forgets the allocation that starts here, and unmaps it unless the user owns the memory.
CUresult release(uintptr_t start);
// Finds the allocation that an address is in.
bool find(uintptr_t address, Allocation* found);

}  // namespace host_nccl
