// Captures some calls into a graph, between calls that are not captured. The captured calls are templates and never
// run.
//   nccl_graph RANK SIZE STORE
#include "nccl_rank.h"

int main(int argc, char** argv) {
  const NcclRank self(argc, argv);
  const int rank = self.rank, size = self.size;
  const ncclUniqueId id = self.share("id");
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, size, id, rank));
  static char buffer[4096];
  DoubleStream stream = {};
  auto reduce = [&](size_t count) {
    NCCL(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, &stream));
  };
  for (int i = 0; i < 5; i++) reduce(100);
  stream.capturing = 1;
  for (int i = 0; i < 3; i++) reduce(200);
  NCCL(ncclGroupStart());
  reduce(201);
  NCCL(ncclSend(buffer, 50, ncclFloat32, (rank + 1) % size, comm, &stream));
  NCCL(ncclRecv(buffer, 50, ncclFloat32, (rank + size - 1) % size, comm, &stream));
  NCCL(ncclGroupEnd());
  stream.capturing = 0;
  CHECK(stream.launched == 5);
  for (int i = 0; i < 5; i++) reduce(300);
  CHECK(stream.launched == 10);
  return 0;
}
