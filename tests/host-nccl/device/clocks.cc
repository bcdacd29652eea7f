#include "clocks.h"

#include <time.h>

#include <cstdlib>

namespace host_nccl {

static int64_t now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

int64_t rawNanoseconds() { return now(CLOCK_MONOTONIC_RAW); }

uint64_t deviceTimer() {
  static const int64_t step = setting("HOST_NCCL_TIMER_STEP_NS", 32);
  static const int64_t offset = setting("HOST_NCCL_TIMER_OFFSET_NS", 0);
  const int64_t time = now(CLOCK_REALTIME) + offset;
  return time - (step > 1 ? time % step : 0);
}

}  // namespace host_nccl
