// Sends, receives, and collectives that consist of them.
#include "cases.h"
#include "messages.h"
#include "pattern.h"

namespace {

size_t ring(Member& world, size_t count) {
  const int next = (world.rank + 1) % world.ranks, previous = (world.rank + world.ranks - 1) % world.ranks;
  Buffer in(count * 4), out(count * 4);
  fill(in, floats(), world.rank, count);
  in.upload();
  for (int i = 0; i < 3; i++) {
    NCCL(world.groupStart());
    NCCL(world.send(in.device(), count, ncclFloat32, next));
    NCCL(world.receive(out.device(), count, ncclFloat32, previous));
    NCCL(world.groupEnd());
  }
  world.synchronize();
  out.download();
  return wrong(out, floats(), count, 0, "ring of messages", [&](size_t i) { return elementOf(previous, i); });
}

const Case kRing("ring", [](Member& world) {
  return ring(world, 1) + ring(world, 1001) + ring(world, 100003) + ring(world, 3000001);
});

// One message, outside of a group.
const Case kPair("pair", [](Member& world) {
  const size_t count = 5003;
  Buffer data(count * 4);
  fill(data, floats(), world.rank, count);
  data.upload();
  if (world.rank == 0) NCCL(world.receive(data.device(), count, ncclFloat32, 1));
  if (world.rank == 1) NCCL(world.send(data.device(), count, ncclFloat32, 0));
  world.synchronize();
  data.download();
  const int from = world.rank == 0 ? 1 : world.rank;
  return wrong(data, floats(), count, 0, "pair", [&](size_t i) { return elementOf(from, i); });
});

const Case kAllToAll("alltoall", [](Member& world) {
  return exchange(world, 1, true, 1) + exchange(world, 1001, true, 3) + exchange(world, 100003, true, 1);
});

const Case kNoSelf("alltoallnoself", [](Member& world) {
  return exchange(world, 1001, false, 3) + exchange(world, 100003, false, 1);
});

// Messages and a collective in one group.
const Case kMixedGroup("mixedgroup", [](Member& world) {
  const size_t count = 4001;
  const int next = (world.rank + 1) % world.ranks, previous = (world.rank + world.ranks - 1) % world.ranks;
  Buffer in(count * 4), message(count * 4), sum(count * 4);
  fill(in, floats(), world.rank, count);
  in.upload();
  NCCL(world.groupStart());
  NCCL(world.allReduce(in.device(), sum.device(), count, ncclFloat32, ncclSum));
  NCCL(world.send(in.device(), count, ncclFloat32, next));
  NCCL(world.groupStart());
  NCCL(world.receive(message.device(), count, ncclFloat32, previous));
  NCCL(world.groupEnd());
  NCCL(world.groupEnd());
  world.synchronize();
  message.download();
  sum.download();
  const size_t bad =
      wrong(message, floats(), count, 0, "message of a group", [&](size_t i) { return elementOf(previous, i); });
  return bad + wrong(sum, floats(), count, 0, "sum of a group", [&](size_t i) {
           return reduced(ncclSum, floats(), world.ranks, i);
         });
});

#if NCCL_VERSION_CODE >= 22800

const Case kAllToAllCall("alltoallcall", [](Member& world) {
  size_t bad = 0;
  for (size_t count : {size_t(1), size_t(1001), size_t(50003)}) {
    Exchange exchange(world, count);
    NCCL(world.allToAll(exchange.in.device(), exchange.out.device(), count, ncclFloat32));
    world.synchronize();
    bad += exchange.wrong(true);
  }
  return bad;
});

const Case kGather("gather", [](Member& world) {
  const size_t count = 5003;
  const int root = world.ranks - 1;
  Buffer in(count * 4), out(count * world.ranks * 4);
  fill(in, floats(), world.rank, count);
  in.upload();
  NCCL(world.gather(in.device(), out.device(), count, ncclFloat32, root));
  world.synchronize();
  if (world.rank != root) return size_t(0);
  out.download();
  size_t bad = 0;
  for (int rank = 0; rank < world.ranks; rank++) {
    bad += wrong(out, floats(), count, rank * count, "gather", [&](size_t i) { return elementOf(rank, i); });
  }
  return bad;
});

const Case kScatter("scatter", [](Member& world) {
  const size_t count = 5003;
  Buffer in(count * world.ranks * 4), out(count * 4);
  fill(in, floats(), world.rank, count * world.ranks);
  in.upload();
  NCCL(world.scatter(in.device(), out.device(), count, ncclFloat32, 0));
  world.synchronize();
  out.download();
  return wrong(out, floats(), count, 0, "scatter", [&](size_t i) { return elementOf(0, world.rank * count + i); });
});

#endif

}  // namespace
