// Calls that NCCL looks up and that the stand-in does not support. Each returns CUDA_ERROR_NOT_SUPPORTED and ignores
// its arguments, so that all have one signature here.
//
// The tables of cuGetExportTable are not documented, and one of them authenticates the driver. The stand-in has none.
#include "../exported.h"
#include "log.h"

#define NOT_SUPPORTED(name)      \
  EXPORTED int name() {          \
    host_nccl::logOnce(#name);   \
    return 801;                  \
  }

NOT_SUPPORTED(cuGetExportTable)
NOT_SUPPORTED(cuCtxCreate_v2)
NOT_SUPPORTED(cuCtxCreate_v3)
NOT_SUPPORTED(cuCtxCreate_v4)
NOT_SUPPORTED(cuCtxDestroy_v2)
NOT_SUPPORTED(cuMemAddressReserve)
NOT_SUPPORTED(cuMemAddressFree)
NOT_SUPPORTED(cuMemCreate)
NOT_SUPPORTED(cuMemRelease)
NOT_SUPPORTED(cuMemMap)
NOT_SUPPORTED(cuMemUnmap)
NOT_SUPPORTED(cuMemSetAccess)
NOT_SUPPORTED(cuMemGetAccess)
NOT_SUPPORTED(cuMemExportToShareableHandle)
NOT_SUPPORTED(cuMemImportFromShareableHandle)
NOT_SUPPORTED(cuMemGetAllocationGranularity)
NOT_SUPPORTED(cuMemGetAllocationPropertiesFromHandle)
NOT_SUPPORTED(cuMemRetainAllocationHandle)
NOT_SUPPORTED(cuMemGetHandleForAddressRange)
NOT_SUPPORTED(cuMulticastCreate)
NOT_SUPPORTED(cuMulticastAddDevice)
NOT_SUPPORTED(cuMulticastBindMem)
NOT_SUPPORTED(cuMulticastBindAddr)
NOT_SUPPORTED(cuMulticastUnbind)
NOT_SUPPORTED(cuMulticastGetGranularity)
NOT_SUPPORTED(cuStreamBatchMemOp_v2)
NOT_SUPPORTED(cuStreamWaitValue32_v2)
NOT_SUPPORTED(cuStreamWaitValue64_v2)
NOT_SUPPORTED(cuGraphAddKernelNode_v2)
NOT_SUPPORTED(cuGraphAddChildGraphNode)
