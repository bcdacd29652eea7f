// Broadcasts of several roots in one batch, from 2.30 on. The broadcasts of a channel take turns, with one chunk each.
#include "nccl_headers.h"

#if NCCL_VERSION_CODE >= 23000

#include <algorithm>

#include "batch.h"
#include "simple_protocol.h"

namespace host_nccl {

void runBroadcasts(const Block& block, const Batch& batch, BatchTruth& truth) {
  const Reduction bytes = {Operator::kSum, ncclInt8, 0};
  const ncclRing& ring = block.channel->ring;
  const int ranks = block.communicator->nRanks;
  const size_t step = block.communicator->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS;
  {
    SimpleProtocol protocol(block, bytes, {1, 1, 0, step}, {ring.prev}, {ring.next});
    std::vector<ncclDevWorkBcast> works;
    for (int i = 0; i < batch.count; i++) works.push_back(batch.work<ncclDevWorkBcast>(i));
    for (bool isLeft = true; isLeft;) {
      isLeft = false;
      for (ncclDevWorkBcast& work : works) {
        const size_t size = std::min(work.bytes, static_cast<size_t>(work.chunkSize));
        if (size == 0) continue;
        SimpleProtocol::Chunk chunk;
        // The ring's depth is this rank's distance from the root.
        const bool isRoot = work.ringDepth == 0;
        chunk.isReceived = !isRoot;
        chunk.isSent = work.ringDepth != ranks - 1;
        chunk.input = isRoot ? static_cast<const char*>(work.sendbuff) + work.bytes_done : nullptr;
        const bool isInPlace = isRoot && work.sendbuff == work.recvbuff;
        chunk.output = isInPlace ? nullptr : static_cast<char*>(work.recvbuff) + work.bytes_done;
        chunk.bytes = size;
        protocol.move(chunk);
        work.bytes -= size;
        work.bytes_done += size;
        isLeft = isLeft || work.bytes > 0;
      }
    }
  }
  for (int i = 0; i < batch.count; i++) {
    const auto& work = batch.work<ncclDevWorkBcast>(i);
    Truth& line = truth.item(isProfiled(batch, i));
    line.text("function", "Broadcast").text("algorithm", "batched ring");
    line.number("channel_bytes", work.bytes).number("ring_depth", work.ringDepth);
  }
}

}  // namespace host_nccl

#endif
