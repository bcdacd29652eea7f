// The function that runs when NCCL launches one of its kernels.
#pragma once

#include "../stand-ins/host_kernel.h"

extern "C" void hostNcclRun(const HostLaunch* launch);
