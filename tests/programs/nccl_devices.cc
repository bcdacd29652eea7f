// One process that drives four devices: all members of its communicator are in this process.
//   nccl_devices RANK SIZE STORE [streams | first]
// Without `streams` every call uses the null stream of its device. With `first` only the first device is called, and
// another one is current when the group ends. If events are enabled, the driver's double finally reports forbidden
// calls.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "../doubles/nccl/cuda_double.h"

int main(int argc, char** argv) {
  ncclComm_t comms[4];
  static char buffer[4096];
  const int devices[] = {0, 1, 2, 3};
  DoubleStream streams[4] = {};
  for (int device : devices) streams[device].device = device;
  const bool hasStreams = argc > 4 && std::strcmp(argv[4], "streams") == 0;
  const bool isFirst = argc > 4 && !hasStreams;
  auto switchTo = [](int device) {
    if (void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
      reinterpret_cast<void (*)(int)>(dlsym(driver, "cuDoubleSwitch"))(device);
  };
  bool fine = true;
  // With separate streams, three rounds: communicators that end and are created again on the same devices.
  for (int call = 0, calls = hasStreams ? 30 : 10; call < calls; call++) {
    if (call % 10 == 0) fine = fine && ncclCommInitAll(comms, 4, devices) == ncclSuccess;
    fine = fine && ncclGroupStart() == ncclSuccess;
    if (isFirst) switchTo(0);
    for (int device : devices) {
      if (isFirst && device > 0) continue;
      DoubleStream* stream = hasStreams ? &streams[device] : nullptr;
      fine = fine && ncclAllReduce(buffer, buffer, 100, ncclFloat32, ncclSum, comms[device], stream) == ncclSuccess;
    }
    if (isFirst) switchTo(3);
    fine = fine && ncclGroupEnd() == ncclSuccess;
    for (ncclComm_t comm : comms) ncclDoubleSynchronize(comm);
    if (call % 10 < 9) continue;
    for (ncclComm_t comm : comms) fine = fine && ncclCommDestroy(comm) == ncclSuccess;
  }
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  for (const char* count : {"cuDoubleViolations", "cuDoubleEvents"}) {
    const int found = driver != nullptr ? reinterpret_cast<int (*)()>(dlsym(driver, count))() : 0;
    if (found != 0) std::fprintf(stderr, "%s: %d\n", count, found);
    fine = fine && found == 0;
  }
  return fine ? 0 : 3;
}
