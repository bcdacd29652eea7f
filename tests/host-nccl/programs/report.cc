#include "report.h"

#include <cstdlib>

Report::Report(int rank) : file_(stdout) {
  const char* directory = std::getenv("TRUTH_DIR");
  if (directory == nullptr) return;
  const std::string path = std::string(directory) + "/rank" + std::to_string(rank) + ".jsonl";
  file_ = std::fopen(path.c_str(), "ae");
  if (file_ == nullptr) {
    std::perror(path.c_str());
    std::exit(2);
  }
}

static std::string number(const char* name, long value) {
  return std::string(",\"") + name + "\":" + std::to_string(value);
}

static std::string text(const char* name, const std::string& value) {
  return std::string(",\"") + name + "\":\"" + value + "\"";
}

// Each line is flushed, so that a killed program has reported all calls that returned.
void Report::line(const std::string& text) {
  std::fprintf(file_, "{\"case\":\"%s\"%s}\n", case_.c_str(), text.c_str());
  std::fflush(file_);
}

void Report::begin(const std::string& name) {
  std::lock_guard<std::mutex> guard(mutex_);
  case_ = name;
}

bool Report::end(size_t wrong) {
  std::lock_guard<std::mutex> guard(mutex_);
  line(number("wrong", static_cast<long>(wrong)));
  return wrong == 0;
}

void Report::call(const Call& call, ncclResult_t result) {
  std::lock_guard<std::mutex> guard(mutex_);
  std::string out = text("call", call.function);
  if (!call.operation.empty()) out += text("op", call.operation);
  if (!call.communicator.empty()) out += text("communicator", call.communicator);
  if (call.count >= 0) {
    out += number("count", call.count) + number("element_size", call.elementSize);
    out += number("bytes", call.count * call.elementSize);
    out += number("root", call.root) + number("peer", call.peer);
  }
  if (call.rank >= 0) out += number("rank", call.rank) + number("ranks", call.ranks);
  if (call.stream != 0) out += number("stream", static_cast<long>(call.stream));
  line(out + number("group", group_) + number("captured", isCaptured_) + number("result", result));
}

void Report::groupStart() {
  std::lock_guard<std::mutex> guard(mutex_);
  if (depth_++ == 0) group_ = ++groups_;
}

void Report::groupEnd() {
  std::lock_guard<std::mutex> guard(mutex_);
  if (--depth_ == 0) group_ = 0;
}

void Report::replay(int replay) {
  std::lock_guard<std::mutex> guard(mutex_);
  line(text("call", "cudaGraphLaunch") + number("replay", replay));
}
