// Makes every NCCL call at least once on each rank, with different sizes, on communicators made in every way. The
// recording must equal the program's report. Also checks that each argument arrives at the library unchanged.
//   nccl_all RANK SIZE STORE
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nccl_rank.h"
#include "truth.h"

// Checks the arguments that arrived in the last call.
template <typename... T>
static void arrived(const char* function, T... arguments) {
  const DoubleArrived* last = ncclDoubleArrived();
  const uint64_t wanted[] = {(uint64_t)arguments...};
  if (std::strcmp(last->function, function) != 0) {
    std::fprintf(stderr, "%s arrived instead of %s\n", last->function, function);
    std::exit(3);
  }
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (last->arguments[i] != wanted[i]) {
      std::fprintf(stderr, "%s: argument %zu arrived as %lx, not %lx\n", function, i, last->arguments[i], wanted[i]);
      std::exit(3);
    }
  }
}

static ncclConfig_t named(const char* name) {
  ncclConfig_t config = {};
  config.size = sizeof config;
  config.magic = 0xcafebeef;
  config.version = 22800;
  config.blocking = 1;
  config.commName = name;
  return config;
}

int main(int argc, char** argv) {
  const NcclRank self(argc, argv);
  const int rank = self.rank, size = self.size;
  Truth truth(rank);
  DoubleStream theStream = {};
  cudaStream_t stream = &theStream;
  static char send[1 << 16], receive[1 << 16];
  const bool late = std::getenv("NCCL_DOUBLE_LATE") != nullptr;

  // The id is passed by value on the stack and must arrive complete.
  const ncclUniqueId id = self.share("world");
  ncclComm_t world = nullptr;
  ncclConfig_t config = named("world");
  NCCL(ncclGroupStart());
  CHECK(ncclCommInitRankConfig(&world, size, id, rank, &config) == ncclSuccess);
  arrived("CommInitRankConfig", &world, size, rank, &config);
  CHECK(std::memcmp(ncclDoubleArrived()->id, &id, sizeof id) == 0);
  CHECK((world == nullptr) == late);
  NCCL(ncclGroupEnd());
  CHECK(world != nullptr);

  NCCL(ncclAllReduce(send, receive, 1001, ncclFloat32, ncclSum, world, stream));
  arrived("AllReduce", send, receive, 1001, ncclFloat32, ncclSum, world, stream);
  truth.operation("world", "allreduce", 1001, 4, 0);
  NCCL(ncclAllGather(send, receive, 77, ncclFloat16, world, stream));
  arrived("AllGather", send, receive, 77, ncclFloat16, world, stream);
  truth.operation("world", "allgather", 77, 2, 0);
  NCCL(ncclReduceScatter(send, receive, 78, ncclBfloat16, ncclAvg, world, stream));
  arrived("ReduceScatter", send, receive, 78, ncclBfloat16, ncclAvg, world, stream);
  truth.operation("world", "reduce_scatter", 78, 2, 0);
  NCCL(ncclBroadcast(send, receive, 79, ncclFloat64, 1, world, stream));
  arrived("Broadcast", send, receive, 79, ncclFloat64, 1, world, stream);
  truth.operation("world", "broadcast", 79, 8, 0, 1);
  // This function calls another public function of the library, and is nevertheless one operation.
  NCCL(ncclBcast(receive, 80, ncclInt8, 0, world, stream));
  arrived("Bcast", receive, 80, ncclInt8, 0, world, stream);
  truth.operation("world", "broadcast", 80, 1, 0, 0);
  NCCL(ncclReduce(send, receive, 81, ncclInt32, ncclMax, size - 1, world, stream));
  arrived("Reduce", send, receive, 81, ncclInt32, ncclMax, size - 1, world, stream);
  truth.operation("world", "reduce", 81, 4, 0, size - 1);
  NCCL(ncclAlltoAll(send, receive, 82, ncclFloat32, world, stream));
  arrived("AlltoAll", send, receive, 82, ncclFloat32, world, stream);
  truth.operation("world", "alltoall", 82, 4, 0);
  NCCL(ncclGather(send, receive, 83, ncclFloat32, 1, world, stream));
  arrived("Gather", send, receive, 83, ncclFloat32, 1, world, stream);
  truth.operation("world", "gather", 83, 4, 0, 1);
  NCCL(ncclScatter(send, receive, 84, ncclFloat32, 0, world, stream));
  arrived("Scatter", send, receive, 84, ncclFloat32, 0, world, stream);
  truth.operation("world", "scatter", 84, 4, 0, 0);
  int more;
  NCCL(ncclAllReduceConfig(send, receive, 85, ncclFloat32, 7, world, stream, &more));
  arrived("AllReduceConfig", send, receive, 85, ncclFloat32, 7, world, stream, &more);
  truth.operation("world", "allreduce", 85, 4, 0);
  NCCL(ncclReduceConfig(send, receive, 86, ncclFloat32, ncclSum, 1, world, stream, &more));
  arrived("ReduceConfig", send, receive, 86, ncclFloat32, ncclSum, 1, world, stream, &more);
  truth.operation("world", "reduce", 86, 4, 0, 1);
  CHECK(theStream.launched == 11);

  // A call that the library refuses is no operation: it does not change the others' numbers.
  if (rank == 0) CHECK(ncclAllReduce(send, receive, 9, 99, ncclSum, world, stream) == ncclInvalidArgument);

  // Groups, one inside another: nothing reaches the stream before the end of the outermost one.
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  NCCL(ncclGroupStart());
  NCCL(ncclSend(send, 87, ncclFloat32, right, world, stream));
  arrived("Send", send, 87, ncclFloat32, right, world, stream);
  NCCL(ncclGroupStart());
  NCCL(ncclRecv(receive, 87, ncclFloat32, left, world, stream));
  arrived("Recv", receive, 87, ncclFloat32, left, world, stream);
  NCCL(ncclGroupEnd());
  NCCL(ncclAllReduce(send, receive, 88, ncclFloat32, ncclSum, world, stream));
  CHECK(theStream.launched == 11);
  NCCL(ncclGroupEnd());
  CHECK(theStream.launched == 14);
  truth.operation("world", "send", 87, 4, 0, -1, right);
  truth.operation("world", "recv", 87, 4, 0, -1, left);
  truth.operation("world", "allreduce", 88, 4, 0);

  // A group that only estimates its duration contains no operations. The simulation of one rank must not shift its
  // later operations against those of the others.
  if (rank == 0) {
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(send, receive, 5, ncclFloat32, ncclSum, world, stream));
    NCCL(ncclSend(send, 5, ncclFloat32, right, world, stream));
    NCCL(ncclGroupSimulateEnd(nullptr));
    CHECK(theStream.launched == 14);
  }
  NCCL(ncclAllGather(send, receive, 98, ncclFloat32, world, stream));
  truth.operation("world", "allgather", 98, 4, 0);
  NCCL(ncclGroupStart());
  NCCL(ncclSend(send, 99, ncclFloat32, right, world, stream));
  NCCL(ncclRecv(receive, 99, ncclFloat32, left, world, stream));
  NCCL(ncclGroupEnd());
  truth.operation("world", "send", 99, 4, 0, -1, right);
  truth.operation("world", "recv", 99, 4, 0, -1, left);

  // One-sided: eleven arguments.
  void* memory;
  ncclWindow_t window;
  NCCL(ncclMemAlloc(&memory, 8192));
  NCCL(ncclCommWindowRegister(world, memory, 8192, &window, 1));
  NCCL(ncclPutSignal(send, 89, ncclFloat32, right, window, 64, 1, 2, 3, world, stream));
  arrived("PutSignal", send, 89, ncclFloat32, right, window, 64, 1, 2, 3, world, stream);
  truth.operation("world", "put", 89, 4, 0, -1, right);
  NCCL(ncclSignal(right, 4, 5, 6, world, stream));
  arrived("Signal", right, 4, 5, 6, world, stream);
  truth.operation("world", "signal", 0, 0, 0, -1, right);
  ncclWaitSignalDesc_t wait = {2, left, 1, 2};
  NCCL(ncclWaitSignal(1, &wait, world, stream));
  arrived("WaitSignal", 1, &wait, world, stream);
  truth.operation("world", "waitsignal", 0, 0, 0);
  NCCL(ncclCommWindowDeregister(world, window));
  void* registered;
  NCCL(ncclCommRegister(world, memory, 4096, &registered));
  NCCL(ncclCommDeregister(world, registered));
  NCCL(ncclMemFree(memory));
  NCCL(ncclCommSuspend(world, 0));
  NCCL(ncclCommResume(world));

  // A split that is refused on one rank is not counted on that rank.
  ncclComm_t refused = nullptr;
  if (rank == 0) CHECK(ncclCommSplit(world, -7, rank, &refused, nullptr) == ncclInvalidArgument);

  // Two splits with the same colours create two communicators each.
  const char* halves[2][2] = {{"even", "odd"}, {"even again", "odd again"}};
  for (int round = 0; round < 2; round++) {
    ncclComm_t half;
    config = named(halves[round][rank % 2]);
    ncclDoubleNextChild(rank / 2, (size + 1 - rank % 2) / 2);
    NCCL(ncclCommSplit(world, rank % 2, rank, &half, &config));
    arrived("CommSplit", world, rank % 2, rank, &half, &config);
    NCCL(ncclAllReduce(send, receive, 90 + round, ncclFloat32, ncclSum, half, stream));
    truth.operation(config.commName, "allreduce", 90 + round, 4, 0);
    NCCL(ncclCommFinalize(half));
    // The next communicator gets this one's address.
    NCCL(ncclCommDestroy(half));
  }

  // Non-blocking: the handle arrives while the parent is polled.
  ncclComm_t patient;
  config = named("patient");
  config.blocking = 0;
  ncclDoubleNextChild(rank, size);
  CHECK(ncclCommSplit(world, 5, rank, &patient, &config) == ncclInProgress);
  CHECK(patient == nullptr);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(world, &state));
  CHECK(patient != nullptr);
  NCCL(ncclAllGather(send, receive, 93, ncclFloat32, patient, stream));
  truth.operation("patient", "allgather", 93, 4, 0);

  // The first member shrinks the communicator, and the others get new numbers. With more than two ranks, several are
  // left.
  if (rank > 0 && size > 2) {
    ncclComm_t fewer;
    int excluded[] = {0};
    config = named("fewer");
    NCCL(ncclCommShrink(world, excluded, 1, &fewer, &config, 0));
    arrived("CommShrink", world, excluded, 1, &fewer, &config, 0);
    NCCL(ncclReduce(send, receive, 94, ncclFloat32, ncclSum, 0, fewer, stream));
    truth.operation("fewer", "reduce", 94, 4, 0, 0);
    NCCL(ncclCommAbort(fewer));
  }

  // Growth: a pair of ranks takes in the last one. Only rank 0 and the new rank have the id.
  if (size > 2) {
    const bool old = rank < size - 1;
    ncclComm_t few = nullptr, grown;
    config = named("few");
    ncclDoubleNextChild(rank, size - 1);
    ncclComm_t* few_handle = &few;
    NCCL(ncclCommSplit(world, old ? 1 : -1, rank, few_handle, &config));
    const ncclUniqueId more_id = self.share("grown");
    config = named("grown");
    NCCL(ncclCommGrow(
        few, size, old && rank > 0 ? nullptr : &more_id, old ? -1 : rank, &grown, &config));
    NCCL(ncclAllReduce(send, receive, 95, ncclFloat32, ncclSum, grown, stream));
    truth.operation("grown", "allreduce", 95, 4, 0);
  }

  // Several ids for one communicator, and then all members in one process.
  ncclUniqueId ids[2] = {self.share("first"), self.share("second")};
  ncclComm_t scalable, own[3];
  config = named("scalable");
  NCCL(ncclCommInitRankScalable(&scalable, size, rank, 2, ids, &config));
  arrived("CommInitRankScalable", &scalable, size, rank, 2, ids, &config);
  NCCL(ncclAllReduce(send, receive, 96, ncclFloat32, ncclSum, scalable, stream));
  truth.operation("scalable", "allreduce", 96, 4, 0);
  const int devices[] = {0, 1, 2};
  NCCL(ncclCommInitAll(own, 3, devices));
  NCCL(ncclGroupStart());
  for (ncclComm_t one : own) NCCL(ncclAllReduce(send, receive, 97, ncclFloat32, ncclSum, one, stream));
  NCCL(ncclGroupEnd());
  for (int i = 0; i < 3; i++) truth.operation("", "allreduce", 97, 4, 0);

  // A framework's watchdog polls continuously. One error must be recorded once.
  ncclDoubleFail(world, ncclRemoteError);
  for (int i = 0; i < 100; i++) {
    NCCL(ncclCommGetAsyncError(world, &state));
    CHECK(state == ncclRemoteError);
  }
  NCCL(ncclCommRevoke(world, 0));
  NCCL(ncclCommAbort(world));
  return 0;
}
