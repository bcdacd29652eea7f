// The clocks of the device side.
#pragma once

#include <cstdint>

namespace host_nccl {

// CLOCK_MONOTONIC_RAW: the clock of the truth.
int64_t rawNanoseconds();

// The time of a device's `globaltimer`: nanoseconds since 1970, in steps. HOST_NCCL_TIMER_STEP_NS (32) is the step.
// HOST_NCCL_TIMER_OFFSET_NS (0) moves the device's clock against the host's.
uint64_t deviceTimer();

}  // namespace host_nccl
