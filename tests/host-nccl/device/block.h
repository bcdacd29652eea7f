// One block of a kernel, which works for one channel. Here, one thread.
#pragma once

#include "../stand-ins/host_kernel.h"
#include "nccl_headers.h"

namespace host_nccl {

// The host aborts the communicator: the kernel ends at once.
struct Aborted {};

struct Block {
  const HostLaunch* launch;
  DeviceCommunicator* communicator;
  ncclDevChannel* channel;
  int channelId;

  // Sets the channel from the kernel's set of channels and the number of the block. Returns false if there is none.
  bool findChannel(uint64_t channels, int number);
  // Throws Aborted if the host asks for it.
  void checkAbort() const;
};

// The pauses of a loop that waits for another thread or process to write a word.
class Wait {
 public:
  explicit Wait(const Block& block) : block_(block) {}
  // Yields the processor. The pauses become longer, because many ranks share few cores.
  void pause();

 private:
  const Block& block_;
  int turns_ = 0;
};

inline uint64_t load(const uint64_t* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
inline void store(uint64_t* to, uint64_t value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }

// Ends the process with a message about something that the bed does not do.
[[noreturn]] void notImplemented(const Block& block, const char* what, long value);

}  // namespace host_nccl
