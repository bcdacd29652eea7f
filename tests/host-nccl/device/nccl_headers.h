// The headers of the NCCL version that is built, and common names where versions differ.
#pragma once

#include "nccl.h"

#if NCCL_VERSION_CODE >= 22100
#include "device.h"
#else
#include "devcomm.h"
#endif
#include "collectives.h"

// Up to 2.22, the host gives each channel a chain of work structures of 512 bytes. From 2.23 on, it gives batches.
#define HOST_NCCL_HAS_BATCHES (NCCL_VERSION_CODE >= 22300)

// From 2.26 on, the device writes times that the proxy reads for a profiler plugin.
#define HOST_NCCL_HAS_PROFILER (NCCL_VERSION_CODE >= 22600)

namespace host_nccl {

#if NCCL_VERSION_CODE >= 22800
typedef ncclKernelComm DeviceCommunicator;
typedef ncclKernelCommAndChannels DeviceCommunicatorAndChannels;
#else
typedef ncclDevComm DeviceCommunicator;
typedef ncclDevCommAndChannels DeviceCommunicatorAndChannels;
#endif

}  // namespace host_nccl
