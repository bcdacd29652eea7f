// Makes NCCL's calls on the real library, checks all data, and reports each call:
//   host_nccl_all RANK SIZE STORE CASE...
// STORE is an empty directory that all ranks share. A case that the version does not have is reported as `"wrong":-1`.
// Without cases, the program lists their names.
#include <cstdio>
#include <cstdlib>

#include "cases.h"

std::map<std::string, CaseFunction>& cases() {
  static std::map<std::string, CaseFunction> all;
  return all;
}

int main(int argc, char** argv) {
  if (argc < 5) {
    for (const auto& known : cases()) std::printf("%s\n", known.first.c_str());
    return 2;
  }
  Process process(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]);
  CUDA(cudaSetDevice(deviceOf(process.rank)));
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Member world(process, "world", stream);
  process.report.begin("start");
  world.create();
  // A recorder starts concurrently. On a busy machine, it may not be ready when the communicator is.
  const char* wait = std::getenv("START_WAIT_US");
  usleep(wait == nullptr ? 200000 : std::atoi(wait));
  bool isRight = true;
  for (int i = 4; i < argc; i++) {
    const auto found = cases().find(argv[i]);
    process.report.begin(argv[i]);
    if (found == cases().end()) {
      isRight = process.report.end(-1) && isRight;
      continue;
    }
    isRight = process.report.end(found->second(world)) && isRight;
  }
  process.report.begin("end");
  // A case may have aborted it.
  if (world.communicator != nullptr) world.destroy();
  CUDA(cudaStreamDestroy(stream));
  return isRight ? 0 : 1;
}
