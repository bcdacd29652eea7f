// Sends and receives.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "simple_protocol.h"
#include "work.h"

namespace host_nccl {

namespace {

size_t stepBytes(const Block& block) {
#if NCCL_VERSION_CODE >= 22100
  return block.communicator->p2pChunkSize;
#else
  return block.communicator->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS;
#endif
}

void move(const Block& block, const Message::Half& half, bool isSend) {
  const std::vector<int> peer = {half.peer}, none;
  const Reduction bytes = {Operator::kSum, ncclInt8, 0};
  SimpleProtocol protocol(block, bytes, {1, 1, 1, stepBytes(block)}, isSend ? none : peer, isSend ? peer : none);
  size_t offset = 0;
  // An empty message is one empty chunk.
  do {
    const size_t size = std::min(half.chunkBytes, half.bytes - offset);
    char* at = half.address + offset;
    protocol.move({!isSend, isSend, isSend ? at : nullptr, isSend ? nullptr : at, static_cast<ssize_t>(size), false});
    offset += size;
  } while (offset < half.bytes);
}

}  // namespace

void runMessages(const Block& block, const std::vector<Message>& messages) {
  std::vector<std::function<void()>> tasks;
  for (const Message& message : messages) {
    if (message.send.isPresent && message.send.peer == block.communicator->rank) {
      // A message to oneself is a copy. The host pairs its two halves.
      if (message.send.address != message.receive.address) {
        std::memmove(message.receive.address, message.send.address, message.send.bytes);
      }
      continue;
    }
    if (message.send.isPresent) tasks.push_back([&] { move(block, message.send, true); });
    if (message.receive.isPresent) tasks.push_back([&] { move(block, message.receive, false); });
  }
  std::atomic<bool> isAborted{false};
  std::vector<std::thread> threads;
  for (const auto& task : tasks) {
    threads.emplace_back([&] {
      try {
        task();
      } catch (const Aborted&) {
        isAborted = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (isAborted) throw Aborted();
}

}  // namespace host_nccl
