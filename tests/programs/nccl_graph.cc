// Calls that are captured into a graph between calls that are not: those are templates, and nothing of them runs.
//   nccl_graph RANK SIZE STORE
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "../doubles/nccl/nccl_double.h"

static void need(bool fine) {
  if (!fine) std::exit(3);
}

int main(int argc, char** argv) {
  need(argc >= 4);
  const int rank = std::atoi(argv[1]), size = std::atoi(argv[2]);
  // Nobody compares ids here: the same bytes on all ranks will do.
  ncclUniqueId id = {};
  for (int i = 0; argv[3][i] && i < 128; i++) id.internal[i] = argv[3][i];
  ncclComm_t comm;
  need(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess);
  static char buffer[4096];
  DoubleStream stream = {};
  auto reduce = [&](size_t count) {
    need(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, &stream) == ncclSuccess);
  };
  for (int i = 0; i < 5; i++) reduce(100);
  stream.capturing = 1;
  for (int i = 0; i < 3; i++) reduce(200);
  need(ncclGroupStart() == ncclSuccess);
  reduce(201);
  need(ncclSend(buffer, 50, ncclFloat32, (rank + 1) % size, comm, &stream) == ncclSuccess);
  need(ncclRecv(buffer, 50, ncclFloat32, (rank + size - 1) % size, comm, &stream) == ncclSuccess);
  need(ncclGroupEnd() == ncclSuccess);
  stream.capturing = 0;
  need(stream.launched == 5);
  for (int i = 0; i < 5; i++) reduce(300);
  need(stream.launched == 10);
  return 0;
}
