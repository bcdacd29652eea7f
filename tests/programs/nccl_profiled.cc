// A training on NCCL that the library itself reports through its profiler plugin. It has gradient buckets alone and in
// groups, messages along a ring, a graph that is captured once and replayed in every step, and one late rank.
//   nccl_profiled RANK SIZE STORE STEPS LATE_RANK LATE_US
// With NCCL_PROFILED_NONBLOCKING in its environment its communicator does not block. With NCCL_PROFILED_WATCHDOG a
// thread polls the communicator all the time, as PyTorch's does, and each tenth step is captured concurrently with the
// others. With NCCL_PROFILED_WITHOUT_ALLTOALL no step has an all-to-all, in which a rank copies data to itself. With
// NCCL_PROFILED_WITHOUT_GRAPH nothing is captured. With NCCL_PROFILED_BROADCAST a broadcast precedes the steps, as in DDP. With
// the value "copied", a message of each rank to itself precedes it.
// At the end the driver's double reports forbidden calls.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "../doubles/nccl/cuda_double.h"
#include "nccl_rank.h"

static int fromDriver(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  CHECK(driver != nullptr);
  return reinterpret_cast<int (*)()>(dlsym(driver, name))();
}

int main(int argc, char** argv) {
  const NcclRank self(argc, argv);
  const int rank = self.rank, size = self.size;
  const int steps = argc > 4 ? std::atoi(argv[4]) : 40;
  const int late = argc > 5 ? std::atoi(argv[5]) : -1;
  const int lateUs = argc > 6 ? std::atoi(argv[6]) : 0;
  const ncclUniqueId id = self.share("id");
  ncclComm_t comm;
  if (std::getenv("NCCL_PROFILED_NONBLOCKING") != nullptr) {
    ncclConfig_t config = {sizeof config, 0xcafebeef, 22800, 0, -1, -1, -1, nullptr, -1, -1, "patient"};
    CHECK(ncclCommInitRankConfig(&comm, size, id, rank, &config) == ncclInProgress);
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) NCCL(ncclCommGetAsyncError(comm, &state));
  } else {
    NCCL(ncclCommInitRank(&comm, size, id, rank));
  }
  // The recorder starts concurrently. On a busy machine it may take longer than a communicator waits for it.
  usleep(200000);
  static char buffer[1 << 16];
  DoubleStream stream = {}, captured = {}, other = {};
  std::atomic<bool> over = false;
  std::thread watchdog;
  const bool copiesToItself = std::getenv("NCCL_PROFILED_WITHOUT_ALLTOALL") == nullptr;
  const bool isWatched = std::getenv("NCCL_PROFILED_WATCHDOG") != nullptr;
  if (isWatched) {
    watchdog = std::thread([&] {
      for (ncclResult_t state; !over; usleep(700)) NCCL(ncclCommGetAsyncError(comm, &state));
    });
  }
  auto reduce = [&](size_t count, DoubleStream* on) {
    // Separate buffers, as buckets have.
    NCCL(ncclAllReduce(buffer + count % 4096, buffer + count % 4096, count, ncclFloat32, ncclSum, comm, on));
  };
  auto ring = [&](DoubleStream* on) {
    NCCL(ncclGroupStart());
    NCCL(ncclSend(buffer, 100, ncclFloat32, (rank + 1) % size, comm, on));
    NCCL(ncclRecv(buffer + 512, 100, ncclFloat32, (rank + size - 1) % size, comm, on));
    NCCL(ncclGroupEnd());
  };
  const bool hasGraph = std::getenv("NCCL_PROFILED_WITHOUT_GRAPH") == nullptr;
  if (hasGraph) {
    captured.capturing = 1;
    reduce(333, &captured);
    ring(&captured);
    captured.capturing = 0;
    // The first event of this communicator on the device is a replay.
    ncclDoubleReplay(&captured);
  }
  const char* const broadcast = std::getenv("NCCL_PROFILED_BROADCAST");
  if (broadcast != nullptr && std::strcmp(broadcast, "copied") == 0) {
    NCCL(ncclGroupStart());
    NCCL(ncclSend(buffer, 40, ncclFloat32, rank, comm, &stream));
    NCCL(ncclRecv(buffer + 8192, 40, ncclFloat32, rank, comm, &stream));
    NCCL(ncclGroupEnd());
  }
  if (broadcast != nullptr)
    NCCL(ncclBroadcast(buffer, buffer, 66, ncclFloat32, 0, comm, &stream));
  for (int step = 0; step < steps; step++) {
    usleep(2000);
    if (rank == late) usleep(lateUs);
    other.capturing = isWatched && step % 10 == 5;
    if (other.capturing) {
      // During this capture everything else continues, also queries of other threads.
      reduce(444, &other);
      ring(&other);
    }
    reduce(1 << 20, &stream);
    NCCL(ncclGroupStart());
    // The library starts the larger one first.
    reduce(1 << 10, &stream);
    reduce(1 << 18, &stream);
    NCCL(ncclAllGather(buffer, buffer, 77, ncclFloat16, comm, &stream));
    NCCL(ncclBroadcast(buffer, buffer, 55, ncclFloat64, 1 % size, comm, &stream));
    NCCL(ncclGroupEnd());
    NCCL(ncclReduceScatter(buffer, buffer, 3000, ncclBfloat16, ncclAvg, comm, &stream));
    NCCL(ncclReduce(buffer, buffer, 99, ncclFloat32, ncclSum, 0, comm, &stream));
    ring(&stream);
    if (copiesToItself) NCCL(ncclAlltoAll(buffer, buffer + 8192, 40, ncclFloat32, comm, &stream));
    if (hasGraph) ncclDoubleReplay(&captured);
    // Synchronises like a training that reads its loss.
    ncclDoubleSynchronize(comm);
    other.capturing = 0;
  }
  over = true;
  if (isWatched) watchdog.join();
  NCCL(ncclCommDestroy(comm));
  CHECK(fromDriver("cuDoubleViolations") == 0);
  CHECK(fromDriver("cuDoubleEvents") == 0 || std::getenv("NCCL_DOUBLE_FAILS") != nullptr);
  return 0;
}
