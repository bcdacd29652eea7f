// A training on NCCL in which rank 1 stops at step 40, as a fault of its program or of its device.
//   nccl_stuck RANK SIZE STORE FAULT
// With FAULT host, its program sleeps before it enqueues the operation. With FAULT device, its program enqueues it, and its
// device never runs it. Rank R writes the file fault-R into STORE before the operation.
#include "nccl_rank.h"

int main(int argc, char** argv) {
  const NcclRank self(argc, argv);
  CHECK(argc > 4);
  const std::string fault = argv[4];
  const int steps = 40;
  if (fault == "device" && self.rank == 1) setenv("NCCL_DOUBLE_STOPS_AT", std::to_string(2 * steps).c_str(), 1);
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, self.size, self.share("id"), self.rank));
  // The recorder starts concurrently. On a busy machine it may take longer than a communicator waits for it.
  usleep(200000);
  static char buffer[1 << 16];
  DoubleStream stream = {};
  for (int step = 0;; step++) {
    usleep(2000);
    if (step == steps) {
      std::FILE* file = std::fopen((self.store + "/fault-" + std::to_string(self.rank)).c_str(), "w");
      CHECK(file != nullptr && std::fclose(file) == 0);
      while (fault == "host" && self.rank == 1) pause();
    }
    NCCL(ncclAllReduce(buffer, buffer, 1 << 12, ncclFloat32, ncclSum, comm, &stream));
    NCCL(ncclAllGather(buffer, buffer, 77, ncclFloat16, comm, &stream));
    // Synchronises like a training that reads its loss.
    ncclDoubleSynchronize(comm);
  }
}
