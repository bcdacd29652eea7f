// What a training on NCCL asks for: per step a few gradient buckets, the last two in one group, and a message along a
// ring every fourth step.
//   nccl_train RANK SIZE STORE [STEPS]
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
  const int rank = std::atoi(argv[1]), size = std::atoi(argv[2]), steps = argc > 4 ? std::atoi(argv[4]) : 60;
  const std::string path = std::string(argv[3]) + "/id";
  ncclUniqueId id;
  if (rank == 0) {
    need(ncclGetUniqueId(&id) == ncclSuccess);
    std::FILE* file = std::fopen((path + ".fresh").c_str(), "wb");
    need(file && std::fwrite(&id, sizeof id, 1, file) == 1 && std::fclose(file) == 0);
    need(std::rename((path + ".fresh").c_str(), path.c_str()) == 0);
  } else {
    std::FILE* file;
    while (!(file = std::fopen(path.c_str(), "rb"))) usleep(1000);
    need(std::fread(&id, sizeof id, 1, file) == 1);
    std::fclose(file);
  }
  ncclComm_t comm;
  need(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess);
  static char buffer[64];
  DoubleStream stream = {};
  auto reduce = [&](size_t count) {
    need(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, &stream) == ncclSuccess);
  };
  for (int step = 0; step < steps; step++) {
    usleep(2000);
    reduce(1 << 20);
    usleep(500);
    need(ncclGroupStart() == ncclSuccess);
    reduce(1 << 18);
    reduce(1 << 12);
    need(ncclGroupEnd() == ncclSuccess);
    if (step % 4 == 3) {
      need(ncclGroupStart() == ncclSuccess);
      need(ncclSend(buffer, 100, ncclFloat32, (rank + 1) % size, comm, &stream) == ncclSuccess);
      need(ncclRecv(buffer, 100, ncclFloat32, (rank + size - 1) % size, comm, &stream) == ncclSuccess);
      need(ncclGroupEnd() == ncclSuccess);
    }
  }
  need(ncclCommDestroy(comm) == ncclSuccess);
  return 0;
}
