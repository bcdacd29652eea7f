#include "graph.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <thread>

#include "../exported.h"
#include "event.h"
#include "log.h"
#include "stream.h"

namespace host_nccl {

Node* Graph::add(CUgraphNodeType type, std::vector<Node*> dependencies, Work work, bool isCaptured) {
  nodes.push_back(std::unique_ptr<Node>(new Node{type, std::move(dependencies), std::move(work), nullptr, isCaptured}));
  return nodes.back().get();
}

std::mutex& Capture::mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

Executable::Executable(const Graph& graph) : steps_(graph.nodes.size()), objects_(graph.objects) {
  std::map<const Node*, size_t> numbers;
  for (size_t i = 0; i < graph.nodes.size(); i++) numbers[graph.nodes[i].get()] = i;
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    steps_[i].work = graph.nodes[i]->work;
    steps_[i].workOfLaunch = graph.nodes[i]->workOfLaunch;
    for (const Node* before : graph.nodes[i]->dependencies) {
      steps_[numbers.at(before)].next.push_back(i);
      steps_[i].waitsFor++;
    }
  }
  std::vector<int> missing;
  for (size_t i = 0; i < steps_.size(); i++) {
    missing.push_back(steps_[i].waitsFor);
    if (missing[i] == 0) order_.push_back(i);
  }
  for (size_t at = 0; at < order_.size(); at++) {
    for (size_t next : steps_[order_[at]].next) {
      if (--missing[next] == 0) order_.push_back(next);
    }
  }
}

// One run: counts for each step how many of the steps before it are missing.
class Executable::Run {
 public:
  Run(const std::vector<Step>& steps, const std::vector<Work>& work)
      : steps_(steps), work_(work), missing_(steps.size()), left_(steps.size()) {
    for (size_t i = 0; i < steps.size(); i++) missing_[i] = steps[i].waitsFor;
  }

  void all() {
    std::vector<size_t> first;
    for (size_t i = 0; i < steps_.size(); i++) {
      if (steps_[i].waitsFor == 0) first.push_back(i);
    }
    follow(first);
    std::unique_lock<std::mutex> lock(mutex_);
    isDone_.wait(lock, [this] { return left_ == 0 && branches_ == 0; });
  }

 private:
  // Runs steps that are ready, and what follows from them. This thread takes the first branch, new threads the others.
  void follow(std::vector<size_t> ready) {
    while (!ready.empty()) {
      for (size_t i = 1; i < ready.size(); i++) branch(ready[i]);
      const size_t now = ready[0];
      if (work_[now]) work_[now](Replay{true});
      ready.clear();
      std::lock_guard<std::mutex> guard(mutex_);
      for (size_t next : steps_[now].next) {
        if (--missing_[next] == 0) ready.push_back(next);
      }
      left_--;
      isDone_.notify_all();
    }
  }

  void branch(size_t step) {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      branches_++;
    }
    std::thread([this, step] {
      follow({step});
      std::lock_guard<std::mutex> guard(mutex_);
      branches_--;
      isDone_.notify_all();
    }).detach();
  }

  const std::vector<Step>& steps_;
  const std::vector<Work>& work_;
  std::vector<int> missing_;
  size_t left_;
  int branches_ = 0;
  std::mutex mutex_;
  std::condition_variable isDone_;
};

Work Executable::launch(const std::shared_ptr<Executable>& self) const {
  std::vector<Work> work(steps_.size());
  for (size_t i : order_) work[i] = steps_[i].workOfLaunch ? steps_[i].workOfLaunch() : steps_[i].work;
  return [self, work = std::move(work)](Replay) {
    std::lock_guard<std::mutex> guard(self->mutex_);
    Run(self->steps_, work).all();
  };
}

}  // namespace host_nccl

using host_nccl::Capture;
using host_nccl::Executable;
using host_nccl::Graph;
using host_nccl::Node;
using host_nccl::Replay;
using host_nccl::Stream;
using host_nccl::UserObject;
using host_nccl::Work;

