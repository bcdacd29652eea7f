// Included by the table of kernels, which the build generates from the names that the host code refers to.
#pragma once

#include "nccl_headers.h"
#include "run.h"

#if NCCL_VERSION_CODE >= 22800
#include "sym_kernels.h"
#elif NCCL_VERSION_CODE >= 22700
#include "symmetric.h"
#endif

namespace host_nccl {

// Describes a kernel from its signature.
template <typename... Arguments>
HostKernel described(void (*kernel)(Arguments...), const char* name) {
  return {reinterpret_cast<const void*>(kernel), name, sizeof...(Arguments), {sizeof(Arguments)...}, hostNcclRun};
}

// Registers a table. As an initializer after the table, this runs when the table is complete.
template <size_t count>
bool registered(const HostKernel (&table)[count]) {
  hostKernelRegister(table, static_cast<int>(count));
  return true;
}

}  // namespace host_nccl
