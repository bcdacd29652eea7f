// The work of a block up to 2.22: a chain of structures of 512 bytes, each with several items.
#include "nccl_headers.h"

#if !HOST_NCCL_HAS_BATCHES

#include <algorithm>
#include <cstring>

#include "clocks.h"
#include "delays.h"
#include "function_table.h"
#include "truth.h"
#include "work.h"

namespace host_nccl {

namespace {

struct Arguments {
  ncclDevComm* communicator;
  uint64_t channelMask;
  const ncclWork* head;
};

uint64_t argumentOf(const ncclWorkElem& item) {
  if (!item.redOpArgIsPtr) return item.redOpArg;
  // The type is not known here. NCCL reads as much as the alignment allows.
  uint64_t value = 0;
  const size_t size = item.redOpArg % 2 != 0 ? 1 : item.redOpArg % 4 != 0 ? 2 : item.redOpArg % 8 != 0 ? 4 : 8;
  std::memcpy(&value, reinterpret_cast<const void*>(item.redOpArg), size);
  return value;
}

#if NCCL_VERSION_CODE >= 22100

// The host has divided the data among channels.
void divide(const Block&, const ncclWorkElem& item, Collective& out) {
  const ssize_t chunk = item.chunkCount, onChannel = item.workCount, offset = item.workOffset;
  const ssize_t loop = out.chunks * chunk;
  for (ssize_t at = 0; at < onChannel; at += loop) {
    const bool isLast = out.isRingAllReduce() && onChannel - at < loop;
    out.portions.push_back({offset + at, isLast ? ssize_t(item.lastChunkCount) : chunk, offset + onChannel});
  }
}

#else

ssize_t roundedUp(ssize_t value, ssize_t multiple) { return (value + multiple - 1) / multiple * multiple; }

int chunkSteps(Function function) {
  switch (function) {
    case Function::kAllReduce:
      return ALLREDUCE_CHUNKSTEPS;
    case Function::kAllGather:
      return ALLGATHER_CHUNKSTEPS;
    case Function::kReduceScatter:
      return REDUCESCATTER_CHUNKSTEPS;
    case Function::kBroadcast:
      return BROADCAST_CHUNKSTEPS;
    case Function::kReduce:
      return REDUCE_CHUNKSTEPS;
  }
  return 1;
}

// The channels divide the data among themselves, from the number of channels and of threads.
void divide(const Block& block, const ncclWorkElem& item, Collective& out) {
  const ssize_t element = out.reduction.elementSize(), size = item.count, channels = item.nChannels;
  const ssize_t threads = item.nWarps * WARP_SIZE;
  if (out.algorithm == Algorithm::kTree) {
    const ssize_t smallest = (threads - 2 * WARP_SIZE) * 8 * (8 / element);
    ssize_t chunk = item.lastChunkSize;
    const ssize_t loop = channels * chunk;
    if (loop > size) chunk = (size + channels * smallest - 1) / (channels * smallest) * smallest;
    for (ssize_t at = 0; at < size; at += loop) out.portions.push_back({at + item.bid * chunk, chunk, size});
    return;
  }
  const ssize_t step = block.communicator->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS / element;
  const ssize_t largest = step * chunkSteps(out.function);
  for (ssize_t at = 0; at < size; at += channels * out.chunks * largest) {
    ssize_t chunk = std::min(largest, (size - at + channels * out.chunks - 1) / (channels * out.chunks));
    chunk = roundedUp(chunk, (threads - WARP_SIZE) * 8 / element);
    out.portions.push_back({at + item.bid * out.chunks * chunk, chunk, size});
  }
}

#endif

Collective translated(const Block& block, const DeviceFunction& function, const ncclWorkElem& item) {
  Collective out;
  out.function = function.function;
  out.algorithm = function.algorithm;
  out.reduction = reductionOf(function, argumentOf(item));
  out.input = static_cast<const char*>(item.sendbuff);
  out.output = static_cast<char*>(item.recvbuff);
  out.root = item.root;
  out.count = item.count;
  if (out.isRingAllReduce()) out.chunks = block.communicator->nRanks;
  divide(block, item, out);
  return out;
}

Message::Half half(const Block& block, const ncclWorkElemP2p& item) {
  Message::Half out;
  if (item.p2pType == ncclWorkP2pTypeUnused || item.peer == -1) return out;
  if (item.proto == NCCL_PROTO_LL) notImplemented(block, "a message of protocol LL to or from rank", item.peer);
  out.isPresent = true;
  out.peer = item.peer;
  out.address = reinterpret_cast<char*>(uintptr_t(item.buffHi32) << 32 | item.buffLo32);
  out.bytes = size_t(item.countHi32) << 32 | item.countLo32;
  out.chunkBytes = item.chunkSize;
  return out;
}

// Writes a line of the truth about an item that has ended.
template <typename Item>
void report(const Block& block, const Item& item, int64_t start, uint64_t timerStart) {
  if (!Truth::isWanted()) return;
  Truth line("work", *block.launch);
  line.communicator(*block.communicator).number("channel", block.channelId);
  line.number("start_ns", start).number("end_ns", rawNanoseconds());
  line.number("timer_start", timerStart).number("timer_end", deviceTimer());
  describe(line, item);
  line.write();
}

void runMessages(const Block& block, const ncclWork& work) {
  std::vector<Message> messages;
  // Receives have even places. The send that follows a receive may have another peer.
  for (int i = 0; i < NCCL_MAX_WORK_ELEMENTS_P2P; i += 2) {
    messages.push_back({half(block, work.p2pElems[i + 1]), half(block, work.p2pElems[i])});
  }
  const int64_t start = rawNanoseconds();
  const uint64_t timerStart = deviceTimer();
  runMessages(block, messages);
  for (const Message& message : messages) {
    if (message.send.isPresent || message.receive.isPresent) report(block, message, start, timerStart);
  }
}

void runCollectives(const Block& block, const ncclWork& work) {
  const DeviceFunction function = deviceFunction(work.header.funcIndex);
  const bool isRegistered = work.header.type == ncclWorkTypeRegColl;
  const int places = isRegistered ? NCCL_MAX_WORK_ELEMENTS_REG : NCCL_MAX_WORK_ELEMENTS;
  for (int i = 0; i < places; i++) {
    const ncclWorkElem& item = isRegistered ? work.regElems[i].elem : work.elems[i];
    if (!item.isUsed) break;
    const int64_t start = rawNanoseconds();
    const uint64_t timerStart = deviceTimer();
    if (function.kind == DeviceFunction::kOneRank) {
      const Reduction scale = reductionOf(function, argumentOf(item));
      const auto* input = static_cast<const char*>(item.sendbuff);
      if (item.bid == 0) scale.begin(static_cast<char*>(item.recvbuff), input, item.count * scale.elementSize());
      continue;
    }
    if (function.kind != DeviceFunction::kCollective) notImplemented(block, "function", work.header.funcIndex);
    const Collective collective = translated(block, function, item);
    runCollective(block, collective);
    report(block, collective, start, timerStart);
  }
}

}  // namespace

void runBlock(const HostLaunch* launch, int index) {
  const auto* arguments = static_cast<const Arguments*>(launch->arguments);
  Block block = {launch, arguments->communicator, nullptr, -1};
  if (!block.findChannel(arguments->channelMask, index)) return;
  const ncclWork* next = arguments->head + index;
  try {
    for (;;) {
      const ncclWork work = *next;
      // From here on, the host may overwrite the structures of this kernel.
      if (work.header.isLast && work.header.inFifo) {
        __atomic_store_n(block.channel->workFifoDone, work.header.doneAcks, __ATOMIC_RELEASE);
      }
      if (work.header.type == ncclWorkTypeP2p) {
        runMessages(block, work);
      } else {
        runCollectives(block, work);
      }
      delayWork(block);
      if (work.header.isLast) return;
      next = arguments->head + work.header.workNext;
      block.checkAbort();
    }
  } catch (const Aborted&) {
  }
}

}  // namespace host_nccl

#endif
