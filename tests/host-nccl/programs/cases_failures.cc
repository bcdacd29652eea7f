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

// Calls that NCCL refuses, each for another reason. The communicator works afterwards.
const Case kRefused("refused", [](Member& world) {
  constexpr size_t kCount = 1000;
  Buffer in(kCount * 4), out(kCount * 4);
  fill(in, floats(), world.rank, kCount);
  in.upload();
  auto reported = [&](const char* function, ncclResult_t result) {
    world.process.report.call({function, "", world.name}, result);
  };
  Member nobody(world.process, "nobody", world.stream);
  nobody.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum);
  nobody.send(in.device(), kCount, ncclFloat32, 0);
  world.allReduce(in.device(), out.device(), kCount, ncclFloat32, static_cast<ncclRedOp_t>(ncclNumOps + 3));
  world.reduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum, -1);
  world.receive(out.device(), kCount, ncclFloat32, -1);
  // One call of a group is refused, so NCCL refuses the group.
  NCCL(world.groupStart());
  world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum);
  world.broadcast(in.device(), out.device(), kCount, ncclFloat32, world.ranks);
  reported("ncclGroupEnd", world.groupEnd());
  reported("ncclGroupEnd", ncclGroupEnd());
  reported("ncclGetUniqueId", ncclGetUniqueId(nullptr));
  ncclUniqueId id = {};
  ncclComm_t none = nullptr;
  reported("ncclCommInitRank", ncclCommInitRank(&none, world.ranks, id, world.ranks));
  const int twice[] = {0, 0};
  ncclComm_t pair[2] = {};
  reported("ncclCommInitAll", ncclCommInitAll(pair, 2, twice));
  reported("ncclCommSplit", ncclCommSplit(nullptr, 0, 0, &none, nullptr));
  reported("ncclRedOpDestroy", ncclRedOpDestroy(ncclSum, world.communicator));
  int number;
  reported("ncclCommCount", ncclCommCount(nullptr, &number));
  ncclResult_t state;
  reported("ncclCommGetAsyncError", ncclCommGetAsyncError(nullptr, &state));
  reported("ncclCommFinalize", ncclCommFinalize(nullptr));
  reported("ncclCommDestroy", ncclCommDestroy(nullptr));
  reported("ncclCommAbort", ncclCommAbort(nullptr));
  NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum));
  world.synchronize();
  out.download();
  return wrong(out, floats(), kCount, 0, "after refused calls", [&](size_t i) {
    return reduced(ncclSum, floats(), world.ranks, i);
  });
});

// NCCL refuses a group of rank 0. The other ranks do not make it, and the collectives of all go on.
const Case kOneRefused("onerefused", [](Member& world) {
  constexpr size_t kCount = 1000, kAfter = 3;
  Buffer in(kCount * 4), out(kCount * 4);
  fill(in, floats(), world.rank, kCount);
  in.upload();
  if (world.rank == 0) {
    NCCL(world.groupStart());
    NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum));
    // Not a message: NCCL would leave the connection to its peer unfinished.
    CHECK(world.broadcast(in.device(), out.device(), kCount, ncclFloat32, world.ranks) == ncclInvalidArgument);
    CHECK(world.groupEnd() == ncclInvalidArgument);
  }
  for (size_t i = 0; i < kAfter; i++) {
    NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum));
    if (world.rank == 0) NCCL(world.send(in.device(), kCount, ncclFloat32, 1));
    if (world.rank == 1) NCCL(world.receive(out.device(), kCount, ncclFloat32, 0));
    world.synchronize();
  }
  NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum));
  world.synchronize();
  out.download();
  return wrong(out, floats(), kCount, 0, "after a refused group", [&](size_t i) {
    return reduced(ncclSum, floats(), world.ranks, i);
  });
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
