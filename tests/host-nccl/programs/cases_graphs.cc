// Capture of calls to graphs, and replays.
#include "cases.h"
#include "graph.h"
#include "messages.h"
#include "pattern.h"

namespace {

constexpr int kReplays = 4;

// Each replay has other data.
const Case kGraph("graph", [](Member& world) {
  const size_t count = 20001;
  Buffer in(count * 4), out(count * 4);
  const Graph graph(world, [&] {
    for (int i = 0; i < 3; i++) NCCL(world.allReduce(in.device(), out.device(), count, ncclFloat32, ncclSum));
  });
  size_t bad = 0;
  for (int replay = 0; replay < kReplays; replay++) {
    fill(in, floats(), world.rank, count, replay);
    in.upload();
    graph.launch();
    world.synchronize();
    out.download();
    bad += wrong(out, floats(), count, 0, "graph", [&](size_t i) {
      return reduced(ncclSum, floats(), world.ranks, replay + i);
    });
  }
  return bad;
});

// The result of one call is the input of the next: the order of the nodes matters.
const Case kGraphChain("graphchain", [](Member& world) {
  const size_t count = 5003;
  Buffer in(count * 4), part(count * 4), out(count * world.ranks * 4);
  fill(in, floats(), world.rank, count);
  in.upload();
  const Graph graph(world, [&] {
    NCCL(world.allReduce(in.device(), part.device(), count, ncclFloat32, ncclSum));
    NCCL(world.allGather(part.device(), out.device(), count, ncclFloat32));
    NCCL(world.broadcast(out.device(), out.device(), count * world.ranks, ncclFloat32, 0));
  });
  for (int replay = 0; replay < kReplays; replay++) graph.launch();
  world.synchronize();
  out.download();
  return wrong(out, floats(), count * world.ranks, 0, "chain in a graph", [&](size_t i) {
    return reduced(ncclSum, floats(), world.ranks, i % count);
  });
});

const Case kGraphGroup("graphgroup", [](Member& world) {
  const size_t count = 1000, calls = 3;
  Buffer in(count * calls * 4), out(count * calls * 4);
  fill(in, floats(), world.rank, count * calls);
  in.upload();
  const Graph graph(world, [&] {
    NCCL(world.groupStart());
    for (size_t i = 0; i < calls; i++) {
      const size_t offset = i * count * 4;
      NCCL(world.allReduce(in.device(offset), out.device(offset), count, ncclFloat32, ncclSum));
    }
    NCCL(world.groupEnd());
  });
  for (int replay = 0; replay < kReplays; replay++) graph.launch();
  world.synchronize();
  out.download();
  return wrong(out, floats(), count * calls, 0, "group in a graph", [&](size_t i) {
    return reduced(ncclSum, floats(), world.ranks, i);
  });
});

const Case kGraphMessages("graphp2p", [](Member& world) {
  Exchange all(world, 2003);
  const Graph graph(world, [&] { all.group(true); });
  for (int replay = 0; replay < kReplays; replay++) graph.launch();
  world.synchronize();
  return all.wrong(true);
});

// Calls between replays, and a branch of the capture on a second stream.
const Case kGraphMixed("graphmixed", [](Member& world) {
  const size_t count = 3001;
  Buffer in(count * 4), out(count * 4), copy(count * 4), direct(count * 4);
  fill(in, floats(), world.rank, count);
  in.upload();
  cudaStream_t branch;
  cudaEvent_t fork, join;
  CUDA(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
  CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  const Graph graph(world, [&] {
    CUDA(cudaEventRecord(fork, world.stream));
    CUDA(cudaStreamWaitEvent(branch, fork, 0));
    CUDA(cudaMemcpyAsync(copy.device(), in.device(), count * 4, cudaMemcpyDeviceToDevice, branch));
    NCCL(world.allReduce(in.device(), out.device(), count, ncclFloat32, ncclSum));
    CUDA(cudaEventRecord(join, branch));
    CUDA(cudaStreamWaitEvent(world.stream, join, 0));
  });
  for (int replay = 0; replay < kReplays; replay++) {
    graph.launch();
    NCCL(world.allReduce(in.device(), direct.device(), count, ncclFloat32, ncclMax));
  }
  world.synchronize();
  CUDA(cudaEventDestroy(fork));
  CUDA(cudaEventDestroy(join));
  CUDA(cudaStreamDestroy(branch));
  out.download();
  copy.download();
  direct.download();
  size_t bad = wrong(copy, floats(), count, 0, "branch", [&](size_t i) { return elementOf(world.rank, i); });
  bad += wrong(out, floats(), count, 0, "replay", [&](size_t i) { return reduced(ncclSum, floats(), world.ranks, i); });
  return bad + wrong(direct, floats(), count, 0, "call between replays", [&](size_t i) {
           return reduced(ncclMax, floats(), world.ranks, i);
         });
});

}  // namespace
