// The tree algorithm of all-reduce: results go up to the root, and the root's down to all.
#include <algorithm>
#include <exception>
#include <thread>

#include "simple_protocol.h"
#include "work.h"

namespace host_nccl {

namespace {

struct Tree {
  const Block& block;
  const Collective& work;
  std::vector<int> up, down;
  const ssize_t element;

  SimpleProtocol protocol(const std::vector<int>& receiveFrom, const std::vector<int>& sendTo) const {
    const size_t step = block.communicator->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS;
    return SimpleProtocol(block, work.reduction, {1, 1, 0, step}, receiveFrom, sendTo);
  }

  template <typename Move>
  void each(Move move) const {
    for (const Portion& portion : work.portions) {
      const ssize_t size = std::max<ssize_t>(std::min(portion.chunk, portion.end - portion.offset), 0);
      move(work.input + portion.offset * element, work.output + portion.offset * element, size * element);
    }
  }

  void root() const {
    SimpleProtocol both = protocol(down, down);
    each([&](const char* input, char* output, ssize_t bytes) { both.move({true, true, input, output, bytes, true}); });
  }

  void reduceUp() const {
    SimpleProtocol upwards = protocol(down, up);
    const bool isLeaf = down.empty();
    each([&](const char* input, char*, ssize_t bytes) {
      upwards.move({!isLeaf, true, input, nullptr, bytes, false});
    });
  }

  void broadcastDown() const {
    SimpleProtocol downwards = protocol(up, down);
    const bool isLeaf = down.empty();
    each([&](const char*, char* output, ssize_t bytes) {
      downwards.move({true, !isLeaf, nullptr, output, bytes, false});
    });
  }
};

}  // namespace

void runTree(const Block& block, const Collective& work) {
  if (work.function != Function::kAllReduce) notImplemented(block, "a tree of function", int(work.function));
  const ncclTree& links = block.channel->tree;
  Tree tree = {block, work, {}, {}, static_cast<ssize_t>(work.reduction.elementSize())};
  if (links.up >= 0) tree.up.push_back(links.up);
  for (int peer : links.down) {
    if (peer >= 0) tree.down.push_back(peer);
  }
  if (tree.up.empty()) return tree.root();
  // Both directions at once: with one after the other, the root would wait for a child that waits for the root.
  std::exception_ptr failure;
  std::thread downwards([&] {
    try {
      tree.broadcastDown();
    } catch (const Aborted&) {
      failure = std::current_exception();
    }
  });
  try {
    tree.reduceUp();
  } catch (const Aborted&) {
    downwards.join();
    throw;
  }
  downwards.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace host_nccl
