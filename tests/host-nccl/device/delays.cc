#include "delays.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "clocks.h"

namespace host_nccl {

// Returns the microseconds for a device.
static long setting(const char* name, int device) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  if (std::strchr(text, ':') == nullptr) return std::atol(text);
  for (const char* at = text; at != nullptr; at = std::strchr(at, ',')) {
    if (*at == ',') at++;
    char* rest;
    if (std::strtol(at, &rest, 10) == device && *rest == ':') return std::atol(rest + 1);
  }
  return 0;
}

// Waits in small pieces, so that an abort ends the delay.
static void sleepFor(const Block& block, long microseconds) {
  const int64_t end = rawNanoseconds() + microseconds * 1000;
  for (int64_t left; (left = end - rawNanoseconds()) > 0;) {
    block.checkAbort();
    usleep(static_cast<useconds_t>(std::min<int64_t>(left / 1000 + 1, 1000)));
  }
}

void delayStart(const Block& block) { sleepFor(block, setting("HOST_NCCL_START_DELAY_US", block.launch->device)); }
void delayWork(const Block& block) { sleepFor(block, setting("HOST_NCCL_WORK_US", block.launch->device)); }

}  // namespace host_nccl
