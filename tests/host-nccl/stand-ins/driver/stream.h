// A stream: a thread that takes work from a queue, so that work runs after the call that submits it.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "graph.h"

namespace host_nccl {

class Context;

// One completion that others wait for. Later records of an event do not affect a wait.
class Signal {
 public:
  void complete();
  void wait();
  bool isComplete();
  int64_t nanoseconds();

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool isComplete_ = false;
  int64_t nanoseconds_ = 0;
};

class Stream {
 public:
  Stream(Context* context, unsigned flags, int priority);

  // Returns the stream of a handle. The handle is predefined, or cuStreamCreate returned it.
  static std::shared_ptr<Stream> of(CUstream handle);

  // Adds work: to the graph if the stream is captured, else to the queue. The legacy stream and blocking streams wait
  // for each other.
  CUresult submit(CUgraphNodeType type, Work work);
  // Adds to the queue, even if the stream is captured.
  void enqueue(std::function<void()> work);
  // Returns a signal that completes after all work that is queued now.
  std::shared_ptr<Signal> mark();

  void synchronize();
  bool isIdle();
  // Ends the thread after the work that is queued.
  void close();

  Context* const context;
  const unsigned flags;
  const int priority;
  const unsigned long long id;

  // The capture that this stream takes part in, and the nodes that its next node depends on. The lock of captures
  // guards both.
  std::shared_ptr<Capture> capture;
  std::vector<Node*> dependencies;

 private:
  // The thread owns the queue with the stream: a stream may be destroyed while it works.
  struct Queue;
  void waitForOthers();
  std::shared_ptr<Queue> queue_;
};

}  // namespace host_nccl
