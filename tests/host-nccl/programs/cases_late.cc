// A rank that is late by 50 ms at each of ten operations: rank 1. LATE_US and LATE_STEPS change both.
#include "cases.h"
#include "graph.h"
#include "messages.h"
#include "pattern.h"

namespace {

constexpr size_t kCount = 1 << 18;

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Calls the function once per step.
template <typename Function>
void steps(Member& world, Function function) {
  for (int i = 0; i < setting("LATE_STEPS", 10); i++) {
    if (world.rank == 1) usleep(setting("LATE_US", 50000));
    function();
    world.synchronize();
  }
}

const Case kLate("late", [](Member& world) {
  Buffer in(kCount * 4), out(kCount * 4);
  const ElementType& type = elementType(ncclFloat32);
  fill(in, type, world.rank, kCount);
  in.upload();
  steps(world, [&] { NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum)); });
  out.download();
  return wrong(out, type, kCount, 0, "late", [&](size_t i) { return reduced(ncclSum, type, world.ranks, i); });
});

const Case kLateBroadcast("latebroadcast", [](Member& world) {
  Buffer data(kCount * 4);
  const ElementType& type = elementType(ncclFloat32);
  fill(data, type, world.rank, kCount);
  data.upload();
  steps(world, [&] { NCCL(world.broadcast(data.device(), data.device(), kCount, ncclFloat32, 0)); });
  data.download();
  return wrong(data, type, kCount, 0, "late", [&](size_t i) { return elementOf(0, i); });
});

const Case kLateMessage("latep2p", [](Member& world) {
  Buffer data(kCount * 4);
  const ElementType& type = elementType(ncclFloat32);
  fill(data, type, world.rank, kCount);
  data.upload();
  steps(world, [&] {
    if (world.rank == 0) NCCL(world.receive(data.device(), kCount, ncclFloat32, 1));
    if (world.rank == 1) NCCL(world.send(data.device(), kCount, ncclFloat32, 0));
  });
  data.download();
  const int from = world.rank == 0 ? 1 : world.rank;
  return wrong(data, type, kCount, 0, "late", [&](size_t i) { return elementOf(from, i); });
});

const Case kLateAllToAll("latea2a", [](Member& world) {
  Exchange all(world, kCount);
  steps(world, [&] { all.group(true); });
  return all.wrong(true);
});

const Case kLateNoSelf("latenoself", [](Member& world) {
  Exchange all(world, kCount);
  steps(world, [&] { all.group(false); });
  return all.wrong(false);
});

const Case kLateGraph("lategraph", [](Member& world) {
  Buffer in(kCount * 4), out(kCount * 4);
  const ElementType& type = elementType(ncclFloat32);
  fill(in, type, world.rank, kCount);
  in.upload();
  const Graph graph(world, [&] { NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum)); });
  steps(world, [&] { graph.launch(); });
  out.download();
  return wrong(out, type, kCount, 0, "late", [&](size_t i) { return reduced(ncclSum, type, world.ranks, i); });
});

// Nobody is late in the program. A test delays a device's kernels by HOST_NCCL_START_DELAY_US.
const Case kEven("even", [](Member& world) {
  Buffer in(kCount * 4), out(kCount * 4);
  const ElementType& type = elementType(ncclFloat32);
  fill(in, type, world.rank, kCount);
  in.upload();
  for (int i = 0; i < setting("LATE_STEPS", 10); i++) {
    NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum));
    world.synchronize();
  }
  out.download();
  return wrong(out, type, kCount, 0, "even", [&](size_t i) { return reduced(ncclSum, type, world.ranks, i); });
});

}  // namespace
