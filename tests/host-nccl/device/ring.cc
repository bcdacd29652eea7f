// The ring algorithms. Ranks are numbered by their place in the ring: 0 is this rank, 1 the next.
#include <algorithm>

#include "simple_protocol.h"
#include "work.h"

namespace host_nccl {

namespace {

class Ring {
 public:
  Ring(const Block& block, const Collective& work, int slicesPerChunk, int stepsPerSlice)
      : work_(work),
        ring_(block.channel->ring),
        ranks_(block.communicator->nRanks),
        element_(work.reduction.elementSize()),
        protocol_(
            block, work.reduction,
            {slicesPerChunk, stepsPerSlice, 0,
             static_cast<size_t>(block.communicator->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS)},
            {block.channel->ring.prev}, {block.channel->ring.next}) {}

  void allReduce(const Portion& portion) {
    auto chunk = [&](int place) {
      const ssize_t offset = portion.offset + ((ring_.index + place) % ranks_) * portion.chunk;
      const ssize_t size = std::min(portion.chunk, portion.end - offset);
      return Piece{offset, std::max<ssize_t>(size, 0)};
    };
    send(chunk(ranks_ - 1), input(chunk(ranks_ - 1)), nullptr);
    for (int place = ranks_ - 2; place > 0; place--) pass(chunk(place), input(chunk(place)), nullptr, false);
    pass(chunk(0), input(chunk(0)), output(chunk(0)), true);
    for (int place = ranks_ - 1; place > 1; place--) pass(chunk(place), nullptr, output(chunk(place)), false);
    receive(chunk(1), nullptr, output(chunk(1)), false);
  }

  void allGather(const Portion& portion) {
    const Piece own = piece(portion);
    auto of = [&](int place) { return Piece{own.offset + userRank(place) * count(), own.size}; };
    const char* from = input(own);
    char* kept = output(of(0));
    send(own, from, from == kept ? nullptr : kept);
    for (int place = ranks_ - 1; place > 1; place--) pass(of(place), nullptr, output(of(place)), false);
    receive(of(1), nullptr, output(of(1)), false);
  }

  void reduceScatter(const Portion& portion) {
    const Piece own = piece(portion);
    auto of = [&](int place) { return Piece{own.offset + userRank(place) * count(), own.size}; };
    send(of(ranks_ - 1), input(of(ranks_ - 1)), nullptr);
    for (int place = ranks_ - 2; place > 0; place--) pass(of(place), input(of(place)), nullptr, false);
    receive(own, input(of(0)), output(own), true);
  }

  void broadcast(const Portion& portion) {
    const Piece own = piece(portion);
    if (userRank(0) == work_.root) {
      send(own, input(own), work_.input == work_.output ? nullptr : output(own));
    } else if (userRank(1) == work_.root) {
      receive(own, nullptr, output(own), false);
    } else {
      pass(own, nullptr, output(own), false);
    }
  }

  void reduce(const Portion& portion) {
    const Piece own = piece(portion);
    if (userRank(ranks_ - 1) == work_.root) {
      send(own, input(own), nullptr);
    } else if (userRank(0) == work_.root) {
      receive(own, input(own), output(own), true);
    } else {
      pass(own, input(own), nullptr, false);
    }
  }

 private:
  struct Piece {
    ssize_t offset, size;
  };

  Piece piece(const Portion& portion) const {
    return {portion.offset, std::max<ssize_t>(std::min(portion.chunk, portion.end - portion.offset), 0)};
  }
  ssize_t count() const { return static_cast<ssize_t>(work_.count); }
  int userRank(int place) const { return ring_.userRanks[place]; }
  const char* input(const Piece& piece) const { return work_.input + piece.offset * element_; }
  char* output(const Piece& piece) const { return work_.output + piece.offset * element_; }

  void send(const Piece& piece, const char* input, char* output) { move(false, true, piece, input, output, false); }
  void receive(const Piece& piece, const char* input, char* output, bool isFinal) {
    move(true, false, piece, input, output, isFinal);
  }
  // Receives and sends on.
  void pass(const Piece& piece, const char* input, char* output, bool isFinal) {
    move(true, true, piece, input, output, isFinal);
  }
  void move(bool isReceived, bool isSent, const Piece& piece, const char* input, char* output, bool isFinal) {
    protocol_.move({isReceived, isSent, input, output, piece.size * element_, isFinal});
  }

  const Collective& work_;
  const ncclRing& ring_;
  const int ranks_;
  const ssize_t element_;
  SimpleProtocol protocol_;
};

}  // namespace

void runRing(const Block& block, const Collective& work) {
  auto each = [&](int chunkSteps, int sliceSteps, void (Ring::*run)(const Portion&)) {
    Ring ring(block, work, chunkSteps / sliceSteps, sliceSteps);
    for (const Portion& portion : work.portions) (ring.*run)(portion);
  };
  switch (work.function) {
    case Function::kAllReduce:
      return each(ALLREDUCE_CHUNKSTEPS, ALLREDUCE_SLICESTEPS, &Ring::allReduce);
    case Function::kAllGather:
      return each(ALLGATHER_CHUNKSTEPS, ALLGATHER_SLICESTEPS, &Ring::allGather);
    case Function::kReduceScatter:
      return each(REDUCESCATTER_CHUNKSTEPS, REDUCESCATTER_SLICESTEPS, &Ring::reduceScatter);
    case Function::kBroadcast:
      return each(BROADCAST_CHUNKSTEPS, BROADCAST_SLICESTEPS, &Ring::broadcast);
    case Function::kReduce:
      return each(REDUCE_CHUNKSTEPS, REDUCE_SLICESTEPS, &Ring::reduce);
  }
}

void runCollective(const Block& block, const Collective& work) {
  if (work.algorithm == Algorithm::kRing) return runRing(block, work);
  runTree(block, work);
}

}  // namespace host_nccl
