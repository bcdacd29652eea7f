#include "context.h"

#include <algorithm>
#include <atomic>

#include "../exported.h"
#include "../settings.h"
#include "stream.h"

namespace host_nccl {

namespace {

// A thread's stack of contexts. It has no destructor: NCCL asks for its device while threads and the process end.
struct Stack {
  static constexpr int kDepth = 32;
  Context* at[kDepth];
  int depth;
};
thread_local Stack stack;

}  // namespace

unsigned long long nextId() {
  static std::atomic<unsigned long long> last{0};
  return ++last;
}

Context* Context::primary(int device) {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<Context*>& contexts = *new std::vector<Context*>(deviceCount());
  if (device < 0 || device >= deviceCount()) return nullptr;
  std::lock_guard<std::mutex> guard(mutex);
  if (contexts[device] == nullptr) contexts[device] = new Context(device, nextId());
  return contexts[device];
}

Context* Context::current() { return stack.depth == 0 ? nullptr : stack.at[stack.depth - 1]; }

std::vector<std::shared_ptr<Stream>> Context::streams() {
  std::lock_guard<std::mutex> guard(mutex_);
  return streams_;
}

void Context::add(std::shared_ptr<Stream> stream) {
  std::lock_guard<std::mutex> guard(mutex_);
  streams_.push_back(std::move(stream));
}

void Context::remove(const Stream* stream) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto isIt = [stream](const std::shared_ptr<Stream>& other) { return other.get() == stream; };
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(), isIt), streams_.end());
}

std::shared_ptr<Stream> Context::legacy() {
  std::lock_guard<std::mutex> guard(mutex_);
  if (legacy_ == nullptr) {
    legacy_ = std::make_shared<Stream>(this, CU_STREAM_DEFAULT, 0);
    streams_.push_back(legacy_);
  }
  return legacy_;
}

}  // namespace host_nccl

using host_nccl::Context;
using host_nccl::stack;

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Context* found = Context::primary(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  found->isActive = true;
  *context = reinterpret_cast<CUcontext>(found);
  return CUDA_SUCCESS;
}

// Contexts live as long as the process.
EXPORTED CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

EXPORTED CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* isActive) {
  Context* found = Context::primary(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = found->flags;
  *isActive = found->isActive;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(Context::current());
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) {
    if (stack.depth > 0) stack.depth--;
    return CUDA_SUCCESS;
  }
  if (stack.depth == 0) stack.depth = 1;
  stack.at[stack.depth - 1] = reinterpret_cast<Context*>(context);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxPushCurrent(CUcontext context) {
  if (stack.depth == host_nccl::Stack::kDepth) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.at[stack.depth++] = reinterpret_cast<Context*>(context);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxPopCurrent(CUcontext* context) {
  if (stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  stack.depth--;
  if (context != nullptr) *context = reinterpret_cast<CUcontext>(stack.at[stack.depth]);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxGetDevice(CUdevice* device) {
  if (Context::current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = Context::current()->device;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  Context* asked = context == nullptr ? Context::current() : reinterpret_cast<Context*>(context);
  if (asked == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = asked->id;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxSynchronize() {
  Context* context = Context::current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  for (const auto& stream : context->streams()) stream->synchronize();
  return CUDA_SUCCESS;
}
