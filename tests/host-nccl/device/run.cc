#include "run.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "clocks.h"
#include "delays.h"
#include "truth.h"
#include "work.h"

namespace host_nccl {

// The communicator is the first argument of all kernels that the bed runs.
static Block anyBlock(const HostLaunch* launch) {
  return {launch, *static_cast<DeviceCommunicator* const*>(launch->arguments), nullptr, -1};
}

static void run(const HostLaunch* launch) {
  if (std::strncmp(launch->kernel, "ncclDevKernel_", 14) != 0 && std::strncmp(launch->kernel, "ncclKernel_", 11) != 0) {
    std::fprintf(stderr, "host-nccl: kernel %s is not implemented\n", launch->kernel);
    std::abort();
  }
  const Block block = anyBlock(launch);
  const int64_t launched = rawNanoseconds();
  try {
    delayStart(block);
  } catch (const Aborted&) {
    // The kernel starts and sees the abort itself.
  }
  const int64_t start = rawNanoseconds();
  std::vector<std::thread> blocks;
  for (unsigned i = 1; i < launch->blocks; i++) blocks.emplace_back([=] { runBlock(launch, static_cast<int>(i)); });
  runBlock(launch, 0);
  for (std::thread& other : blocks) other.join();
  if (!Truth::isWanted()) return;
  Truth line("kernel", *launch);
  line.communicator(*block.communicator).number("blocks", launch->blocks).number("delay_ns", start - launched);
  line.number("start_ns", start).number("end_ns", rawNanoseconds()).write();
}

}  // namespace host_nccl

void hostNcclRun(const HostLaunch* launch) { host_nccl::run(launch); }
