// NCCL's reductions on arrays of its data types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl.h"

namespace host_nccl {

enum class Operator { kSum, kProduct, kMinimum, kMaximum, kScaledSum, kSumThenDivide };

struct Reduction {
  Operator op;
  ncclDataType_t type;
  // The scale factor in the data type, or the divisor.
  uint64_t argument;

  size_t elementSize() const;
  // Copies a rank's own input, and scales it if the operation asks for it.
  void begin(char* to, const char* from, size_t bytes) const;
  void accumulate(char* to, const char* from, size_t bytes) const;
  // Divides by the divisor, if there is one, after all ranks' input was added.
  void finish(char* to, size_t bytes) const;
};

}  // namespace host_nccl
