#include "block.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace host_nccl {

bool Block::findChannel(uint64_t channels, int number) {
  // A block works for the channel of the set bit with its number.
  for (int bit = 0; bit < MAXCHANNELS; bit++) {
    if ((channels >> bit & 1) == 0 || number-- != 0) continue;
    channelId = bit;
    // The channels come after the communicator in device memory.
    channel = &reinterpret_cast<DeviceCommunicatorAndChannels*>(communicator)->channels[bit];
    return true;
  }
  return false;
}

void Block::checkAbort() const {
  const volatile uint32_t* flag = communicator->abortFlag;
  if (flag != nullptr && *flag != 0) throw Aborted();
}

void Wait::pause() {
  block_.checkAbort();
  turns_++;
  if (turns_ < 100) {
    sched_yield();
  } else {
    usleep(turns_ < 2000 ? 20 : 100);
  }
}

void notImplemented(const Block& block, const char* what, long value) {
  std::fprintf(
      stderr, "host-nccl: rank %d, kernel %s: %s %ld is not implemented\n", block.communicator->rank,
      block.launch->kernel, what, value);
  std::abort();
}

}  // namespace host_nccl
