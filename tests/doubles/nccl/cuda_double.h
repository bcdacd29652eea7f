// What the double of the driver tells beside its interface, and what the double of NCCL tells it.
#pragma once

#include <stdint.h>

#include "nccl_double.h"

extern "C" {
// The calling thread works on this device from now on, if it works on none: as cudaSetDevice does.
void cuDoubleUse(int device);
// It works on this one from now on.
void cuDoubleSwitch(int device);
// A kernel was put on a stream; it is done.
void cuDoubleSubmitted(struct DoubleStream*, int device);
void cuDoubleCompleted(struct DoubleStream*, int device, int64_t rawNs);
// What nobody must do: questions that break a capture, events on a stream that is captured, handles that are none, a
// thread left in another context or mode.
int cuDoubleViolations(void);
// Events that were made and not destroyed.
int cuDoubleEvents(void);
}
