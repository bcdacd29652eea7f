// The program's own report of its calls: a line of JSON per call of NCCL, in $TRUTH_DIR/rank<R>.jsonl (standard output
// without TRUTH_DIR). count and element_size are the call's own, as in tests/programs/truth.h. The program writes a line
// when the call has returned.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "nccl.h"

// The fields of a call's line. Fields of -1 and empty texts are left out.
struct Call {
  std::string function, operation, communicator;
  long count = -1, elementSize = -1;
  int root = -1, peer = -1;
  // The rank, and the number of ranks, in the communicator that the call creates.
  int rank = -1, ranks = -1;
  unsigned long long stream = 0;
};

class Report {
 public:
  explicit Report(int rank);

  // Begins a case. The calls that follow belong to it.
  void begin(const std::string& name);
  // Ends the case with the number of wrong elements. Returns whether there are none.
  bool end(size_t wrong);

  void call(const Call& call, ncclResult_t result);

  // Between both, calls belong to a group.
  void groupStart();
  void groupEnd();
  // Whether the calls that follow are captured.
  void captured(bool is) { isCaptured_ = is; }
  // A graph with captured calls was launched.
  void replay(int number);

 private:
  void line(const std::string& text);

  std::FILE* file_;
  std::mutex mutex_;
  std::string case_;
  int depth_ = 0, group_ = 0, groups_ = 0;
  bool isCaptured_ = false;
};
