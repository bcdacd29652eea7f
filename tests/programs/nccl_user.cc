// A library that uses NCCL as a framework does: it is linked to NCCL, and loaded by a program that does not use NCCL
// (nccl_loader.cc).
#include "../doubles/nccl/nccl_double.h"

// Creates `communicators` communicators of one member, all alive at once, calls `calls` all-reduces on each, and
// destroys them. Returns the number of calls that arrived at this library's NCCL, or −1 if any failed.
extern "C" int use(int communicators, int calls) {
  static ncclComm_t comms[1000];
  static char buffer[4096];
  if (communicators > 1000) return -1;
  DoubleStream stream = {};
  for (int i = 0; i < communicators; i++) {
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comms[i], 1, id, 0) != ncclSuccess) return -1;
  }
  for (int call = 0; call < calls; call++) {
    for (int i = 0; i < communicators; i++) {
      const size_t count = 1 + size_t(call);
      if (ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comms[i], &stream) != ncclSuccess) return -1;
      if (ncclDoubleArrived()->arguments[2] != count) return -1;
    }
  }
  for (int i = 0; i < communicators; i++) {
    if (ncclCommDestroy(comms[i]) != ncclSuccess) return -1;
  }
  return int(stream.launched);
}
