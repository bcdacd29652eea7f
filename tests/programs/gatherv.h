// libgloo-dev (2022) exports gloo::gatherv but omits its header. This declares what the library defines. The order of
// the members is part of the library's ABI.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

namespace gloo {

class GathervOptions {
 public:
  explicit GathervOptions(const std::shared_ptr<Context>& with) : context(with), timeout(with->getTimeout()) {}

  template <typename T>
  void setInput(T* values, size_t count) {
    setInput(static_cast<void*>(values), count, sizeof(T));
  }

  template <typename T>
  void setOutput(T* values, std::vector<size_t> counts) {
    setOutput(static_cast<void*>(values), std::move(counts), sizeof(T));
  }

  void setRoot(int rank) { root = rank; }
  void setTag(uint32_t value) { tag = value; }

 protected:
  std::shared_ptr<Context> context;
  std::unique_ptr<transport::UnboundBuffer> in;
  std::unique_ptr<transport::UnboundBuffer> out;
  std::vector<size_t> elementsPerRank;
  size_t elementSize = 0;
  int root = -1;
  uint32_t tag = 0;
  std::chrono::milliseconds timeout;

  void setInput(void* values, size_t count, size_t elementSize);
  void setOutput(void* values, std::vector<size_t> counts, size_t elementSize);
};

void gatherv(GathervOptions& options);

} // namespace gloo
