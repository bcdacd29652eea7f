// Communicators made in every way.
#include <thread>

#include "cases.h"
#include "pattern.h"

namespace {

// An all-reduce that shows that a communicator works.
size_t sum(Member& member, size_t count = 1001) {
  const ElementType& type = floats();
  Buffer in(count * 4), out(count * 4);
  fill(in, type, member.rank, count);
  in.upload();
  const ncclResult_t result = member.allReduce(in.device(), out.device(), count, ncclFloat32, ncclSum);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  // A non-blocking communicator may launch later.
  NCCL(member.settle());
  member.synchronize();
  out.download();
  return wrong(out, type, count, 0, "sum in " + member.name, [&](size_t i) {
    return reduced(ncclSum, type, member.ranks, i);
  });
}

const Case kSplit("split", [](Member& world) {
  size_t bad = 0;
  for (int round = 0; round < 2; round++) {
    const std::string name = std::string(world.rank % 2 ? "odd" : "even") + (round ? " again" : "");
    Member half(world.process, name, world.stream);
    // In the second round, the order is reversed.
    half.split(world, world.rank % 2, round ? -world.rank : world.rank);
    bad += sum(half);
    half.destroy();
  }
  return bad;
});

// A communicator of one rank: NCCL copies, or scales with a kernel of its own.
const Case kOneRank("onerank", [](Member& world) {
  Member alone(world.process, "alone " + std::to_string(world.rank), world.stream);
  alone.split(world, world.rank, 0);
  size_t bad = sum(alone);
  const ElementType& type = floats();
  const size_t count = 1003;
  Buffer in(count * 4), out(count * 4);
  fill(in, type, 0, count);
  in.upload();
  float factor = 2;
  ncclRedOp_t scaled;
  NCCL(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat32, ncclScalarHostImmediate, alone.communicator));
  NCCL(alone.allReduce(in.device(), out.device(), count, ncclFloat32, scaled));
  NCCL(ncclRedOpDestroy(scaled, alone.communicator));
  alone.synchronize();
  out.download();
  bad += wrong(out, type, count, 0, "scaled by one rank", [&](size_t i) { return 2 * elementOf(0, i); });
  // The only rank can send to itself only.
  NCCL(alone.groupStart());
  NCCL(alone.send(in.device(), count, ncclFloat32, 0));
  NCCL(alone.receive(out.device(), count, ncclFloat32, 0));
  NCCL(alone.groupEnd());
  alone.synchronize();
  out.download();
  bad += wrong(out, type, count, 0, "sent to oneself", [&](size_t i) { return elementOf(0, i); });
  alone.destroy();
  return bad;
});

// Rank 0 makes the call and gets no communicator.
const Case kNoColor("nocolor", [](Member& world) {
  Member rest(world.process, "rest", world.stream);
  rest.split(world, world.rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, world.rank);
  CHECK((rest.communicator == nullptr) == (world.rank == 0));
  if (world.rank == 0) return size_t(0);
  const size_t bad = sum(rest);
  rest.destroy();
  return bad;
});

// A split within a group, as PyTorch makes it.
const Case kSplitGroup("splitgroup", [](Member& world) {
  Member half(world.process, world.rank % 2 ? "odd of a group" : "even of a group", world.stream);
  ncclConfig_t config = configured(half.name);
  NCCL(world.groupStart());
  const int color = world.rank % 2;
  const ncclResult_t result = ncclCommSplit(world.communicator, color, world.rank, &half.communicator, &config);
  NCCL(world.groupEnd());
  half.adopt("ncclCommSplit", result);
  const size_t bad = sum(half);
  half.destroy();
  return bad;
});

// The oldest way, without a configuration.
const Case kInitRank("initrank", [](Member& world) {
  Member plain(world.process, "plain", world.stream);
  const ncclUniqueId id = world.process.share(plain.name);
  const ncclResult_t result = ncclCommInitRank(&plain.communicator, world.ranks, id, world.rank);
  plain.adopt("ncclCommInitRank", result);
  NCCL(result);
  const size_t bad = sum(plain);
  plain.destroy();
  return bad;
});

