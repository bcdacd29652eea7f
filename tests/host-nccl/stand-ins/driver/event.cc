#include "event.h"

#include "../exported.h"
#include "context.h"

namespace host_nccl {

void Event::set(std::shared_ptr<Signal> signal) {
  std::lock_guard<std::mutex> guard(mutex_);
  last_ = std::move(signal);
}

std::shared_ptr<Signal> Event::last() {
  std::lock_guard<std::mutex> guard(mutex_);
  return last_;
}

// A launch changes the event as a call of cuEventRecord does.
WorkOfLaunch recordWork(const std::shared_ptr<Event>& event) {
  return [event] {
    const auto signal = std::make_shared<Signal>();
    event->set(signal);
    return Work([signal](Replay) { signal->complete(); });
  };
}

// Waits for what was recorded before the launch. A later record may itself wait for the graph.
WorkOfLaunch waitWork(const std::shared_ptr<Event>& event) {
  return [event] {
    const auto signal = event->last();
    return Work([signal](Replay) {
      if (signal != nullptr) signal->wait();
    });
  };
}

}  // namespace host_nccl

using host_nccl::Capture;
using host_nccl::Event;
using host_nccl::Stream;

EXPORTED CUresult cuEventCreate(CUevent* event, unsigned) {
  if (host_nccl::Context::current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *event = reinterpret_cast<CUevent>(new std::shared_ptr<Event>(std::make_shared<Event>()));
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuEventDestroy(CUevent event) {
  delete reinterpret_cast<std::shared_ptr<Event>*>(event);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuEventRecord(CUevent handle, CUstream streamHandle) {
  const auto event = Event::of(handle);
  const auto stream = Stream::of(streamHandle);
  {
    std::lock_guard<std::mutex> guard(Capture::mutex());
    event->capture = stream->capture;
    event->dependencies = stream->dependencies;
    if (stream->capture != nullptr) return CUDA_SUCCESS;
  }
  event->set(stream->mark());
  return CUDA_SUCCESS;
}

// Adds a node to the stream's capture. Returns false if the stream is not captured.
static bool addNode(const std::shared_ptr<Stream>& stream, CUgraphNodeType type, host_nccl::WorkOfLaunch work) {
  std::lock_guard<std::mutex> guard(Capture::mutex());
  if (stream->capture == nullptr) return false;
  stream->dependencies = {stream->capture->graph->add(type, stream->dependencies, nullptr, true)};
  stream->dependencies[0]->workOfLaunch = std::move(work);
  return true;
}

// An external record or wait is a node of the graph, and orders the graph with work outside.
EXPORTED CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags) {
  const bool isExternal = flags & CU_EVENT_RECORD_EXTERNAL;
  const CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  if (isExternal && addNode(Stream::of(stream), type, host_nccl::recordWork(Event::of(handle)))) return CUDA_SUCCESS;
  return cuEventRecord(handle, stream);
}

// Returns whether the event was last recorded in a capture. The host must not query such an event.
static bool isCaptured(const std::shared_ptr<Event>& event) {
  std::lock_guard<std::mutex> guard(Capture::mutex());
  return event->capture != nullptr;
}

EXPORTED CUresult cuEventQuery(CUevent handle) {
  const auto event = Event::of(handle);
  if (isCaptured(event)) return CUDA_ERROR_CAPTURED_EVENT;
  const auto signal = event->last();
  return signal == nullptr || signal->isComplete() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORTED CUresult cuEventSynchronize(CUevent handle) {
  const auto event = Event::of(handle);
  if (isCaptured(event)) return CUDA_ERROR_CAPTURED_EVENT;
  if (const auto signal = event->last()) signal->wait();
  return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
#undef cuEventElapsedTime_v2
EXPORTED CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  const auto from = Event::of(start)->last(), to = Event::of(end)->last();
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!from->isComplete() || !to->isComplete()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(to->nanoseconds() - from->nanoseconds()) / 1e6f;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

// A wait for an event of a capture makes the stream part of that capture.
EXPORTED CUresult cuStreamWaitEvent(CUstream streamHandle, CUevent handle, unsigned flags) {
  const auto stream = Stream::of(streamHandle);
  const auto event = Event::of(handle);
  const bool isExternal = flags & CU_EVENT_WAIT_EXTERNAL;
  const CUgraphNodeType type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  if (isExternal && addNode(stream, type, host_nccl::waitWork(event))) return CUDA_SUCCESS;
  {
    std::lock_guard<std::mutex> guard(Capture::mutex());
    if (event->capture != nullptr) {
      if (event->capture->isEnded) return CUDA_ERROR_CAPTURED_EVENT;
      if (stream->capture != nullptr && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
      stream->capture = event->capture;
      auto& to = stream->dependencies;
      to.insert(to.end(), event->dependencies.begin(), event->dependencies.end());
      return CUDA_SUCCESS;
    }
    if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const auto signal = event->last();
  if (signal == nullptr || signal->isComplete()) return CUDA_SUCCESS;
  stream->enqueue([signal] { signal->wait(); });
  return CUDA_SUCCESS;
}
