// Delays that a test puts into kernels.
//
//   HOST_NCCL_START_DELAY_US   before a kernel starts, as if the device were busy
//   HOST_NCCL_WORK_US          within a kernel, after the data of each batch of work has moved
//
// Each is a number, or a list such as `1:50000,3:200` with a number per device.
#pragma once

#include "block.h"

namespace host_nccl {

void delayStart(const Block& block);
void delayWork(const Block& block);

}  // namespace host_nccl
