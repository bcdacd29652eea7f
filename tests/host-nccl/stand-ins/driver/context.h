// Primary contexts, one per device. The stand-in has no others, because NCCL and its users need none.
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <vector>

namespace host_nccl {

class Stream;

class Context {
 public:
  // Returns the context of a device, or null if there is no such device.
  static Context* primary(int device);
  // Returns the calling thread's context, or null.
  static Context* current();

  explicit Context(int device, unsigned long long id) : device(device), id(id) {}

  std::vector<std::shared_ptr<Stream>> streams();
  void add(std::shared_ptr<Stream> stream);
  void remove(const Stream* stream);
  // The stream 0, whose work waits for the blocking streams, and they for it.
  std::shared_ptr<Stream> legacy();

  const int device;
  const unsigned long long id;
  bool isActive = false;
  unsigned flags = 0;

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::shared_ptr<Stream> legacy_;
};

// Numbers of contexts, streams, captures and allocations: never used twice in a process.
unsigned long long nextId();

}  // namespace host_nccl
