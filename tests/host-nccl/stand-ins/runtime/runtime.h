// Declarations that the files of the stand-in runtime share.
#pragma once

#include <cuda.h>
#define __CUDART_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>

#include "../exported.h"

// Some functions have a variant with edges of graphs. Since CUDA 13 it is the only one, and it has the plain name.
#if CUDART_VERSION < 13000
#define WITH_EDGES(name, suffix) name##suffix
#else
#define WITH_EDGES(name, suffix) name
#endif

namespace host_nccl {

// Turns the driver's result into the runtime's, and keeps it as the thread's last error. The numbers are the same.
cudaError_t kept(CUresult result);

// Binds the thread to the primary context of its device if it has no context yet, as the runtime's calls do.
void bind();

// Binds, calls, and keeps the result.
#define BOUND(call) (::host_nccl::bind(), ::host_nccl::kept(call))

inline CUdeviceptr device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace host_nccl
