// The counter that the recorder reads, too.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>

static inline uint64_t counter() { return __rdtsc(); }
#elif defined(__aarch64__)
static inline uint64_t counter() {
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}
#endif
