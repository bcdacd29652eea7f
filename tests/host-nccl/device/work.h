// Work for one channel, in a form that all versions' work structures translate to.
#pragma once

#include <sys/types.h>

#include <vector>

#include "block.h"
#include "reduction.h"

namespace host_nccl {

enum class Function { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce };
enum class Algorithm { kRing, kTree };

// One loop of a collective over a part of the data, in elements. `end` is the end of all data, or of this channel's.
struct Portion {
  ssize_t offset, chunk, end;
};

struct Collective {
  Function function;
  Algorithm algorithm;
  Reduction reduction;
  const char* input;
  char* output;
  int root;
  // Elements per rank.
  size_t count;
  std::vector<Portion> portions;
  // Chunks of a portion: one per rank in a ring all-reduce, and one in all other algorithms.
  ssize_t chunks = 1;

  bool isRingAllReduce() const { return function == Function::kAllReduce && algorithm == Algorithm::kRing; }
};

// A send and a receive that the host has paired. Each half is the part of this channel.
struct Message {
  struct Half {
    bool isPresent = false;
    int peer = -1;
    char* address = nullptr;
    size_t bytes = 0;
    size_t chunkBytes = 0;
  };
  Half send, receive;
};

void runCollective(const Block& block, const Collective& work);
void runRing(const Block& block, const Collective& work);
void runTree(const Block& block, const Collective& work);
// Messages of one batch move at the same time.
void runMessages(const Block& block, const std::vector<Message>& messages);

// Runs all work of one block. Each layout of the work structures has its own file.
void runBlock(const HostLaunch* launch, int index);

}  // namespace host_nccl
