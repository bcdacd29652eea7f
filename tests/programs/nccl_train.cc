// Makes the calls of a training on NCCL. Each step has a few gradient buckets, the last two in one group. Every fourth
// step has a message along a ring.
//   nccl_train RANK SIZE STORE [STEPS]
#include "nccl_rank.h"

int main(int argc, char** argv) {
  const NcclRank self(argc, argv);
  const int rank = self.rank, size = self.size;
  const int steps = argc > 4 ? std::atoi(argv[4]) : 60;
  const ncclUniqueId id = self.share("id");
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, size, id, rank));
  static char buffer[64];
  DoubleStream stream = {};
  auto reduce = [&](size_t count) {
    NCCL(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, &stream));
  };
  for (int step = 0; step < steps; step++) {
    usleep(2000);
    reduce(1 << 20);
    usleep(500);
    NCCL(ncclGroupStart());
    reduce(1 << 18);
    reduce(1 << 12);
    NCCL(ncclGroupEnd());
    if (step % 4 == 3) {
      NCCL(ncclGroupStart());
      NCCL(ncclSend(buffer, 100, ncclFloat32, (rank + 1) % size, comm, &stream));
      NCCL(ncclRecv(buffer, 100, ncclFloat32, (rank + size - 1) % size, comm, &stream));
      NCCL(ncclGroupEnd());
    }
  }
  NCCL(ncclCommDestroy(comm));
  return 0;
}
