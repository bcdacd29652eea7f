// The stand-in NVML: the same devices as those of the stand-in driver, on PCI, without NVLink.
#include <nvml.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "../exported.h"
#include "../settings.h"

using host_nccl::deviceCount;
using host_nccl::kFirstBus;

// A handle is the device's number plus one.
static nvmlReturn_t handle(int device, nvmlDevice_t* out) {
  if (device < 0 || device >= deviceCount()) return NVML_ERROR_NOT_FOUND;
  *out = reinterpret_cast<nvmlDevice_t>(static_cast<intptr_t>(device) + 1);
  return NVML_SUCCESS;
}

static int number(nvmlDevice_t device) { return static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1; }

#undef nvmlInit
#undef nvmlDeviceGetCount
#undef nvmlDeviceGetHandleByPciBusId
#undef nvmlDeviceGetHandleByIndex
#undef nvmlDeviceGetPciInfo

EXPORTED nvmlReturn_t nvmlInit() { return NVML_SUCCESS; }
EXPORTED nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }
EXPORTED nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }
EXPORTED const char* nvmlErrorString(nvmlReturn_t) { return "an error of the stand-in NVML"; }

EXPORTED nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* out) {
  *out = deviceCount();
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetCount(unsigned* out) { return nvmlDeviceGetCount_v2(out); }

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* out) {
  unsigned domain, bus;
  if (std::sscanf(id, "%x:%x:", &domain, &bus) != 2) return NVML_ERROR_INVALID_ARGUMENT;
  return handle(static_cast<int>(bus) - kFirstBus, out);
}

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, out);
}

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* out) {
  return handle(static_cast<int>(index), out);
}

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

EXPORTED nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  *index = number(device);
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t, int* major, int* minor) {
  const int capability = host_nccl::computeCapability();
  *major = capability / 10, *minor = capability % 10;
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetP2PStatus(
    nvmlDevice_t, nvmlDevice_t, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t* status) {
  *status = NVML_P2P_STATUS_OK;
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t, unsigned, nvmlEnableState_t*) {
  return NVML_ERROR_NOT_SUPPORTED;
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, unsigned, nvmlPciInfo_t*) {
  return NVML_ERROR_NOT_SUPPORTED;
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t, unsigned, nvmlNvLinkCapability_t, unsigned*) {
  return NVML_ERROR_NOT_SUPPORTED;
}

EXPORTED nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t, int values, nvmlFieldValue_t* out) {
  for (int i = 0; i < values; i++) out[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

static nvmlReturn_t pciInfo(nvmlDevice_t device, nvmlPciInfo_t* out) {
  std::memset(out, 0, sizeof *out);
  out->bus = kFirstBus + number(device);
  out->pciDeviceId = 0x20b010de;
  std::snprintf(out->busId, sizeof out->busId, "00000000:%02X:00.0", out->bus);
  std::snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "0000:%02X:00.0", out->bus);
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* out) { return pciInfo(device, out); }
EXPORTED nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* out) { return pciInfo(device, out); }

EXPORTED nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t* out) {
  out->domain = out->device = 0;
  out->bus = kFirstBus + number(device);
  out->pciDeviceId = 0x20b010de;
  out->baseClass = 3, out->subClass = 2;
  std::snprintf(out->busId, sizeof out->busId, "00000000:%02X:00.0", out->bus);
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t, unsigned* speed) {
  *speed = 16000;
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t, unsigned* generation) {
  *generation = 4;
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t, unsigned* width) {
  *width = 16;
  return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t, nvmlPlatformInfo_t*) { return NVML_ERROR_NOT_SUPPORTED; }

EXPORTED nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "999.99");
  return NVML_SUCCESS;
}
