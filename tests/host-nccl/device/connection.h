// Where a version's connection has the data of a step, and how the device reports sizes to the proxy.
#pragma once

#include "block.h"

namespace host_nccl {

#if NCCL_VERSION_CODE >= 22100

// Returns the place in the connection's buffer for a step. The proxy may have chosen it.
inline char* placeOfStep(const Block&, const ncclConnInfo& connection, uint64_t step) {
  char* buffer = connection.buffs[NCCL_PROTO_SIMPLE];
  const uint64_t slot = step % NCCL_STEPS;
  if (connection.connFifo != nullptr && connection.connFifo[slot].mode == NCCL_MODE_OFFSET) {
    return buffer + __atomic_load_n(&connection.connFifo[slot].offset, __ATOMIC_ACQUIRE);
  }
  return buffer + slot * connection.stepSize;
}

// The proxy sends this many bytes for the step.
inline void reportSize(const ncclConnInfo& connection, uint64_t step, size_t bytes) {
  if (connection.connFifo != nullptr) connection.connFifo[step % NCCL_STEPS].size = bytes;
}

#else

inline char* placeOfStep(const Block& block, const ncclConnInfo& connection, uint64_t step) {
  char* buffer = connection.buffs[NCCL_PROTO_SIMPLE];
  const uint64_t slot = step % NCCL_STEPS;
  if (connection.offsFifo != nullptr) return buffer + __atomic_load_n(&connection.offsFifo[slot], __ATOMIC_ACQUIRE);
  return buffer + slot * (block.communicator->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS);
}

inline void reportSize(const ncclConnInfo& connection, uint64_t step, size_t bytes) {
  if (connection.sizesFifo != nullptr) connection.sizesFifo[step % NCCL_STEPS] = static_cast<int>(bytes);
}

#endif

}  // namespace host_nccl
