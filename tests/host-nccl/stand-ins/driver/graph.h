// Graphs and their capture. A graph runs in the order of its dependencies. Branches that do not depend on each other run
// at the same time.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace host_nccl {

class Stream;

// Whether the work runs as part of a graph.
struct Replay {
  bool isGraph;
};
typedef std::function<void(Replay)> Work;
// Work that depends on the launch. The driver calls this when the host launches the graph. It runs the result when all
// nodes before it are complete.
typedef std::function<Work()> WorkOfLaunch;

struct Node {
  CUgraphNodeType type;
  std::vector<Node*> dependencies;
  Work work;
  WorkOfLaunch workOfLaunch;
  // Whether it comes from the capture of a stream. Other nodes need not be joined.
  bool isCaptured = false;
};

// An object of the user, whose function runs when no graph refers to it.
class UserObject {
 public:
  UserObject(void* object, CUhostFn destroy) : object_(object), destroy_(destroy) {}
  ~UserObject() { destroy_(object_); }

 private:
  void* object_;
  CUhostFn destroy_;
};

class Graph {
 public:
  Node* add(CUgraphNodeType type, std::vector<Node*> dependencies, Work work, bool isCaptured = false);

  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::shared_ptr<UserObject>> objects;
};

// A graph that can run. It is a copy, because the graph may change or be destroyed.
class Executable {
 public:
  explicit Executable(const Graph& graph);
  // Returns the work of one launch, which runs in the order of the stream.
  Work launch(const std::shared_ptr<Executable>& self) const;

 private:
  struct Step {
    Work work;
    WorkOfLaunch workOfLaunch;
    std::vector<size_t> next;
    int waitsFor = 0;
  };
  class Run;
  std::vector<Step> steps_;
  // The numbers of the steps. Each step comes after those that it depends on.
  std::vector<size_t> order_;
  std::vector<std::shared_ptr<UserObject>> objects_;
  // Two launches of one executable graph do not overlap.
  std::mutex mutex_;
};

// One capture: the streams that take part in it share this.
struct Capture {
  Graph* graph;
  unsigned long long id;
  const Stream* origin;
  bool isEnded = false;

  // Guards all captures and the graphs that are being captured.
  static std::mutex& mutex();
};

}  // namespace host_nccl
