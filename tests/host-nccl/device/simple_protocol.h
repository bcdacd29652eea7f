// The simple protocol: chunks go through a ring of steps per connection. The sender waits for free steps (head), the
// receiver for filled ones (tail). Both sides divide a chunk into the same slices.
#pragma once

#include <sys/types.h>

#include <vector>

#include "block.h"
#include "reduction.h"

namespace host_nccl {

class SimpleProtocol {
 public:
  struct Shape {
    int slicesPerChunk, stepsPerSlice;
    // The number of the connection to a peer: 0 or 1.
    int connection;
    // The largest number of bytes in a step.
    size_t stepBytes;
  };

  // Peers of -1 are left out.
  SimpleProtocol(
      const Block& block, const Reduction& reduction, Shape shape, const std::vector<int>& receiveFrom,
      const std::vector<int>& sendTo);
  // Saves the number of steps for the next work on these connections.
  ~SimpleProtocol();

  struct Chunk {
    bool isReceived = false, isSent = false;
    // This rank's own input, which takes part in the reduction. May be null.
    const char* input = nullptr;
    // Where this rank keeps the result. May be null.
    char* output = nullptr;
    ssize_t bytes = 0;
    // Whether the chunk now has all ranks' input.
    bool isFinal = false;
  };
  void move(const Chunk& chunk);

 private:
  struct End {
    ncclConnInfo* connection;
    uint64_t step;
  };
  void moveSlice(const Chunk& chunk, size_t offset, size_t bytes);

  const Block& block_;
  const Reduction reduction_;
  const Shape shape_;
  std::vector<End> receivers_, senders_;
};

}  // namespace host_nccl
