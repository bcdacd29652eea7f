// The truth about what ran on the device side: with HOST_NCCL_TRUTH=DIR, a line of JSON per kernel and per work item of
// a channel, in DIR/PROCESS.jsonl. Times are in CLOCK_MONOTONIC_RAW. The README describes the fields.
#pragma once

#include <cstdint>
#include <string>

#include "block.h"
#include "work.h"

namespace host_nccl {

class Truth {
 public:
  static bool isWanted();

  // Begins a line about a launch.
  Truth(const char* kind, const HostLaunch& launch);
  Truth& number(const char* name, int64_t value);
  Truth& text(const char* name, const std::string& value);
  Truth& communicator(const DeviceCommunicator& communicator);
  // Appends the line to the file with one system call.
  void write();

 private:
  std::string line_;
};

// Adds the operation, its sizes and its peers.
void describe(Truth& truth, const Collective& work);
void describe(Truth& truth, const Message& work);

}  // namespace host_nccl
