#include "block.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace host_nccl {

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