#if NCCL_VERSION_CODE >= 22300

// Several ids. A rank serves each of them.
const Case kScalable("scalable", [](Member& world) {
  Member scalable(world.process, "scalable", world.stream);
  ncclUniqueId ids[] = {world.process.share("scalable.0"), world.process.share("scalable.1")};
  ncclConfig_t config = configured(scalable.name);
  const ncclResult_t result =
      ncclCommInitRankScalable(&scalable.communicator, world.ranks, world.rank, 2, ids, &config);
  scalable.adopt("ncclCommInitRankScalable", result);
  NCCL(result);
  const size_t bad = sum(scalable);
  scalable.destroy();
  return bad;
});

#endif

#if NCCL_VERSION_CODE >= 23000

// All ranks but the last have a communicator. The last one joins it.
const Case kGrow("grow", [](Member& world) {
  const int last = world.ranks - 1;
  Member few(world.process, "without the last", world.stream), all(world.process, "grown", world.stream);
  few.split(world, world.rank == last ? NCCL_SPLIT_NOCOLOR : 0, world.rank);
  ncclConfig_t config = configured(all.name);
  ncclUniqueId id;
  if (world.rank == 0) {
    NCCL(ncclCommGetUniqueId(few.communicator, &id));
    world.process.publish("grow", id);
  } else if (world.rank == last) {
    id = world.process.published("grow");
  }
  const ncclUniqueId* given = world.rank == 0 || world.rank == last ? &id : nullptr;
  const int rank = world.rank == last ? last : -1;
  const ncclResult_t result =
      ncclCommGrow(few.communicator, world.ranks, given, rank, &all.communicator, &config);
  all.adopt("ncclCommGrow", result);
  NCCL(result);
  const size_t bad = sum(all);
  all.destroy();
  if (few.communicator != nullptr) few.destroy();
  return bad;
});

#endif

// A communicator that does not block.
const Case kSecond("second", [](Member& world) {
  Member second(world.process, "second", world.stream);
  second.create(false);
  const size_t bad = sum(second) + sum(second, 100003);
  const ncclResult_t result = second.finalize();
  CHECK(result == ncclSuccess || result == ncclInProgress);
  NCCL(second.settle());
  second.destroy();
  return bad;
});

const Case kFinalize("finalize", [](Member& world) {
  Member other(world.process, "to finalize", world.stream);
  other.create();
  const size_t bad = sum(other);
  NCCL(other.finalize());
  other.destroy();
  return bad;
});

#if NCCL_VERSION_CODE >= 22700

const Case kShrink("shrink", [](Member& world) {
  if (world.ranks < 3) return size_t(0);
  Member fewer(world.process, "fewer", world.stream);
  int left[] = {0};
  ncclConfig_t config = configured(fewer.name);
  // The rank that leaves does not call.
  if (world.rank == 0) return size_t(0);
  const ncclResult_t result =
      ncclCommShrink(world.communicator, left, 1, &fewer.communicator, &config, NCCL_SHRINK_DEFAULT);
  fewer.adopt("ncclCommShrink", result);
  NCCL(result);
  const size_t bad = sum(fewer);
  fewer.destroy();
  return bad;
});

#endif

