// One process that drives four devices: all members of its communicator are its own.
//   nccl_devices RANK SIZE STORE
#include <cstdio>
#include <cstdlib>

#include "../doubles/nccl/nccl_double.h"

int main() {
  ncclComm_t comms[4];
  static char buffer[4096];
  const int devices[] = {0, 1, 2, 3};
  bool fine = ncclCommInitAll(comms, 4, devices) == ncclSuccess;
  for (int i = 0; i < 10; i++) {
    fine = fine && ncclGroupStart() == ncclSuccess;
    for (ncclComm_t comm : comms)
      fine = fine && ncclAllReduce(buffer, buffer, 100, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess;
    fine = fine && ncclGroupEnd() == ncclSuccess;
  }
  for (ncclComm_t comm : comms) fine = fine && ncclCommDestroy(comm) == ncclSuccess;
  return fine ? 0 : 3;
}
