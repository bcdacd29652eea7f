// Rank 1 is late by 50 ms at each of ten operations. LATE_US and LATE_STEPS change both.
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
void steps(Member& world, Function function, bool hasLateRank = true) {
  for (int i = 0; i < setting("LATE_STEPS", 10); i++) {
    if (hasLateRank && world.rank == 1) usleep(setting("LATE_US", 50000));
    function();
    world.synchronize();
  }
}

// An all-reduce with the same data in each step.
struct Sum {
  explicit Sum(Member& world) : world(world), in(kCount * 4), out(kCount * 4) {
    fill(in, floats(), world.rank, kCount);
    in.upload();
  }

  void call() { NCCL(world.allReduce(in.device(), out.device(), kCount, ncclFloat32, ncclSum)); }

  size_t wrong() {
    out.download();
    return ::wrong(out, floats(), kCount, 0, "late sum", [&](size_t i) {
      return reduced(ncclSum, floats(), world.ranks, i);
    });
  }

  Member& world;
  Buffer in, out;
};

const Case kLate("late", [](Member& world) {
  Sum sum(world);
  steps(world, [&] { sum.call(); });
  return sum.wrong();
});

const Case kLateGraph("lategraph", [](Member& world) {
  Sum sum(world);
  const Graph graph(world, [&] { sum.call(); });
  steps(world, [&] { graph.launch(); });
  return sum.wrong();
});

// No rank is late in the program. HOST_NCCL_START_DELAY_US can delay a device's kernels.
const Case kEven("even", [](Member& world) {
  Sum sum(world);
  steps(world, [&] { sum.call(); }, false);
  return sum.wrong();
});

const Case kLateBroadcast("latebroadcast", [](Member& world) {
  Buffer data(kCount * 4);
  fill(data, floats(), world.rank, kCount);
  data.upload();
  steps(world, [&] { NCCL(world.broadcast(data.device(), data.device(), kCount, ncclFloat32, 0)); });
  data.download();
  return wrong(data, floats(), kCount, 0, "late broadcast", [&](size_t i) { return elementOf(0, i); });
});

const Case kLateMessage("latep2p", [](Member& world) {
  Buffer data(kCount * 4);
  fill(data, floats(), world.rank, kCount);
  data.upload();
  steps(world, [&] {
    if (world.rank == 0) NCCL(world.receive(data.device(), kCount, ncclFloat32, 1));
    if (world.rank == 1) NCCL(world.send(data.device(), kCount, ncclFloat32, 0));
  });
  data.download();
  const int from = world.rank == 0 ? 1 : world.rank;
  return wrong(data, floats(), kCount, 0, "late message", [&](size_t i) { return elementOf(from, i); });
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

}  // namespace