// One process, and one call that creates a communicator per device.
const Case kInitAll("initall", [](Member& world) {
  constexpr int kDevices = 4;
  ncclComm_t communicators[kDevices];
  if (world.rank != 0) return size_t(0);
  const ncclResult_t result = ncclCommInitAll(communicators, kDevices, nullptr);
  NCCL(result);
  std::vector<Member> members;
  for (int device = 0; device < kDevices; device++) {
    CUDA(cudaSetDevice(device));
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    members.emplace_back(world.process, "all devices", stream);
    members.back().communicator = communicators[device];
    members.back().adopt("ncclCommInitAll", result);
  }
  const size_t count = 20001;
  const ElementType& type = floats();
  std::vector<std::unique_ptr<Buffer>> in, out;
  for (Member& member : members) {
    CUDA(cudaSetDevice(member.rank));
    in.push_back(std::make_unique<Buffer>(count * 4));
    out.push_back(std::make_unique<Buffer>(count * 4));
    fill(*in.back(), type, member.rank, count);
    in.back()->upload();
  }
  // One thread that calls for all devices needs a group.
  NCCL(world.groupStart());
  for (Member& member : members) {
    NCCL(member.allReduce(in[member.rank]->device(), out[member.rank]->device(), count, ncclFloat32, ncclSum));
  }
  NCCL(world.groupEnd());
  size_t bad = 0;
  for (Member& member : members) {
    CUDA(cudaSetDevice(member.rank));
    member.synchronize();
    out[member.rank]->download();
    bad += wrong(*out[member.rank], type, count, 0, "all devices", [&](size_t i) {
      return reduced(ncclSum, type, member.ranks, i);
    });
  }
  // A thread per device needs none.
  std::vector<std::thread> threads;
  std::vector<size_t> bads(kDevices);
  for (Member& member : members) {
    threads.emplace_back([&] {
      CUDA(cudaSetDevice(member.rank));
      bads[member.rank] = sum(member, 3001);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Member& member : members) {
    CUDA(cudaSetDevice(member.rank));
    member.destroy();
    CUDA(cudaStreamDestroy(member.stream));
    bad += bads[member.rank];
  }
  CUDA(cudaSetDevice(deviceOf(world.process.rank)));
  return bad;
});

// Two ranks in each process, each with a thread and a device of its own.
const Case kThreads("threads", [](Member& world) {
  const ncclUniqueId id = world.process.share("threads");
  std::vector<std::thread> threads;
  std::vector<size_t> bads(2);
  for (int i = 0; i < 2; i++) {
    threads.emplace_back([&, i] {
      const int rank = 2 * world.process.rank + i;
      CUDA(cudaSetDevice(deviceOf(rank)));
      cudaStream_t stream;
      CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      Member member(world.process, "threads", stream);
      ncclConfig_t config = configured(member.name);
      const ncclResult_t result =
          ncclCommInitRankConfig(&member.communicator, 2 * world.process.size, id, rank, &config);
      member.adopt("ncclCommInitRankConfig", result);
      NCCL(result);
      bads[i] = sum(member) + sum(member, 100003);
      member.destroy();
      CUDA(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return bads[0] + bads[1];
});

#if NCCL_VERSION_CODE >= 21900

// Registered memory that NCCL has allocated.
const Case kRegister("register", [](Member& world) {
  const size_t bytes = 1 << 20, count = 1001;
  void* memory;
  void* handle = nullptr;
  NCCL(ncclMemAlloc(&memory, bytes));
  NCCL(ncclCommRegister(world.communicator, memory, bytes, &handle));
  const ElementType& type = floats();
  Buffer in(count * 4), out(count * 4);
  fill(in, type, world.rank, count);
  CUDA(cudaMemcpy(memory, in.host(), count * 4, cudaMemcpyHostToDevice));
  NCCL(world.allReduce(memory, out.device(), count, ncclFloat32, ncclSum));
  world.synchronize();
  out.download();
  if (handle != nullptr) NCCL(ncclCommDeregister(world.communicator, handle));
  NCCL(ncclMemFree(memory));
  return wrong(out, type, count, 0, "registered", [&](size_t i) { return reduced(ncclSum, type, world.ranks, i); });
});

#endif

#if NCCL_VERSION_CODE >= 22700

// Windows need virtual memory management. The stand-in driver has none, so NCCL returns no window.
const Case kWindow("window", [](Member& world) {
  const size_t bytes = 1 << 20;
  void* memory;
  ncclWindow_t window = nullptr;
  NCCL(ncclMemAlloc(&memory, bytes));
  const ncclResult_t result =
      ncclCommWindowRegister(world.communicator, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC);
  world.process.report.call({"ncclCommWindowRegister", "", world.name}, result);
  if (result == ncclSuccess && window != nullptr) NCCL(ncclCommWindowDeregister(world.communicator, window));
  NCCL(ncclMemFree(memory));
  return sum(world);
});

#endif

}  // namespace
