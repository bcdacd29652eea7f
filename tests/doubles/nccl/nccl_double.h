// The part of NCCL's public interface that these programs need, written from its documentation, and the reports of its
// test double. Not NVIDIA's header.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow* ncclWindow_t;
typedef struct DoubleStream* cudaStream_t;
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef int ncclResult_t;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;

enum { ncclSuccess = 0, ncclSystemError = 2, ncclInvalidArgument = 4, ncclInvalidUsage = 5, ncclRemoteError = 6, ncclInProgress = 7 };
enum { ncclInt8 = 0, ncclInt32 = 2, ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 };
enum { ncclSum = 0, ncclMax = 2, ncclAvg = 4 };

typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
  int splitShare, trafficClass;
  const char* commName;
} ncclConfig_t;

typedef struct {
  int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;

ncclResult_t ncclGetVersion(int*);
ncclResult_t ncclGetUniqueId(ncclUniqueId*);
ncclResult_t ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int);
ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*);
ncclResult_t ncclCommInitRankScalable(ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*);
ncclResult_t ncclCommInitAll(ncclComm_t*, int, const int*);
ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*);
ncclResult_t ncclCommShrink(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int);
ncclResult_t ncclCommGrow(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
ncclResult_t ncclCommFinalize(ncclComm_t);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclCommRevoke(ncclComm_t, int);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
ncclResult_t ncclCommCount(ncclComm_t, int*);
ncclResult_t ncclCommUserRank(ncclComm_t, int*);
ncclResult_t ncclCommCuDevice(ncclComm_t, int*);
ncclResult_t ncclMemAlloc(void**, size_t);
ncclResult_t ncclMemFree(void*);
ncclResult_t ncclCommRegister(ncclComm_t, void*, size_t, void**);
ncclResult_t ncclCommDeregister(ncclComm_t, void*);
ncclResult_t ncclCommWindowRegister(ncclComm_t, void*, size_t, ncclWindow_t*, int);
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t);
ncclResult_t ncclCommSuspend(ncclComm_t, int);
ncclResult_t ncclCommResume(ncclComm_t);
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclBcast(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclAlltoAll(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclGather(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclScatter(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllReduceConfig(
    const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t, void*);
ncclResult_t ncclReduceConfig(
    const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t, void*);
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclPutSignal(
    const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned, ncclComm_t, cudaStream_t);
ncclResult_t ncclSignal(int, int, int, unsigned, ncclComm_t, cudaStream_t);
ncclResult_t ncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupSimulateEnd(void*);

// Functions that only RCCL has.
ncclResult_t ncclAllToAll(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllToAllv(
    const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllReduceWithBias(
    const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t, const void*);

// ---- reports of the double ----------------------------------------------------------------------------------------

// A stream of the double: the number of operations that reached it, and whether it is being captured into a graph.
struct DoubleStream {
  long launched;
  int capturing;
  int device;
};

// Arguments of the last call from outside. `bytes` sums all arguments as they arrived.
struct DoubleArrived {
  const char* function;
  uint64_t arguments[12];
  char id[128];
};
const struct DoubleArrived* ncclDoubleArrived(void);

// Sets rank and size of this caller's next split, which a real library gets from the other members.
void ncclDoubleNextChild(int rank, int size);
// Runs the captured calls of this stream once more.
void ncclDoubleReplay(cudaStream_t);
// Waits until the device has done all launched work, if the double has a device.
void ncclDoubleSynchronize(ncclComm_t);
// Sets the error that this communicator reports from now on.
void ncclDoubleFail(ncclComm_t, ncclResult_t);

#ifdef __cplusplus
}
#endif
