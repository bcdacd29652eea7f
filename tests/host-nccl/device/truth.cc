#include "truth.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace host_nccl {

static const char* directory() {
  static const char* const value = std::getenv("HOST_NCCL_TRUTH");
  return value;
}

bool Truth::isWanted() { return directory() != nullptr; }

Truth::Truth(const char* kind, const HostLaunch& launch) {
  line_ = std::string("{\"kind\":\"") + kind + "\"";
  number("process", getpid());
  number("device", launch.device);
  text("kernel", launch.kernel);
  number("launch", launch.number);
  number("stream", launch.stream);
  number("graph", launch.isReplay);
}

Truth& Truth::number(const char* name, int64_t value) {
  line_ += std::string(",\"") + name + "\":" + std::to_string(value);
  return *this;
}

Truth& Truth::text(const char* name, const std::string& value) {
  line_ += std::string(",\"") + name + "\":\"" + value + "\"";
  return *this;
}

Truth& Truth::communicator(const DeviceCommunicator& communicator) {
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<const void*>(&communicator));
  text("communicator", address);
  number("rank", communicator.rank);
  return number("ranks", communicator.nRanks);
}

void Truth::write() {
  static std::mutex& mutex = *new std::mutex;
  static int file = -1, owner = 0;
  std::lock_guard<std::mutex> guard(mutex);
  // A forked child gets a separate file.
  if (owner != getpid()) {
    const std::string path = std::string(directory()) + "/" + std::to_string(getpid()) + ".jsonl";
    file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    owner = getpid();
    if (file < 0) std::perror(path.c_str());
  }
  line_ += "}\n";
  if (::write(file, line_.data(), line_.size()) < 0) std::perror("HOST_NCCL_TRUTH");
}

static const char* name(Function function) {
  switch (function) {
    case Function::kAllReduce:
      return "AllReduce";
    case Function::kAllGather:
      return "AllGather";
    case Function::kReduceScatter:
      return "ReduceScatter";
    case Function::kBroadcast:
      return "Broadcast";
    case Function::kReduce:
      return "Reduce";
  }
  return "";
}

void describe(Truth& truth, const Collective& work) {
  size_t onChannel = 0;
  for (const Portion& portion : work.portions) {
    // Chunks after the end are empty.
    const ssize_t size = std::min(portion.end - portion.offset, work.chunks * portion.chunk);
    if (size > 0) onChannel += size;
  }
  const size_t element = work.reduction.elementSize();
  truth.text("function", name(work.function));
  truth.text("algorithm", work.algorithm == Algorithm::kRing ? "ring" : "tree");
  truth.number("count", work.count).number("element_size", element).number("bytes", work.count * element);
  truth.number("channel_bytes", onChannel * element);
  if (work.function == Function::kBroadcast || work.function == Function::kReduce) truth.number("root", work.root);
}

void describe(Truth& truth, const Message& work) {
  truth.text("function", "SendRecv");
  if (work.send.isPresent) truth.number("send_peer", work.send.peer).number("send_bytes", work.send.bytes);
  if (work.receive.isPresent) truth.number("recv_peer", work.receive.peer).number("recv_bytes", work.receive.bytes);
}

}  // namespace host_nccl
