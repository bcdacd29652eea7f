// The program's own report of its operations: one JSON line per finished operation, in $TRUTH_DIR/rank<R>.jsonl
// (standard output without TRUTH_DIR). Every line is flushed: a killed program has reported everything that it
// finished.
//
// count and element_size are the call's own (METRICS.md 2): the send count of an all-gather, the count per peer of an
// all-to-all, gather or scatter. The v-variants have counts to and from each peer.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

class Truth {
 public:
  explicit Truth(int rank) {
    const char* directory = std::getenv("TRUTH_DIR");
    file_ = stdout;
    if (directory != nullptr) {
      const std::string path = std::string(directory) + "/rank" + std::to_string(rank) + ".jsonl";
      file_ = std::fopen(path.c_str(), "ae");
      if (file_ == nullptr) {
        std::perror(path.c_str());
        std::exit(2);
      }
    }
  }

  // root and peer are -1 if the operation has none.
  void operation(
      const char* communicator, const char* name, size_t count, size_t elementSize, unsigned tag, int root = -1,
      int peer = -1) {
    std::lock_guard<std::mutex> guard(mutex_);
    head(communicator, name, elementSize, tag, root);
    std::fprintf(file_, ",\"count\":%zu,\"bytes\":%zu,\"peer\":%d}\n", count, count * elementSize, peer);
    std::fflush(file_);
  }

  template <typename Count>
  void uneven(
      const char* communicator, const char* name, const std::vector<Count>& to, const std::vector<Count>& from,
      size_t elementSize, unsigned tag, int root = -1) {
    std::lock_guard<std::mutex> guard(mutex_);
    head(communicator, name, elementSize, tag, root);
    list("to", to);
    list("from", from);
    std::fputs("}\n", file_);
    std::fflush(file_);
  }

 private:
  void head(const char* communicator, const char* name, size_t elementSize, unsigned tag, int root) {
    std::fprintf(
        file_, "{\"communicator\":\"%s\",\"op\":\"%s\",\"element_size\":%zu,\"tag\":%u,\"root\":%d", communicator,
        name, elementSize, tag, root);
  }

  template <typename Count>
  void list(const char* name, const std::vector<Count>& counts) {
    std::fprintf(file_, ",\"%s\":[", name);
    for (size_t i = 0; i < counts.size(); i++) {
      std::fprintf(file_, "%s%zu", i == 0 ? "" : ",", static_cast<size_t>(counts[i]));
    }
    std::fputs("]", file_);
  }

  std::FILE* file_;
  std::mutex mutex_;
};
