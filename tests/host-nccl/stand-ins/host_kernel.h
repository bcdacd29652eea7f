// How a library registers functions of the host as its kernels, and the argument of such a function at a launch. The
// real runtime has no such registration. It finds kernels in the library's device code.
#pragma once

#include <cstddef>

extern "C" {

struct HostLaunch {
  const char* kernel;
  unsigned blocks, threads;
  int device;
  // The number of this kernel among the launches of its process. A replay of a graph gives each kernel a new number.
  unsigned long long number;
  unsigned long long stream;
  bool isReplay;
  // All arguments in one piece, as a device sees them.
  const void* arguments;
  size_t argumentBytes;
};

typedef void HostKernelFunction(const HostLaunch*);

struct HostKernel {
  // The address that the host code passes to the runtime.
  const void* symbol;
  const char* name;
  int argumentCount;
  size_t argumentBytes[8];
  HostKernelFunction* run;
};

// The table must stay where it is.
void hostKernelRegister(const HostKernel* kernels, int count);

// Returns the CUfunction of a symbol, or null.
void* hostKernelOfSymbol(const void* symbol);
}
