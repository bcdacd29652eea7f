// Collectives, with all types and operations, and with several sizes.
#include "cases.h"
#include "pattern.h"

namespace {

// Small, odd, more than a chunk of a channel, and more than a connection's buffer.
const size_t kCounts[] = {1, 7, 1000, 100003, 3000001};

const ncclRedOp_t kOperations[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};

std::string label(const char* function, const ElementType& type, size_t count, int op = -1) {
  return std::string(function) + " of " + std::to_string(count) + " " + type.name + ", operation " + std::to_string(op);
}

size_t allReduce(Member& member, const ElementType& type, size_t count, ncclRedOp_t op, bool isInPlace) {
  Buffer in(count * type.size), out(count * type.size);
  Buffer& result = isInPlace ? in : out;
  fill(in, type, member.rank, count);
  in.upload();
  NCCL(member.allReduce(in.device(), result.device(), count, type.type, op));
  member.synchronize();
  result.download();
  return wrong(result, type, count, 0, label("all-reduce", type, count, op), [&](size_t i) {
    return reduced(op, type, member.ranks, i);
  });
}

size_t reduceScatter(Member& member, const ElementType& type, size_t count, ncclRedOp_t op) {
  Buffer in(count * member.ranks * type.size), out(count * type.size);
  fill(in, type, member.rank, count * member.ranks);
  in.upload();
  NCCL(member.reduceScatter(in.device(), out.device(), count, type.type, op));
  member.synchronize();
  out.download();
  return wrong(out, type, count, 0, label("reduce-scatter", type, count, op), [&](size_t i) {
    return reduced(op, type, member.ranks, member.rank * count + i);
  });
}

size_t reduce(Member& member, const ElementType& type, size_t count, ncclRedOp_t op, int root) {
  Buffer in(count * type.size), out(count * type.size);
  fill(in, type, member.rank, count);
  in.upload();
  NCCL(member.reduce(in.device(), out.device(), count, type.type, op, root));
  member.synchronize();
  if (member.rank != root) return 0;
  out.download();
  return wrong(out, type, count, 0, label("reduce", type, count, op), [&](size_t i) {
    return reduced(op, type, member.ranks, i);
  });
}

size_t allGather(Member& member, const ElementType& type, size_t count, bool isInPlace) {
  Buffer in(count * type.size), out(count * member.ranks * type.size);
  fill(in, type, member.rank, count);
  fill(out, type, member.rank, count, 0, count * member.rank);
  in.upload();
  out.upload();
  const void* from = isInPlace ? out.device(member.rank * count * type.size) : in.device();
  NCCL(member.allGather(from, out.device(), count, type.type));
  member.synchronize();
  out.download();
  size_t bad = 0;
  for (int rank = 0; rank < member.ranks; rank++) {
    bad += wrong(out, type, count, rank * count, label("all-gather", type, count), [&](size_t i) {
      return elementOf(rank, i);
    });
  }
  return bad;
}

size_t broadcast(Member& member, const ElementType& type, size_t count, int root, bool isInPlace) {
  Buffer in(count * type.size), out(count * type.size);
  Buffer& result = isInPlace ? in : out;
  fill(in, type, member.rank, count);
  in.upload();
  if (isInPlace) {
    NCCL(member.bcast(in.device(), count, type.type, root));
  } else {
    NCCL(member.broadcast(in.device(), out.device(), count, type.type, root));
  }
  member.synchronize();
  result.download();
  return wrong(result, type, count, 0, label("broadcast", type, count), [&](size_t i) { return elementOf(root, i); });
}

const Case kAllReduce("allreduce", [](Member& world) {
  size_t bad = 0;
  const ElementType& type = floats();
  for (size_t count : kCounts) bad += allReduce(world, type, count, ncclSum, false);
  return bad + allReduce(world, type, 100003, ncclSum, true);
});

const Case kAllGather("allgather", [](Member& world) {
  size_t bad = 0;
  const ElementType& type = floats();
  for (size_t count : kCounts) bad += allGather(world, type, count, false);
  return bad + allGather(world, type, 100003, true);
});

const Case kReduceScatter("reducescatter", [](Member& world) {
  size_t bad = 0;
  for (size_t count : kCounts) bad += reduceScatter(world, floats(), count, ncclSum);
  return bad;
});

const Case kBroadcast("broadcast", [](Member& world) {
  size_t bad = 0;
  const ElementType& type = floats();
  for (size_t count : kCounts) bad += broadcast(world, type, count, static_cast<int>(count % world.ranks), false);
  for (int root = 0; root < world.ranks; root++) bad += broadcast(world, type, 1001, root, true);
  return bad;
});

const Case kReduce("reduce", [](Member& world) {
  size_t bad = 0;
  for (size_t count : kCounts) {
    bad += reduce(world, floats(), count, ncclSum, static_cast<int>(count % world.ranks));
  }
  return bad;
});

const Case kTypes("types", [](Member& world) {
  size_t bad = 0;
  int capability = 0;
  CUDA(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, 0));
  for (const ElementType& type : elementTypes()) {
    // NCCL accepts floats of 8 bits on newer devices only (HOST_NCCL_COMPUTE_CAPABILITY=90).
    if (!type.isInteger && type.size == 1 && capability < 9) continue;
    for (ncclRedOp_t op : kOperations) {
      bad += allReduce(world, type, 1003, op, false);
      bad += reduceScatter(world, type, 501, op);
      bad += reduce(world, type, 501, op, world.ranks - 1);
    }
    bad += allGather(world, type, 333, false);
    bad += broadcast(world, type, 333, 0, false);
  }
  return bad;
});

