// Events: the last signal that was recorded, or the place in a capture where it was recorded.
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <vector>

#include "stream.h"

namespace host_nccl {

class Event {
 public:
  static std::shared_ptr<Event> of(CUevent handle) { return *reinterpret_cast<std::shared_ptr<Event>*>(handle); }

  void set(std::shared_ptr<Signal> signal);
  // Returns null if the event was never recorded.
  std::shared_ptr<Signal> last();

  // The lock of captures guards both.
  std::shared_ptr<Capture> capture;
  std::vector<Node*> dependencies;

 private:
  std::mutex mutex_;
  std::shared_ptr<Signal> last_;
};

// The work of a graph's nodes that record an event or wait for one.
WorkOfLaunch recordWork(const std::shared_ptr<Event>& event);
WorkOfLaunch waitWork(const std::shared_ptr<Event>& event);

}  // namespace host_nccl
