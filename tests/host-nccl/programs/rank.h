// One rank of a communicator, and the calls that it makes. Each call is reported.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "element_types.h"
#include "report.h"

inline void needed(bool fine, const char* file, int line, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "%s, line %d: %s: %s\n", file, line, what, ncclGetLastError(nullptr));
  std::_Exit(3);
}
#define CHECK(condition) needed(condition, __FILE__, __LINE__, #condition)
#define NCCL(call) CHECK((call) == ncclSuccess)
#define CUDA(call) CHECK((call) == cudaSuccess)

// The process: its place among the processes of the run, and what they share.
struct Process {
  int rank, size;
  std::string store;
  Report report;

  Process(int rank, int size, std::string store) : rank(rank), size(size), store(std::move(store)), report(rank) {}

  // Returns an id that all processes share under this name. Rank 0 creates it.
  ncclUniqueId share(const std::string& name);
  // Each does half of that, for an id that one process has.
  void publish(const std::string& name, const ncclUniqueId& id);
  ncclUniqueId published(const std::string& name);
  // Waits until all processes have called it with this name.
  void meet(const std::string& name);
};

// The device of a rank. Hosts with fewer devices than ranks in the run have a part of the ranks.
int deviceOf(int rank);

// Device memory with a copy on the host.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* device() const { return device_; }
  void* device(size_t offset) const { return static_cast<char*>(device_) + offset; }
  void* host() { return host_.data(); }
  void upload();
  void download();

 private:
  void* device_ = nullptr;
  std::vector<char> host_;
};

// A rank of a communicator with its stream.
struct Member {
  Process& process;
  std::string name;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  int rank = -1, ranks = 0;

  Member(Process& process, std::string name, cudaStream_t stream)
      : process(process), name(std::move(name)), stream(stream) {}

  // Creates the communicator of all processes.
  void create(bool isBlocking = true);
  // Creates the communicator by a split of its parent. With NCCL_SPLIT_NOCOLOR there is none.
  void split(const Member& parent, int color, int key);
  // Reports the communicator that another call has created.
  void adopt(const char* function, ncclResult_t result);
  ncclResult_t finalize();
  void destroy();
  // Waits until a non-blocking communicator is ready.
  ncclResult_t settle() const;
  void synchronize() const { CUDA(cudaStreamSynchronize(stream)); }

  ncclResult_t groupStart();
  ncclResult_t groupEnd();
  ncclResult_t allReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op);
  ncclResult_t allGather(const void* in, void* out, size_t count, ncclDataType_t type);
  ncclResult_t reduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op);
  ncclResult_t broadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root);
  ncclResult_t bcast(void* inOut, size_t count, ncclDataType_t type, int root);
  ncclResult_t reduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root);
  ncclResult_t send(const void* in, size_t count, ncclDataType_t type, int peer);
  ncclResult_t receive(void* out, size_t count, ncclDataType_t type, int peer);
#if NCCL_VERSION_CODE >= 22800
  ncclResult_t allToAll(const void* in, void* out, size_t count, ncclDataType_t type);
  ncclResult_t gather(const void* in, void* out, size_t count, ncclDataType_t type, int root);
  ncclResult_t scatter(const void* in, void* out, size_t count, ncclDataType_t type, int root);
#endif

 private:
  ncclResult_t reported(
      const char* function, const char* operation, size_t count, ncclDataType_t type, int root, int peer,
      ncclResult_t result) const;
};

// A configuration with the communicator's name, where the version has names.
ncclConfig_t configured(const std::string& name, bool isBlocking = true);
