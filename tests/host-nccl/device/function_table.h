// The meaning of a version's function numbers.
#pragma once

#include "work.h"

namespace host_nccl {

struct DeviceFunction {
  enum Kind { kUnknown, kMessages, kOneRank, kCollective } kind = kUnknown;
  Function function;
  Algorithm algorithm;
  // ncclDevRedOp_t of the version.
  int reduction;
  ncclDataType_t type;
};

DeviceFunction deviceFunction(int number);

// Returns the reduction of a work item. The meaning of the host's argument depends on the version.
Reduction reductionOf(const DeviceFunction& function, uint64_t argument);

// Reads an argument that the host gives by address.
uint64_t argumentAt(ncclDataType_t type, uint64_t address);

}  // namespace host_nccl
