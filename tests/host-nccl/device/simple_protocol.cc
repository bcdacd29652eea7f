#include "simple_protocol.h"

#include <algorithm>
#include <cstring>

#include "connection.h"

namespace host_nccl {

// A chunk begins at a multiple of its steps.
static uint64_t roundedUp(uint64_t step, int multiple) { return (step + multiple - 1) / multiple * multiple; }

SimpleProtocol::SimpleProtocol(
    const Block& block, const Reduction& reduction, Shape shape, const std::vector<int>& receiveFrom,
    const std::vector<int>& sendTo)
    : block_(block), reduction_(reduction), shape_(shape) {
  const int steps = shape.slicesPerChunk * shape.stepsPerSlice;
  for (int peer : receiveFrom) {
    if (peer < 0) continue;
    ncclConnInfo* connection = &block.channel->peers[peer]->recv[shape.connection];
    receivers_.push_back({connection, roundedUp(connection->step, steps)});
    // Returns the steps that rounding skips.
    store(connection->head, receivers_.back().step);
  }
  for (int peer : sendTo) {
    if (peer < 0) continue;
    ncclConnInfo* connection = &block.channel->peers[peer]->send[shape.connection];
    senders_.push_back({connection, roundedUp(connection->step, steps)});
  }
}

SimpleProtocol::~SimpleProtocol() {
  for (const End& end : receivers_) end.connection->step = end.step;
  for (const End& end : senders_) end.connection->step = end.step;
}

void SimpleProtocol::move(const Chunk& chunk) {
  const ssize_t element = reduction_.elementSize();
  const ssize_t total = std::max<ssize_t>(chunk.bytes, 0) / element;
  // In elements, as both sides of NCCL compute it.
  const ssize_t step = shape_.stepBytes / element * shape_.stepsPerSlice;
  const ssize_t portion = 16 * shape_.slicesPerChunk;
  ssize_t slice = std::max<ssize_t>((total + portion - 1) / portion * 16, step / 32);
  ssize_t offset = 0;
  // Empty slices take part: the other side counts them.
  for (int i = 0; i < shape_.slicesPerChunk; i++) {
    slice = std::min(slice, total - offset);
    moveSlice(chunk, offset * element, slice * element);
    offset += slice;
  }
}

void SimpleProtocol::moveSlice(const Chunk& chunk, size_t offset, size_t bytes) {
  std::vector<const char*> from;
  std::vector<char*> to;
  if (chunk.output != nullptr) to.push_back(chunk.output + offset);
  if (chunk.isReceived) {
    for (const End& end : receivers_) {
      Wait wait(block_);
      while (load(end.connection->tail) < end.step + shape_.stepsPerSlice) wait.pause();
      from.push_back(placeOfStep(block_, *end.connection, end.step));
    }
  }
  if (chunk.isSent) {
    for (const End& end : senders_) {
      Wait wait(block_);
      while (load(end.connection->head) + NCCL_STEPS < end.step + shape_.stepsPerSlice) wait.pause();
      reportSize(*end.connection, end.step, bytes);
      to.push_back(placeOfStep(block_, *end.connection, end.step));
    }
  }
  if (bytes > 0 && !to.empty()) {
    // The first target holds the result while it is computed.
    size_t next = 0;
    if (chunk.input != nullptr) {
      reduction_.begin(to[0], chunk.input + offset, bytes);
    } else {
      std::memmove(to[0], from[next++], bytes);
    }
    for (; next < from.size(); next++) reduction_.accumulate(to[0], from[next], bytes);
    if (chunk.isFinal) reduction_.finish(to[0], bytes);
    for (size_t i = 1; i < to.size(); i++) std::memcpy(to[i], to[0], bytes);
  }
  if (chunk.isReceived) {
    for (End& end : receivers_) store(end.connection->head, end.step += shape_.stepsPerSlice);
  }
  if (chunk.isSent) {
    for (End& end : senders_) store(end.connection->tail, end.step += shape_.stepsPerSlice);
  }
}

}  // namespace host_nccl
