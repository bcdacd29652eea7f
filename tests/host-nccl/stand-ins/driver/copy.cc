// Copies and fills. All memory is memory of the host, so the direction does not matter.
#include <cstring>
#include <string>

#include "../exported.h"
#include "memory.h"
#include "stream.h"

using host_nccl::Allocation;
using host_nccl::Replay;
using host_nccl::Stream;

static bool isKnown(const void* pointer) {
  Allocation allocation;
  return host_nccl::find(reinterpret_cast<uintptr_t>(pointer), &allocation);
}

static bool isCaptured(const std::shared_ptr<Stream>& stream) {
  std::lock_guard<std::mutex> guard(host_nccl::Capture::mutex());
  return stream->capture != nullptr;
}

// Copies in the order of a stream, and returns when the copy is complete.
static CUresult copyNow(void* to, const void* from, size_t size, CUstream handle = nullptr) {
  const auto stream = Stream::of(handle);
  const CUresult result =
      stream->submit(CU_GRAPH_NODE_TYPE_MEMCPY, [=](Replay) { std::memmove(to, from, size); });
  stream->synchronize();
  return result;
}

// Like the real driver, reads pageable memory before the call returns, and writes it before the call returns.
static CUresult copy(void* to, const void* from, size_t size, CUstream handle) {
  const auto stream = Stream::of(handle);
  if (isCaptured(stream) || (isKnown(from) && isKnown(to))) {
    return stream->submit(CU_GRAPH_NODE_TYPE_MEMCPY, [=](Replay) { std::memmove(to, from, size); });
  }
  if (!isKnown(from)) {
    const auto kept = std::make_shared<std::string>(static_cast<const char*>(from), size);
    return stream->submit(CU_GRAPH_NODE_TYPE_MEMCPY, [=](Replay) { std::memcpy(to, kept->data(), size); });
  }
  return copyNow(to, from, size, handle);
}

static void* address(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }

EXPORTED CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copyNow(address(to), address(from), size);
}

EXPORTED CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  return copyNow(address(to), from, size);
}

EXPORTED CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) { return copyNow(to, address(from), size); }

EXPORTED CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copyNow(address(to), address(from), size);
}

EXPORTED CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy(address(to), address(from), size, stream);
}

EXPORTED CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  return copy(address(to), from, size, stream);
}

EXPORTED CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy(to, address(from), size, stream);
}

EXPORTED CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy(address(to), address(from), size, stream);
}

EXPORTED CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream stream) {
  return Stream::of(stream)->submit(
      CU_GRAPH_NODE_TYPE_MEMSET, [=](Replay) { std::memset(address(to), value, size); });
}

EXPORTED CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t size) {
  const auto stream = Stream::of(nullptr);
  const CUresult result = cuMemsetD8Async(to, value, size, nullptr);
  stream->synchronize();
  return result;
}

EXPORTED CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Stream::of(stream)->submit(CU_GRAPH_NODE_TYPE_MEMSET, [=](Replay) {
    auto* words = static_cast<unsigned*>(address(to));
    for (size_t i = 0; i < count; i++) words[i] = value;
  });
}

EXPORTED CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned) {
  return Stream::of(stream)->submit(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [=](Replay) {
    __atomic_store_n(static_cast<cuuint32_t*>(address(to)), value, __ATOMIC_RELEASE);
  });
}

EXPORTED CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr to, cuuint64_t value, unsigned) {
  return Stream::of(stream)->submit(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [=](Replay) {
    __atomic_store_n(static_cast<cuuint64_t*>(address(to)), value, __ATOMIC_RELEASE);
  });
}
