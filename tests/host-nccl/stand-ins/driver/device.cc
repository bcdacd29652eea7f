// The devices: eight GPUs of one kind on PCI, which can all access each other's memory.
#include <cuda.h>

#include <cstdio>
#include <cstring>

#include "../exported.h"
#include "../settings.h"
#include "log.h"

using host_nccl::computeCapability;
using host_nccl::deviceCount;

EXPORTED CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

EXPORTED CUresult cuDriverGetVersion(int* version) {
  *version = host_nccl::driverVersion();
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= deviceCount()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetCount(int* count) {
  *count = deviceCount();
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::snprintf(name, length, "stand-in for a GPU");
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
#undef cuDeviceGetUuid_v2
EXPORTED CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, 0, sizeof *uuid);
  std::memcpy(uuid->bytes, "host-nccl", 9);
  uuid->bytes[14] = static_cast<char>(host_nccl::setting("HOST_NCCL_NODE", 0));
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

EXPORTED CUresult cuDeviceTotalMem(size_t* size, CUdevice) {
  *size = 80ull << 30;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  std::snprintf(id, length, "0000:%02X:00.0", host_nccl::kFirstBus + device);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  unsigned domain, bus;
  if (std::sscanf(id, "%x:%x:", &domain, &bus) != 2) return CUDA_ERROR_INVALID_VALUE;
  return cuDeviceGet(device, static_cast<int>(bus) - host_nccl::kFirstBus);
}

// All other attributes are 0, so that NCCL does not use the feature. Among them are virtual memory management, multicast
// and GPUDirect RDMA.
EXPORTED CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = 48 << 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 163 << 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 108;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = 1410000;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = host_nccl::kFirstBus + device;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = computeCapability() / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = computeCapability() % 10;
      return CUDA_SUCCESS;
    default: {
      char what[64];
      std::snprintf(what, sizeof what, "attribute %d of a device: 0", static_cast<int>(attribute));
      host_nccl::logOnce(what);
      *value = 0;
      return CUDA_SUCCESS;
    }
  }
}

EXPORTED CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  *can = 1;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_SUCCESS; }
