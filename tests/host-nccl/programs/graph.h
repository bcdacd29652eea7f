// A graph of calls.
#pragma once

#include "rank.h"

class Graph {
 public:
  // Captures what the function does on the member's stream.
  template <typename Function>
  Graph(Member& member, Function function) : member_(member) {
    begin();
    function();
    end();
  }
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch() const;

 private:
  void begin();
  void end();

  Member& member_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  mutable int launches_ = 0;
};