// A reduction that the user defines: each rank scales its input by two.
const Case kScaledSum("premulsum", [](Member& world) {
  size_t bad = 0;
  for (ncclDataType_t number : {ncclFloat32, ncclInt32, ncclFloat16}) {
    const ElementType& type = elementType(number);
    const size_t count = 1003;
    Buffer in(count * type.size), out(count * type.size), scale(16);
    fill(in, type, world.rank, count);
    in.upload();
    type.put(scale.host(), 0, 2);
    scale.upload();
    for (ncclScalarResidence_t residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
      ncclRedOp_t op;
      void* scalar = residence == ncclScalarDevice ? scale.device() : scale.host();
      NCCL(ncclRedOpCreatePreMulSum(&op, scalar, type.type, residence, world.communicator));
      NCCL(world.allReduce(in.device(), out.device(), count, type.type, op));
      NCCL(ncclRedOpDestroy(op, world.communicator));
      world.synchronize();
      out.download();
      bad += wrong(out, type, count, 0, "scaled sum", [&](size_t i) {
        return 2 * reduced(ncclSum, type, world.ranks, i);
      });
    }
  }
  return bad;
});

const Case kMany("many", [](Member& world) {
  const ElementType& type = floats();
  const size_t count = 1024;
  Buffer in(count * type.size), out(count * type.size);
  fill(in, type, world.rank, count);
  in.upload();
  for (int i = 0; i < 3000; i++) NCCL(world.allReduce(in.device(), out.device(), count, type.type, ncclSum));
  world.synchronize();
  out.download();
  return wrong(out, type, count, 0, "many", [&](size_t i) { return reduced(ncclSum, type, world.ranks, i); });
});

// Calls in a group become one launch, also with groups in groups.
const Case kGroup("group", [](Member& world) {
  const ElementType& type = floats();
  const size_t count = 1000, calls = 4;
  Buffer in(count * calls * type.size), out(count * calls * type.size);
  fill(in, type, world.rank, count * calls);
  in.upload();
  NCCL(world.groupStart());
  for (size_t i = 0; i < calls; i++) {
    if (i == 2) NCCL(world.groupStart());
    const size_t offset = i * count * type.size;
    NCCL(world.allReduce(in.device(offset), out.device(offset), count, type.type, ncclSum));
    if (i == 2) NCCL(world.groupEnd());
  }
  NCCL(world.groupEnd());
  world.synchronize();
  out.download();
  return wrong(out, type, count * calls, 0, "group", [&](size_t i) { return reduced(ncclSum, type, world.ranks, i); });
});

// Broadcasts of all roots in one group: an all-gather of different sizes, as PyTorch makes it.
const Case kGroupOfBroadcasts("broadcastgroup", [](Member& world) {
  const ElementType& type = floats();
  auto countOf = [](int root) { return size_t(1000) * (root + 1) + root; };
  auto offsetOf = [&](int root) {
    size_t offset = 0;
    for (int before = 0; before < root; before++) offset += countOf(before);
    return offset;
  };
  Buffer out(offsetOf(world.ranks) * type.size);
  fill(out, type, world.rank, countOf(world.rank), 0, offsetOf(world.rank));
  out.upload();
  NCCL(world.groupStart());
  for (int root = 0; root < world.ranks; root++) {
    void* place = out.device(offsetOf(root) * type.size);
    NCCL(world.broadcast(place, place, countOf(root), type.type, root));
  }
  NCCL(world.groupEnd());
  world.synchronize();
  out.download();
  size_t bad = 0;
  for (int root = 0; root < world.ranks; root++) {
    bad += wrong(out, type, countOf(root), offsetOf(root), "group of broadcasts", [&](size_t i) {
      return elementOf(root, i);
    });
  }
  return bad;
});

// Different collectives on two streams of one communicator, without a wait between them.
const Case kMixed("mixed", [](Member& world) {
  const ElementType& type = elementType(ncclInt32);
  const size_t count = 20001;
  Buffer in(count * type.size), sum(count * type.size), all(count * world.ranks * type.size);
  fill(in, type, world.rank, count);
  in.upload();
  cudaStream_t own = world.stream, other;
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (int i = 0; i < 20; i++) {
    world.stream = i % 2 == 0 ? own : other;
    NCCL(world.allReduce(in.device(), sum.device(), count, type.type, ncclSum));
    NCCL(world.allGather(in.device(), all.device(), count, type.type));
  }
  world.stream = own;
  CUDA(cudaStreamSynchronize(own));
  CUDA(cudaStreamSynchronize(other));
  CUDA(cudaStreamDestroy(other));
  sum.download();
  all.download();
  size_t bad = wrong(sum, type, count, 0, "mixed sum", [&](size_t i) {
    return reduced(ncclSum, type, world.ranks, i);
  });
  for (int rank = 0; rank < world.ranks; rank++) {
    bad += wrong(all, type, count, rank * count, "mixed gather", [&](size_t i) { return elementOf(rank, i); });
  }
  return bad;
});

}  // namespace
