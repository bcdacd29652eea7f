// Batches of work, in the layout of 2.23 and later, and the truth about them.
#pragma once

#include <vector>

#include "clocks.h"
#include "truth.h"
#include "work.h"

namespace host_nccl {

#if NCCL_VERSION_CODE >= 23000
constexpr size_t kBatchBytes = ncclMaxDevWorkBatchBytes(900);
#else
constexpr size_t kBatchBytes = 1024;
#endif

// A batch with those that extend it, copied as a block copies it to its shared memory.
struct Batch {
  int workType, function, count = 0, next = -1;
  // Larger than a batch, because isProfiled may read after its end.
  alignas(16) char storage[kBatchBytes * 4] = {};

  template <typename Work>
  const Work& work(int index) const {
    return reinterpret_cast<const Work*>(storage)[index];
  }
};

#if HOST_NCCL_HAS_PROFILER

// Like the kernels, this interprets all work except messages as the structure of a collective. The batched broadcasts
// of 2.30 have other fields there.
inline bool isProfiled(const Batch& batch, int index) {
  return batch.workType == ncclDevWorkTypeP2p ? batch.work<ncclDevWorkP2p>(index).profilerEnabled
                                              : batch.work<ncclDevWorkColl>(index).profilerEnabled;
}

#endif

// Writes the lines of the truth for one batch.
class BatchTruth {
 public:
  // Takes the number of work items before the batch, and the device's time for the start of each.
  BatchTruth(const Block& block, uint64_t counter, std::vector<uint64_t> starts)
      : block_(block), counter_(counter), starts_(std::move(starts)), start_(rawNanoseconds()) {}

  // A work item has ended. Returns its line, to which the caller adds what it knows.
  Truth& item(bool isProfiled) {
    lines_.emplace_back("work", *block_.launch);
    Truth& line = lines_.back();
    line.communicator(*block_.communicator).number("channel", block_.channelId);
    line.number("work_counter", ++counter_).number("profiled", isProfiled);
    line.number("start_ns", start_).number("end_ns", rawNanoseconds());
    line.number("timer_start", starts_[lines_.size() - 1]);
    return line;
  }

  // Sets the start of the next item to now, instead of the start of the batch.
  void startNext() { start_ = rawNanoseconds(); }

  // Takes the device's time for the end of each item. An abort leaves items without a line.
  void write(const std::vector<uint64_t>& ends) {
    for (size_t i = 0; i < lines_.size(); i++) lines_[i].number("timer_end", ends[i]).write();
  }

 private:
  const Block& block_;
  uint64_t counter_;
  const std::vector<uint64_t> starts_;
  int64_t start_;
  std::vector<Truth> lines_;
};

#if NCCL_VERSION_CODE >= 23000
// Broadcasts of several roots in one batch.
void runBroadcasts(const Block& block, const Batch& batch, BatchTruth& truth);
#endif

}  // namespace host_nccl
