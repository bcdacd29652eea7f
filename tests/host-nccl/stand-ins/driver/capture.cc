// Calls that begin, end and steer the capture of a stream.
#include <algorithm>
#include <set>

#include "../exported.h"
#include "context.h"
#include "graph.h"
#include "stream.h"

using host_nccl::Capture;
using host_nccl::Context;
using host_nccl::Graph;
using host_nccl::Node;
using host_nccl::Stream;

static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// The stand-in forbids nothing while a capture is under way, whatever the mode.
EXPORTED CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* exchanged) {
  std::swap(*exchanged, mode);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  const auto stream = Stream::of(handle);
  std::lock_guard<std::mutex> guard(Capture::mutex());
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>(Capture{new Graph, host_nccl::nextId(), stream.get()});
  stream->dependencies.clear();
  return CUDA_SUCCESS;
}

// Returns the nodes that must run before any of these, and these.
static std::set<const Node*> before(std::vector<Node*> nodes) {
  std::set<const Node*> found;
  while (!nodes.empty()) {
    const Node* node = nodes.back();
    nodes.pop_back();
    if (!found.insert(node).second) continue;
    nodes.insert(nodes.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return found;
}

EXPORTED CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const auto stream = Stream::of(handle);
  std::vector<std::shared_ptr<Stream>> streams;
  for (int device = 0; Context* context = Context::primary(device); device++) {
    for (const auto& other : context->streams()) streams.push_back(other);
  }
  std::lock_guard<std::mutex> guard(Capture::mutex());
  const auto capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const auto joined = before(stream->dependencies);
  bool isUnjoined = false;
  for (const auto& other : streams) {
    if (other->capture != capture) continue;
    for (const Node* node : other->dependencies) isUnjoined |= node->isCaptured && joined.count(node) == 0;
    other->capture = nullptr;
    other->dependencies.clear();
  }
  capture->isEnded = true;
  *graph = isUnjoined ? nullptr : reinterpret_cast<CUgraph>(capture->graph);
  return isUnjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  const auto stream = Stream::of(handle);
  std::lock_guard<std::mutex> guard(Capture::mutex());
  *status = stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

#undef cuStreamGetCaptureInfo_v3
EXPORTED CUresult cuStreamGetCaptureInfo_v3(
    CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
    const CUgraphEdgeData** edges, size_t* count) {
  const auto stream = Stream::of(handle);
  std::lock_guard<std::mutex> guard(Capture::mutex());
  if (edges != nullptr) *edges = nullptr;
  *status = stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(stream->capture->graph);
  if (dependencies != nullptr) *dependencies = reinterpret_cast<const CUgraphNode*>(stream->dependencies.data());
  if (count != nullptr) *count = stream->dependencies.size();
  return CUDA_SUCCESS;
}

#undef cuStreamGetCaptureInfo_v2
EXPORTED CUresult cuStreamGetCaptureInfo_v2(
    CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
    size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

#undef cuStreamGetCaptureInfo
EXPORTED CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

#undef cuStreamUpdateCaptureDependencies_v2
EXPORTED CUresult cuStreamUpdateCaptureDependencies_v2(
    CUstream handle, CUgraphNode* dependencies, const CUgraphEdgeData*, size_t count, unsigned flags) {
  const auto stream = Stream::of(handle);
  auto** nodes = reinterpret_cast<Node**>(dependencies);
  std::lock_guard<std::mutex> guard(Capture::mutex());
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const std::vector<Node*> given(nodes, nodes + count);
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->dependencies.clear();
  stream->dependencies.insert(stream->dependencies.end(), given.begin(), given.end());
  return CUDA_SUCCESS;
}

#undef cuStreamUpdateCaptureDependencies
EXPORTED CUresult cuStreamUpdateCaptureDependencies(
    CUstream stream, CUgraphNode* dependencies, size_t count, unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}
