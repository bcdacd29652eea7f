// Calls that allocate memory and describe pointers.
#include "../exported.h"
#include "context.h"
#include "log.h"
#include "memory.h"
#include "stream.h"

using host_nccl::Allocation;
using host_nccl::Context;
using host_nccl::MemoryKind;

EXPORTED CUresult cuMemAlloc(CUdeviceptr* pointer, size_t size) {
  const Context* context = Context::current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  void* memory = host_nccl::allocate(size, context->device, MemoryKind::kDevice);
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

EXPORTED CUresult cuMemFree(CUdeviceptr pointer) {
  return pointer == 0 ? CUDA_SUCCESS : host_nccl::release(pointer);
}

// Memory from a pool is ordinary memory. It is usable at once, earlier than CUDA promises.
EXPORTED CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t size, CUstream) { return cuMemAlloc(pointer, size); }

EXPORTED CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t size, CUmemoryPool, CUstream) {
  return cuMemAlloc(pointer, size);
}

EXPORTED CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return host_nccl::Stream::of(stream)->submit(
      CU_GRAPH_NODE_TYPE_MEM_FREE, [pointer](host_nccl::Replay) { host_nccl::release(pointer); });
}

EXPORTED CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  *pool = reinterpret_cast<CUmemoryPool>(new char);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  delete reinterpret_cast<char*>(pool);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }

EXPORTED CUresult cuMemHostAlloc(void** pointer, size_t size, unsigned) {
  const Context* context = Context::current();
  *pointer = host_nccl::allocate(size, context == nullptr ? 0 : context->device, MemoryKind::kHost);
  return *pointer == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

EXPORTED CUresult cuMemFreeHost(void* pointer) { return host_nccl::release(reinterpret_cast<uintptr_t>(pointer)); }

EXPORTED CUresult cuMemHostRegister(void* pointer, size_t size, unsigned) {
  const Context* context = Context::current();
  const int device = context == nullptr ? 0 : context->device;
  host_nccl::remember(
      {reinterpret_cast<uintptr_t>(pointer), size, device, -1, MemoryKind::kRegistered, host_nccl::nextId()});
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemHostUnregister(void* pointer) {
  const CUresult result = host_nccl::release(reinterpret_cast<uintptr_t>(pointer));
  return result == CUDA_SUCCESS ? result : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

EXPORTED CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemGetInfo(size_t* available, size_t* total) {
  *available = 60ull << 30, *total = 80ull << 30;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemGetAddressRange(CUdeviceptr* start, size_t* size, CUdeviceptr pointer) {
  Allocation allocation;
  if (!host_nccl::find(pointer, &allocation)) return CUDA_ERROR_NOT_FOUND;
  if (start != nullptr) *start = allocation.start;
  if (size != nullptr) *size = allocation.size;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  Allocation allocation;
  if (!host_nccl::find(pointer, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  const bool isHost = allocation.kind == MemoryKind::kHost || allocation.kind == MemoryKind::kRegistered;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = reinterpret_cast<CUcontext>(Context::primary(allocation.device));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = isHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<void**>(data) = isHost ? reinterpret_cast<void*>(pointer) : nullptr;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = allocation.id;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = allocation.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(data) = allocation.kind == MemoryKind::kDevice;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = allocation.start;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = allocation.size;
      return CUDA_SUCCESS;
    default:
      host_nccl::logOnce("an attribute of a pointer");
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

EXPORTED CUresult cuPointerSetAttribute(const void*, CUpointer_attribute, CUdeviceptr) { return CUDA_SUCCESS; }
