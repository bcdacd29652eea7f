// What a test can set about the stand-in devices.
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

// 80 keeps NCCL from everything that needs NVLink SHARP or thread block clusters.
inline int computeCapability() {
  static const int value = setting("HOST_NCCL_COMPUTE_CAPABILITY", 80);
  return value;
}

inline int driverVersion() {
  static const int value = setting("HOST_NCCL_DRIVER_VERSION", 12090);
  return value;
}

}  // namespace host_nccl
