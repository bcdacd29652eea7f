// Memory: each call is one call of the driver.
#include <cstring>

#include "runtime.h"

using host_nccl::device;
using host_nccl::kept;

EXPORTED cudaError_t cudaMalloc(void** pointer, size_t size) {
  return BOUND(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), size));
}

EXPORTED cudaError_t cudaFree(void* pointer) { return BOUND(cuMemFree(device(pointer))); }

EXPORTED cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  return BOUND(cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(pointer), size, stream));
}

EXPORTED cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return BOUND(cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(pointer), size, pool, stream));
}

EXPORTED cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return BOUND(cuMemFreeAsync(device(pointer), stream));
}

EXPORTED cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  return BOUND(cuMemPoolCreate(pool, nullptr));
}

EXPORTED cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return BOUND(cuMemPoolDestroy(pool)); }

EXPORTED cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return BOUND(cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value));
}

EXPORTED cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned flags) {
  return BOUND(cuMemHostAlloc(pointer, size, flags));
}

EXPORTED cudaError_t cudaMallocHost(void** pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }
EXPORTED cudaError_t cudaFreeHost(void* pointer) { return BOUND(cuMemFreeHost(pointer)); }

EXPORTED cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned flags) {
  return BOUND(cuMemHostRegister(pointer, size, flags));
}

EXPORTED cudaError_t cudaHostUnregister(void* pointer) { return BOUND(cuMemHostUnregister(pointer)); }

EXPORTED cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned flags) {
  return BOUND(cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(out), host, flags));
}

EXPORTED cudaError_t cudaMemGetInfo(size_t* available, size_t* total) { return BOUND(cuMemGetInfo(available, total)); }

EXPORTED cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  std::memset(attributes, 0, sizeof *attributes);
  unsigned type = 0;
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device(pointer)) != CUDA_SUCCESS) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  attributes->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (attributes->type == cudaMemoryTypeHost) attributes->hostPointer = const_cast<void*>(pointer);
  return kept(cuPointerGetAttribute(&attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device(pointer)));
}

EXPORTED cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  return BOUND(cuMemcpy(device(to), device(from), size));
}

EXPORTED cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
  return BOUND(cuMemcpyAsync(device(to), device(from), size, stream));
}

#if CUDART_VERSION < 13000
EXPORTED cudaError_t cudaMemcpyBatchAsync(
    void** to, void** from, size_t* sizes, size_t count, cudaMemcpyAttributes*, size_t*, size_t, size_t*,
    cudaStream_t stream) {
  for (size_t i = 0; i < count; i++) {
    const cudaError_t error = cudaMemcpyAsync(to[i], from[i], sizes[i], cudaMemcpyDefault, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
#endif

EXPORTED cudaError_t cudaMemset(void* to, int value, size_t size) {
  return BOUND(cuMemsetD8(device(to), static_cast<unsigned char>(value), size));
}

EXPORTED cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  return BOUND(cuMemsetD8Async(device(to), static_cast<unsigned char>(value), size, stream));
}

EXPORTED cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return BOUND(cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), device(pointer)));
}

EXPORTED cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  CUipcMemHandle same;
  static_assert(sizeof same == sizeof handle, "both have 64 bytes");
  std::memcpy(&same, &handle, sizeof same);
  return BOUND(cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(pointer), same, flags));
}

EXPORTED cudaError_t cudaIpcCloseMemHandle(void* pointer) { return BOUND(cuIpcCloseMemHandle(device(pointer))); }

EXPORTED cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc*, cudaExtent*, unsigned*, cudaArray_t) {
  return cudaErrorNotSupported;
}
