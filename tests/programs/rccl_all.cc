// Calls the functions that RCCL has in addition to NCCL's, checks each argument, and makes a capture that HIP reports.
//   rccl_all RANK SIZE STORE
#include <cstring>

#include "nccl_rank.h"

static void arrived(const char* function, int argument, uint64_t value) {
  CHECK(std::strcmp(ncclDoubleArrived()->function, function) == 0);
  CHECK(ncclDoubleArrived()->arguments[argument] == value);
}

int main(int argc, char** argv) {
  const NcclRank self(argc, argv);
  const int rank = self.rank, size = self.size;
  const ncclUniqueId id = self.share("id");
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, size, id, rank));
  usleep(200000);
  static char send[4096], receive[4096];
  DoubleStream stream = {}, captured = {};
  NCCL(ncclAllReduce(send, receive, 100, ncclFloat32, ncclSum, comm, &stream));
  NCCL(ncclAllToAll(send, receive, 25, ncclFloat32, comm, &stream));
  arrived("AllToAll", 5, (uint64_t)&stream);
  size_t counts[8], offsets[8] = {};
  // Seven more elements for each further member.
  for (int peer = 0; peer < size; peer++) counts[peer] = 10 * static_cast<size_t>(rank) + 7 * static_cast<size_t>(peer);
  NCCL(ncclAllToAllv(send, counts, offsets, receive, counts, offsets, ncclFloat16, comm, &stream));
  arrived("AllToAllv", 8, (uint64_t)&stream);
  NCCL(ncclAllReduceWithBias(send, receive, 50, ncclFloat32, ncclSum, comm, &stream, send + 7));
  arrived("AllReduceWithBias", 7, (uint64_t)(send + 7));
  captured.capturing = 1;
  NCCL(ncclAllReduce(send, receive, 60, ncclFloat32, ncclSum, comm, &captured));
  captured.capturing = 0;
  NCCL(ncclCommDestroy(comm));
  return 0;
}