static CUresult add(
    CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraphNodeType type, Work work) {
  auto* const* nodes = reinterpret_cast<Node* const*>(dependencies);
  std::lock_guard<std::mutex> guard(Capture::mutex());
  *node = reinterpret_cast<CUgraphNode>(
      reinterpret_cast<Graph*>(graph)->add(type, {nodes, nodes + count}, std::move(work)));
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  *graph = reinterpret_cast<CUgraph>(new Graph);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<Graph*>(graph);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY, nullptr);
}

EXPORTED CUresult cuGraphAddHostNode(
    CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
    const CUDA_HOST_NODE_PARAMS* parameters) {
  const CUhostFn function = parameters->fn;
  void* const data = parameters->userData;
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST, [=](Replay) { function(data); });
}

EXPORTED CUresult cuGraphAddEventRecordNode(
    CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUevent handle) {
  const CUresult result = add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, nullptr);
  reinterpret_cast<Node*>(*node)->workOfLaunch = host_nccl::recordWork(host_nccl::Event::of(handle));
  return result;
}

EXPORTED CUresult cuGraphAddEventWaitNode(
    CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUevent handle) {
  const CUresult result = add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, nullptr);
  reinterpret_cast<Node*>(*node)->workOfLaunch = host_nccl::waitWork(host_nccl::Event::of(handle));
  return result;
}

#undef cuGraphAddDependencies_v2
EXPORTED CUresult cuGraphAddDependencies_v2(
    CUgraph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*, size_t count) {
  std::lock_guard<std::mutex> guard(Capture::mutex());
  for (size_t i = 0; i < count; i++) {
    reinterpret_cast<Node*>(to[i])->dependencies.push_back(reinterpret_cast<Node*>(from[i]));
  }
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

EXPORTED CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const auto& all = reinterpret_cast<Graph*>(graph)->nodes;
  for (size_t i = 0; nodes != nullptr && i < *count && i < all.size(); i++) {
    nodes[i] = reinterpret_cast<CUgraphNode>(all[i].get());
  }
  *count = all.size();
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->type;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  std::lock_guard<std::mutex> guard(Capture::mutex());
  auto* made = new std::shared_ptr<Executable>(std::make_shared<Executable>(*reinterpret_cast<Graph*>(graph)));
  *executable = reinterpret_cast<CUgraphExec>(made);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  const auto shared = *reinterpret_cast<std::shared_ptr<Executable>*>(executable);
  return Stream::of(stream)->submit(CU_GRAPH_NODE_TYPE_GRAPH, shared->launch(shared));
}

EXPORTED CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }

// A launch that is under way keeps what it needs.
EXPORTED CUresult cuGraphExecDestroy(CUgraphExec executable) {
  delete reinterpret_cast<std::shared_ptr<Executable>*>(executable);
  return CUDA_SUCCESS;
}

// The handle owns one reference. NCCL moves it to the graph and uses the handle no more.
EXPORTED CUresult cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy, unsigned count, unsigned) {
  if (count != 1) host_nccl::logOnce("cuUserObjectCreate with several references");
  *object = reinterpret_cast<CUuserObject>(
      new std::shared_ptr<UserObject>(std::make_shared<UserObject>(pointer, destroy)));
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned, unsigned flags) {
  auto* owner = reinterpret_cast<std::shared_ptr<UserObject>*>(object);
  std::lock_guard<std::mutex> guard(Capture::mutex());
  reinterpret_cast<Graph*>(graph)->objects.push_back(*owner);
  if (flags & CU_GRAPH_USER_OBJECT_MOVE) delete owner;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuUserObjectRelease(CUuserObject object, unsigned) {
  delete reinterpret_cast<std::shared_ptr<UserObject>*>(object);
  return CUDA_SUCCESS;
}
