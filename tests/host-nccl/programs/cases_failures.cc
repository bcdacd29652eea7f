// Calls that fail, communicators that are aborted, and peers that die.
#include <csignal>

#include "cases.h"
#include "pattern.h"

namespace {

const Case kInvalid("invalid", [](Member& world) {
  Buffer data(1024);
  CHECK(world.allReduce(data.device(), data.device(), 9, ncclNumTypes, ncclSum) == ncclInvalidArgument);
  CHECK(world.broadcast(data.device(), data.device(), 9, ncclFloat32, world.ranks) == ncclInvalidArgument);
  CHECK(world.send(data.device(), 9, ncclFloat32, world.ranks) == ncclInvalidArgument);
  return size_t(0);
});

#if NCCL_VERSION_CODE >= 22200

// A group that only estimates its duration.
const Case kSimulate("simulate", [](Member& world) {
  Buffer data(1 << 20);
  NCCL(world.groupStart());
  NCCL(ncclAllReduce(data.device(), data.device(), 1 << 18, ncclFloat32, ncclSum, world.communicator, world.stream));
  ncclSimInfo_t estimate = NCCL_SIM_INFO_INITIALIZER;
  const ncclResult_t result = ncclGroupSimulateEnd(&estimate);
  world.process.report.groupEnd();
  world.process.report.call({"ncclGroupSimulateEnd", "", ""}, result);
  NCCL(result);
  CHECK(estimate.estimatedTime > 0);
  return size_t(0);
});

#endif

void abortOf(Member& member) {
  member.process.report.call({"ncclCommAbort", "", member.name}, ncclCommAbort(member.communicator));
  member.communicator = nullptr;
}

const Case kAbort("abort", [](Member& world) {
  Member other(world.process, "to abort", world.stream);
  other.create();
  abortOf(other);
  return size_t(0);
});

// Rank 0 never joins the collective. All others wait in it until they abort.
const Case kHang("hang", [](Member& world) {
  Member other(world.process, "hanging", world.stream);
  other.create();
  Buffer data(1 << 20);
  if (world.rank != 0) {
    NCCL(other.allReduce(data.device(), data.device(), 1 << 18, ncclFloat32, ncclSum));
    usleep(200000);
    CHECK(cudaStreamQuery(other.stream) == cudaErrorNotReady);
  }
  world.process.meet("hang");
  abortOf(other);
  CUDA(cudaStreamSynchronize(other.stream));
  return size_t(0);
});

#if NCCL_VERSION_CODE >= 22809

// As in `hang`, but the communicator still accepts calls that manage it.
const Case kRevoke("revoke", [](Member& world) {
  Member other(world.process, "revoked", world.stream);
  other.create();
  Buffer data(1 << 20);
  if (world.rank != 0) {
    NCCL(other.allReduce(data.device(), data.device(), 1 << 18, ncclFloat32, ncclSum));
    usleep(100000);
  }
  world.process.meet("revoke");
  const ncclResult_t result = ncclCommRevoke(other.communicator, NCCL_REVOKE_DEFAULT);
  world.process.report.call({"ncclCommRevoke", "", other.name}, result);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  world.process.report.call({"ncclCommGetAsyncError", "", other.name}, other.settle());
  CUDA(cudaStreamSynchronize(other.stream));
  other.destroy();
  return size_t(0);
});

#endif

// The last rank dies while the others wait for it. They notice within seconds if the transport is a network.
const Case kDie("die", [](Member& world) {
  Member other(world.process, "dying", world.stream);
  other.create();
  Buffer data(1 << 20);
  if (world.rank == world.ranks - 1) std::raise(SIGKILL);
  NCCL(other.allReduce(data.device(), data.device(), 1 << 18, ncclFloat32, ncclSum));
  ncclResult_t state = ncclSuccess;
  for (int i = 0; i < 300 && (state == ncclSuccess || state == ncclInProgress); i++) {
    usleep(10000);
    NCCL(ncclCommGetAsyncError(other.communicator, &state));
  }
  world.process.report.call({"ncclCommGetAsyncError", "", other.name}, state);
  abortOf(other);
  abortOf(world);
  return size_t(0);
});

}  // namespace
