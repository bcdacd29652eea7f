// The properties of the stand-in devices, as driver and NVML report them. A test can set some of them.
#pragma once

#include <cstdlib>

namespace host_nccl {

inline int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

inline int deviceCount() {
  static const int value = setting("HOST_NCCL_DEVICES", 8);
  return value;
}

// With 80, NCCL uses nothing that needs NVLink SHARP or thread block clusters.
inline int computeCapability() {
  static const int value = setting("HOST_NCCL_COMPUTE_CAPABILITY", 80);
  return value;
}

// Device 0 is on this bus of PCI, and each further device on the next one.
constexpr int kFirstBus = 0x10;

inline int driverVersion() {
  static const int value = setting("HOST_NCCL_DRIVER_VERSION", 12090);
  return value;
}

}  // namespace host_nccl
