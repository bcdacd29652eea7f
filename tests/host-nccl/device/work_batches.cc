// The work of a block since 2.23: a list of batches after the kernel's arguments. Each batch names work structures in
// the arguments or in a buffer.
#include "nccl_headers.h"

#if HOST_NCCL_HAS_BATCHES

#include <cstring>

#include "batch.h"
#include "clocks.h"
#include "comm.h"
#include "delays.h"
#include "function_table.h"
#include "truth.h"
#include "work.h"

namespace host_nccl {

namespace {

const char* workAt(const ncclDevKernelArgs* arguments, uint32_t offset) {
  if (arguments->workStorageType == ncclDevWorkStorageTypeArgs) {
    return reinterpret_cast<const char*>(arguments) + offset;
  }
  return static_cast<const char*>(arguments->workBuf) + (offset & arguments->workMask);
}

Batch loadBatch(const Block& block, const ncclDevKernelArgs* arguments, int index) {
  Batch out;
  const auto* batches = reinterpret_cast<const ncclDevWorkBatch*>(arguments + 1);
  for (;;) {
    const ncclDevWorkBatch& batch = batches[index];
    out.workType = batch.workType;
    out.function = batch.funcId;
    const size_t size = ncclDevWorkSize(static_cast<ncclDevWorkType>(batch.workType));
    for (uint32_t bit = 0; bit < 64; bit++) {
      if ((batch.offsetBitset >> bit & 1) == 0) continue;
      if ((out.count + 1) * size > kBatchBytes) notImplemented(block, "a batch of work items:", out.count + 1);
      char* to = out.storage + out.count++ * size;
      // The buffer may wrap around within a structure.
      for (size_t at = 0; at < size; at += 16) {
        std::memcpy(to + at, workAt(arguments, batch.offsetBase + bit * size + at), 16);
      }
    }
    if (batch.nextJump != 0) index += batch.nextJump;
    if (!batch.nextExtends) {
      out.next = batch.nextJump == 0 ? -1 : index;
      return out;
    }
  }
}

// Reads the timer for each item of a batch, and writes the times that the host wants to know. Returns all times.
std::vector<uint64_t> mark(const Block& block, const Batch& batch, bool isStart, uint64_t counter) {
  std::vector<uint64_t> times;
  for (int i = 0; i < batch.count; i++) {
    times.push_back(deviceTimer());
#if HOST_NCCL_HAS_PROFILER
    counter++;
    if (!isProfiled(batch, i)) continue;
    ncclDevProfiler* profiler = isStart ? block.communicator->workStarted : block.communicator->workCompleted;
    auto& entry = profiler[block.channelId].data[counter % MAX_PROFILER_EVENTS_PER_CHANNEL];
    entry.timestamp = times.back();
    // The proxy reads the time when it sees the counter.
    store(&entry.counter, counter);
#endif
  }
  return times;
}

Collective translated(const Block& block, const DeviceFunction& function, const ncclDevWorkColl& given) {
  ncclDevWorkColl work = given;
  if (work.redOpArgIsPtr) work.redOpArg = argumentAt(function.type, work.redOpArg);
  Collective out;
  out.function = function.function;
  out.algorithm = function.algorithm;
  out.reduction = reductionOf(function, work.redOpArg);
  out.input = static_cast<const char*>(work.sendbuff);
  out.output = static_cast<char*>(work.recvbuff);
  out.root = work.root;
  const ssize_t element = out.reduction.elementSize();
  ssize_t count, offset, onChannel, chunk;
  ncclCollCbdPart(
      &work, block.channelId, NCCL_PROTO_SIMPLE, static_cast<int>(element), &count, &offset, &onChannel, &chunk);
  out.count = count;
  if (out.isRingAllReduce()) out.chunks = block.communicator->nRanks;
  const ssize_t loop = out.chunks * chunk;
  for (ssize_t at = 0; at < onChannel; at += loop) {
    ssize_t part = chunk;
    // The last loop of a ring all-reduce divides what is left, at multiples of 16 bytes.
    if (out.isRingAllReduce() && onChannel - at < loop) {
      part = alignUp(divUp(onChannel - at, out.chunks), 16 / element);
    }
    out.portions.push_back({offset + at, part, offset + onChannel});
  }
  return out;
}

Message::Half half(const Block& block, const ncclDevWorkP2p& work, bool isSend) {
  Message::Half out;
  const int parts = isSend ? work.nSendChannels : work.nRecvChannels;
  const int part = ncclP2pChannelToPart(work.nP2pChannels, work.channelBase, block.channelId);
  if (part >= parts) return out;
  if (isSend ? work.sendProtoLL : work.recvProtoLL) notImplemented(block, "a message of protocol LL, part", part);
  size_t begin, end;
  ncclP2pPartBounds(parts, part, isSend ? work.sendBytes : work.recvBytes, &begin, &end);
  out.isPresent = true;
  out.peer = isSend ? work.sendRank : work.recvRank;
  out.address = static_cast<char*>(isSend ? work.sendAddr : work.recvAddr) + begin;
  out.bytes = end - begin;
  out.chunkBytes = u32fp8Decode(isSend ? work.sendChunkSize_u32fp8 : work.recvChunkSize_u32fp8);
  return out;
}

void runMessages(const Block& block, const Batch& batch, BatchTruth& truth) {
  std::vector<Message> messages;
  for (int i = 0; i < batch.count; i++) {
    const auto& work = batch.work<ncclDevWorkP2p>(i);
    messages.push_back({half(block, work, true), half(block, work, false)});
  }
  runMessages(block, messages);
  for (int i = 0; i < batch.count; i++) {
    describe(truth.item(batch.work<ncclDevWorkP2p>(i).profilerEnabled), messages[i]);
  }
}

void runCollectives(const Block& block, const Batch& batch, BatchTruth& truth) {
  const DeviceFunction function = deviceFunction(batch.function);
  if (function.kind != DeviceFunction::kCollective) notImplemented(block, "function", batch.function);
  for (int i = 0; i < batch.count; i++) {
    const bool isRegistered = batch.workType == ncclDevWorkTypeCollReg;
    const auto& work = isRegistered ? batch.work<ncclDevWorkCollReg>(i).coll : batch.work<ncclDevWorkColl>(i);
    const Collective collective = translated(block, function, work);
    runCollective(block, collective);
    describe(truth.item(work.profilerEnabled), collective);
    truth.startNext();
  }
}

void runBatch(const Block& block, const Batch& batch, BatchTruth& truth) {
  switch (batch.workType) {
    case ncclDevWorkTypeP2p:
      return runMessages(block, batch, truth);
    case ncclDevWorkTypeColl:
    case ncclDevWorkTypeCollReg:
      return runCollectives(block, batch, truth);
#if NCCL_VERSION_CODE >= 23000
    case ncclDevWorkTypeBcast:
      return runBroadcasts(block, batch, truth);
#endif
    default:
      notImplemented(block, "work type", batch.workType);
  }
}

}  // namespace

void runBlock(const HostLaunch* launch, int index) {
  const auto* arguments = static_cast<const ncclDevKernelArgs*>(launch->arguments);
  Block block = {launch, arguments->comm, nullptr, -1};
  if (!block.findChannel(arguments->channelMask, index)) return;
#if HOST_NCCL_HAS_PROFILER
  uint64_t counter = block.channel->workCounter;
#else
  uint64_t counter = 0;
#endif
  bool isAborted = false;
  for (int next = index; next >= 0 && !isAborted;) {
    const Batch batch = loadBatch(block, arguments, next);
    next = batch.next;
    BatchTruth truth(block, counter, mark(block, batch, true, counter));
    try {
      runBatch(block, batch, truth);
      delayWork(block);
    } catch (const Aborted&) {
      isAborted = true;
    }
    const std::vector<uint64_t> ends = mark(block, batch, false, counter);
    counter += batch.count;
    if (Truth::isWanted()) truth.write(ends);
  }
#if HOST_NCCL_HAS_PROFILER
  block.channel->workCounter = counter;
#endif
}

}  // namespace host_nccl

#endif
