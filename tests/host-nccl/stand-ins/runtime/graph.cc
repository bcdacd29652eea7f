// Capture and graphs.
#include "runtime.h"

using host_nccl::kept;

// cuda.h declares only the newest variant of these under its own name.
extern "C" CUresult cuStreamGetCaptureInfo_v3(
    CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, const CUgraphEdgeData**, size_t*);
extern "C" CUresult cuStreamUpdateCaptureDependencies_v2(
    CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned);
extern "C" CUresult cuGraphAddDependencies_v2(
    CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t);

EXPORTED cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return kept(cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}

EXPORTED cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return BOUND(cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)));
}

EXPORTED cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return BOUND(cuStreamEndCapture(stream, graph));
}

EXPORTED cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return BOUND(cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)));
}

static cudaError_t captureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
    const cudaGraphNode_t** dependencies, size_t* count) {
  return BOUND(cuStreamGetCaptureInfo_v3(
      stream, reinterpret_cast<CUstreamCaptureStatus*>(status), reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
      nullptr, count));
}

#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
EXPORTED cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return captureInfo(stream, status, id, nullptr, nullptr, nullptr);
}

#undef cudaStreamGetCaptureInfo_v2
EXPORTED cudaError_t cudaStreamGetCaptureInfo_v2(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
    const cudaGraphNode_t** dependencies, size_t* count) {
  return captureInfo(stream, status, id, graph, dependencies, count);
}
#endif

#undef cudaStreamGetCaptureInfo_v3
EXPORTED cudaError_t WITH_EDGES(cudaStreamGetCaptureInfo, _v3)(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
    const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return captureInfo(stream, status, id, graph, dependencies, count);
}

#if CUDART_VERSION < 13000
#undef cudaStreamUpdateCaptureDependencies
EXPORTED cudaError_t cudaStreamUpdateCaptureDependencies(
    cudaStream_t stream, cudaGraphNode_t* dependencies, size_t count, unsigned flags) {
  return BOUND(cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags));
}
#endif

#undef cudaStreamUpdateCaptureDependencies_v2
EXPORTED cudaError_t WITH_EDGES(cudaStreamUpdateCaptureDependencies, _v2)(
    cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return BOUND(cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags));
}

EXPORTED cudaError_t cudaGraphAddHostNode(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
    const cudaHostNodeParams* parameters) {
  const CUDA_HOST_NODE_PARAMS same = {parameters->fn, parameters->userData};
  return BOUND(cuGraphAddHostNode(node, graph, dependencies, count, &same));
}

EXPORTED cudaError_t cudaGraphAddEventRecordNode(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count, cudaEvent_t event) {
  return BOUND(cuGraphAddEventRecordNode(node, graph, dependencies, count, event));
}

EXPORTED cudaError_t cudaGraphAddEventWaitNode(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count, cudaEvent_t event) {
  return BOUND(cuGraphAddEventWaitNode(node, graph, dependencies, count, event));
}

EXPORTED cudaError_t cudaGraphAddKernelNode(
    cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t, const cudaKernelNodeParams*) {
  return kept(CUDA_ERROR_NOT_SUPPORTED);
}

#if CUDART_VERSION < 13000
#undef cudaGraphAddDependencies
EXPORTED cudaError_t cudaGraphAddDependencies(
    cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
  return BOUND(cuGraphAddDependencies(graph, from, to, count));
}
#endif

#undef cudaGraphAddDependencies_v2
EXPORTED cudaError_t WITH_EDGES(cudaGraphAddDependencies, _v2)(
    cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData*,
    size_t count) {
  return BOUND(cuGraphAddDependencies_v2(graph, from, to, nullptr, count));
}

EXPORTED cudaError_t cudaGraphRetainUserObject(
    cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
  return BOUND(cuGraphRetainUserObject(graph, object, count, flags));
}

EXPORTED cudaError_t cudaUserObjectCreate(
    cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy, unsigned count, unsigned flags) {
  return BOUND(cuUserObjectCreate(object, pointer, destroy, count, flags));
}

EXPORTED cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return BOUND(cuGraphGetNodes(graph, nodes, count));
}

EXPORTED cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return BOUND(cuGraphInstantiateWithFlags(executable, graph, flags));
}

EXPORTED cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return BOUND(cuGraphLaunch(executable, stream));
}

EXPORTED cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return BOUND(cuGraphExecDestroy(executable)); }
EXPORTED cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return BOUND(cuGraphDestroy(graph)); }
