#include "stream.h"

#include <pthread.h>
#include <time.h>

#include <thread>

#include "../exported.h"
#include "context.h"

namespace host_nccl {

void Signal::complete() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::lock_guard<std::mutex> guard(mutex_);
  isComplete_ = true;
  nanoseconds_ = now.tv_sec * 1000000000LL + now.tv_nsec;
  condition_.notify_all();
}

void Signal::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  condition_.wait(lock, [this] { return isComplete_; });
}

bool Signal::isComplete() {
  std::lock_guard<std::mutex> guard(mutex_);
  return isComplete_;
}

int64_t Signal::nanoseconds() {
  std::lock_guard<std::mutex> guard(mutex_);
  return nanoseconds_;
}

struct Stream::Queue {
  std::mutex mutex;
  std::condition_variable isThereWork, isDone;
  std::deque<std::function<void()>> work;
  bool isBusy = false, isClosed = false, isStarted = false;

  void run() {
    pthread_setname_np(pthread_self(), "host-stream");
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      isThereWork.wait(lock, [this] { return isClosed || !work.empty(); });
      if (work.empty()) return;
      isBusy = true;
      {
        const std::function<void()> next = std::move(work.front());
        work.pop_front();
        lock.unlock();
        next();
      }
      lock.lock();
      isBusy = false;
      if (work.empty()) isDone.notify_all();
    }
  }
};

Stream::Stream(Context* context, unsigned flags, int priority)
    : context(context), flags(flags), priority(priority), id(nextId()), queue_(std::make_shared<Queue>()) {}

std::shared_ptr<Stream> Stream::of(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    Context* context = Context::current();
    return (context == nullptr ? Context::primary(0) : context)->legacy();
  }
  return *reinterpret_cast<std::shared_ptr<Stream>*>(handle);
}

CUresult Stream::submit(CUgraphNodeType type, Work work) {
  {
    std::lock_guard<std::mutex> guard(Capture::mutex());
    if (capture != nullptr) {
      Node* node = capture->graph->add(type, dependencies, std::move(work), true);
      dependencies = {node};
      return CUDA_SUCCESS;
    }
  }
  waitForOthers();
  enqueue([work = std::move(work)] { work(Replay{false}); });
  return CUDA_SUCCESS;
}

void Stream::waitForOthers() {
  if (flags & CU_STREAM_NON_BLOCKING) return;
  const std::shared_ptr<Stream> legacy = context->legacy();
  if (this != legacy.get()) {
    if (legacy->isIdle()) return;
    enqueue([signal = legacy->mark()] { signal->wait(); });
    return;
  }
  for (const auto& other : context->streams()) {
    if (other.get() == this || (other->flags & CU_STREAM_NON_BLOCKING) || other->isIdle()) continue;
    enqueue([signal = other->mark()] { signal->wait(); });
  }
}

void Stream::enqueue(std::function<void()> work) {
  std::lock_guard<std::mutex> guard(queue_->mutex);
  if (!queue_->isStarted) {
    queue_->isStarted = true;
    std::thread([queue = queue_] { queue->run(); }).detach();
  }
  queue_->work.push_back(std::move(work));
  queue_->isThereWork.notify_one();
}

std::shared_ptr<Signal> Stream::mark() {
  auto signal = std::make_shared<Signal>();
  enqueue([signal] { signal->complete(); });
  return signal;
}

void Stream::synchronize() {
  // The legacy stream waits for all earlier work of blocking streams.
  if (this == context->legacy().get()) waitForOthers();
  std::unique_lock<std::mutex> lock(queue_->mutex);
  queue_->isDone.wait(lock, [this] { return queue_->work.empty() && !queue_->isBusy; });
}

bool Stream::isIdle() {
  std::lock_guard<std::mutex> guard(queue_->mutex);
  return queue_->work.empty() && !queue_->isBusy;
}

void Stream::close() {
  std::lock_guard<std::mutex> guard(queue_->mutex);
  queue_->isClosed = true;
  queue_->isThereWork.notify_one();
}

}  // namespace host_nccl

using host_nccl::Capture;
using host_nccl::Context;
using host_nccl::Replay;
using host_nccl::Stream;

EXPORTED CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  Context* context = Context::current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto created = std::make_shared<Stream>(context, flags, priority);
  context->add(created);
  *stream = reinterpret_cast<CUstream>(new std::shared_ptr<Stream>(created));
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

// Returns at once: the work that is queued still runs.
EXPORTED CUresult cuStreamDestroy(CUstream handle) {
  auto* owner = reinterpret_cast<std::shared_ptr<Stream>*>(handle);
  (*owner)->context->remove(owner->get());
  (*owner)->close();
  delete owner;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamSynchronize(CUstream handle) {
  const auto stream = Stream::of(handle);
  {
    std::lock_guard<std::mutex> guard(Capture::mutex());
    if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  stream->synchronize();
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamQuery(CUstream stream) {
  return Stream::of(stream)->isIdle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORTED CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(Stream::of(stream)->context);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  *flags = Stream::of(stream)->flags;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  *id = Stream::of(stream)->id;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  *priority = Stream::of(stream)->priority;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return Stream::of(stream)->submit(CU_GRAPH_NODE_TYPE_HOST, [=](Replay) { function(data); });
}
