// Names of errors. The numbers are the documented ones, so that NCCL's messages can be looked up.
#include <cuda.h>

#include <cstdio>

#include "../exported.h"

EXPORTED CUresult cuGetErrorString(CUresult error, const char** text) {
  static thread_local char buffer[64];
  std::snprintf(buffer, sizeof buffer, "CUDA error %d of the stand-in driver", static_cast<int>(error));
  *text = buffer;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGetErrorName(CUresult error, const char** text) { return cuGetErrorString(error, text); }
