// Devices, errors and the look-up of driver functions.
#include <cstdio>
#include <cstring>

#include "runtime.h"

using host_nccl::kept;

static thread_local int chosenDevice = 0;
static thread_local cudaError_t lastError = cudaSuccess;

namespace host_nccl {

cudaError_t kept(CUresult result) {
  const auto error = static_cast<cudaError_t>(result);
  // A query that finds unfinished work is no error.
  if (error != cudaSuccess && error != cudaErrorNotReady) lastError = error;
  return error;
}

void bind() {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  if (context != nullptr) return;
  cuInit(0);
  if (cuDevicePrimaryCtxRetain(&context, chosenDevice) == CUDA_SUCCESS) cuCtxSetCurrent(context);
}

}  // namespace host_nccl

EXPORTED cudaError_t cudaSetDevice(int device) {
  cuInit(0);
  CUcontext context;
  const CUresult result = cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return kept(result);
  chosenDevice = device;
  return kept(cuCtxSetCurrent(context));
}

EXPORTED cudaError_t cudaGetDevice(int* device) {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  if (context != nullptr) return kept(cuCtxGetDevice(device));
  *device = chosenDevice;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaGetDeviceCount(int* count) { return kept(cuDeviceGetCount(count)); }

EXPORTED cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return kept(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}

EXPORTED cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return kept(cuDeviceGetPCIBusId(id, length, device));
}

EXPORTED cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return kept(cuDeviceGetByPCIBusId(device, id));
}

EXPORTED cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return kept(cuDeviceCanAccessPeer(can, device, peer));
}

EXPORTED cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceSynchronize() { return BOUND(cuCtxSynchronize()); }

EXPORTED cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return BOUND(cuCtxGetStreamPriorityRange(least, greatest));
}

EXPORTED cudaError_t cudaDriverGetVersion(int* version) { return kept(cuDriverGetVersion(version)); }

EXPORTED cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

#undef cudaGetDeviceProperties
#undef cudaGetDeviceProperties_v2
EXPORTED cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  const CUresult result = cuDeviceGetName(properties->name, sizeof properties->name, device);
  CUuuid uuid;
  cuDeviceGetUuid(&uuid, device);
  std::memcpy(&properties->uuid, &uuid, sizeof uuid);
  cuDeviceTotalMem(&properties->totalGlobalMem, device);
  cuDeviceGetAttribute(&properties->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  cuDeviceGetAttribute(&properties->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  cuDeviceGetAttribute(&properties->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  cuDeviceGetAttribute(&properties->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->unifiedAddressing = properties->canMapHostMemory = 1;
  return kept(result);
}

EXPORTED cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cudaGetDeviceProperties_v2(properties, device);
}

EXPORTED const char* cudaGetErrorString(cudaError_t error) {
  const char* text;
  cuGetErrorString(static_cast<CUresult>(error), &text);
  return text;
}

EXPORTED const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

EXPORTED cudaError_t cudaGetLastError() {
  const cudaError_t error = lastError;
  lastError = cudaSuccess;
  return error;
}

EXPORTED cudaError_t cudaPeekAtLastError() { return lastError; }

static cudaError_t entryPoint(
    const char* name, void** function, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* result) {
  CUdriverProcAddressQueryResult found;
  const CUresult error = cuGetProcAddress_v2(name, function, static_cast<int>(version), flags, &found);
  if (result != nullptr) *result = static_cast<cudaDriverEntryPointQueryResult>(found);
  // The real runtime reports a missing function by the result alone.
  return error == CUDA_ERROR_NOT_FOUND ? cudaSuccess : kept(error);
}

#undef cudaGetDriverEntryPoint
EXPORTED cudaError_t cudaGetDriverEntryPoint(
    const char* name, void** function, unsigned long long flags, cudaDriverEntryPointQueryResult* result) {
  return entryPoint(name, function, CUDART_VERSION, flags, result);
}

#undef cudaGetDriverEntryPointByVersion
EXPORTED cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* result) {
  return entryPoint(name, function, version, flags, result);
}
