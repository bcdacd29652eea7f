#include "graph.h"

void Graph::begin() {
  CUDA(cudaStreamBeginCapture(member_.stream, cudaStreamCaptureModeThreadLocal));
  member_.process.report.captured(true);
}

void Graph::end() {
  CUDA(cudaStreamEndCapture(member_.stream, &graph_));
  member_.process.report.captured(false);
  CUDA(cudaGraphInstantiate(&executable_, graph_, 0));
}

void Graph::launch() const {
  CUDA(cudaGraphLaunch(executable_, member_.stream));
  member_.process.report.replay(launches_++);
}

Graph::~Graph() {
  cudaGraphExecDestroy(executable_);
  cudaGraphDestroy(graph_);
}
