// Prints NCCL's answers on a machine without a GPU, call by call. They must be the same with and without rankscope.
// Runs on the real library (LD_LIBRARY_PATH) and on the double.
#include <cstdio>
#include <cstring>

#include "../doubles/nccl/nccl_double.h"

int main() {
  int version = 0;
  std::printf("version %d", ncclGetVersion(&version));
  std::printf(" %d\n", version > 20000);
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  std::printf("id %d\n", ncclGetUniqueId(&id));
  // This call is first, because it starts the recorder.
  ncclComm_t comm = nullptr;
  const int made = ncclCommInitRank(&comm, 1, id, 0);
  std::printf("init %d %d\n", made, comm != nullptr);
  std::printf("start %d\n", ncclGroupStart());
  std::printf("start %d\n", ncclGroupStart());
  std::printf("end %d\n", ncclGroupEnd());
  std::printf("end %d\n", ncclGroupEnd());
  ncclComm_t wrong = nullptr;
  std::printf("init of a wrong rank %d\n", ncclCommInitRank(&wrong, 2, id, 7));
  float buffer[4] = {};
  std::printf("all-reduce of nothing %d\n", ncclAllReduce(buffer, buffer, 4, ncclFloat32, ncclSum, nullptr, nullptr));
  std::printf("send of nothing %d\n", ncclSend(buffer, 4, ncclFloat32, 0, nullptr, nullptr));
  std::printf("broadcast of nothing %d\n", ncclBcast(buffer, 4, ncclFloat32, 0, nullptr, nullptr));
  int count = -1;
  std::printf("count of nothing %d\n", ncclCommCount(nullptr, &count));
  int error = -1;
  std::printf("error of nothing %d\n", ncclCommGetAsyncError(nullptr, &error));
  std::printf("destroy nothing %d\n", ncclCommDestroy(nullptr));
  std::printf("finalize nothing %d\n", ncclCommFinalize(nullptr));
  return 0;
}
