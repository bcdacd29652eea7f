#include "rank.h"

ncclUniqueId Process::share(const std::string& name) {
  if (rank != 0) return published(name);
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  publish(name, id);
  return id;
}

void Process::publish(const std::string& name, const ncclUniqueId& id) {
  const std::string path = store + "/" + name, fresh = path + ".fresh";
  std::FILE* file = std::fopen(fresh.c_str(), "wb");
  CHECK(file != nullptr && std::fwrite(&id, sizeof id, 1, file) == 1 && std::fclose(file) == 0);
  CHECK(std::rename(fresh.c_str(), path.c_str()) == 0);
}

ncclUniqueId Process::published(const std::string& name) {
  const std::string path = store + "/" + name;
  ncclUniqueId id;
  std::FILE* file;
  while ((file = std::fopen(path.c_str(), "rb")) == nullptr) usleep(1000);
  CHECK(std::fread(&id, sizeof id, 1, file) == 1);
  std::fclose(file);
  return id;
}

void Process::meet(const std::string& name) {
  auto path = [&](int of) { return store + "/" + name + "." + std::to_string(of); };
  std::FILE* file = std::fopen(path(rank).c_str(), "w");
  CHECK(file != nullptr && std::fclose(file) == 0);
  for (int other = 0; other < size; other++) {
    while (access(path(other).c_str(), F_OK) != 0) usleep(1000);
  }
}

int deviceOf(int rank) {
  int devices;
  CUDA(cudaGetDeviceCount(&devices));
  return rank % devices;
}

Buffer::Buffer(size_t bytes) : host_(bytes) { CUDA(cudaMalloc(&device_, bytes == 0 ? 1 : bytes)); }
Buffer::~Buffer() { cudaFree(device_); }
void Buffer::upload() { CUDA(cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice)); }
void Buffer::download() { CUDA(cudaMemcpy(host_.data(), device_, host_.size(), cudaMemcpyDeviceToHost)); }

ncclConfig_t configured(const std::string& name, bool isBlocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = isBlocking;
#if NCCL_VERSION_CODE >= 22700
  config.commName = name.c_str();
#else
  (void)name;
#endif
  return config;
}

void Member::create(bool isBlocking) {
  const ncclUniqueId id = process.share(name);
  ncclConfig_t config = configured(name, isBlocking);
  rank = process.rank, ranks = process.size;
  const ncclResult_t result = ncclCommInitRankConfig(&communicator, ranks, id, rank, &config);
  CHECK(result == ncclSuccess || (!isBlocking && result == ncclInProgress));
  process.report.call({"ncclCommInitRankConfig", "", name, -1, -1, -1, -1, rank, ranks}, result);
  NCCL(settle());
}

void Member::split(const Member& parent, int color, int key) {
  ncclConfig_t config = configured(name);
  const ncclResult_t result = ncclCommSplit(parent.communicator, color, key, &communicator, &config);
  adopt("ncclCommSplit", result);
  NCCL(result);
}

void Member::adopt(const char* function, ncclResult_t result) {
  if (communicator != nullptr) {
    NCCL(ncclCommUserRank(communicator, &rank));
    NCCL(ncclCommCount(communicator, &ranks));
  }
  process.report.call({function, "", name, -1, -1, -1, -1, rank, ranks}, result);
}

ncclResult_t Member::finalize() {
  const ncclResult_t result = ncclCommFinalize(communicator);
  process.report.call({"ncclCommFinalize", "", name}, result);
  return result;
}

void Member::destroy() {
  process.report.call({"ncclCommDestroy", "", name}, ncclCommDestroy(communicator));
  communicator = nullptr;
}

ncclResult_t Member::settle() const {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(communicator, &state));
  return state;
}

ncclResult_t Member::reported(
    const char* function, const char* operation, size_t count, ncclDataType_t type, int root, int peer,
    ncclResult_t result) const {
  Call call;
  call.function = function, call.operation = operation, call.communicator = name;
  call.count = static_cast<long>(count);
  // A type that NCCL does not know has no size.
  call.elementSize = type < ncclNumTypes ? static_cast<long>(elementType(type).size) : 0;
  call.root = root, call.peer = peer;
  if (stream != nullptr) CUDA(cudaStreamGetId(stream, &call.stream));
  process.report.call(call, result);
  return result;
}

ncclResult_t Member::groupStart() {
  process.report.groupStart();
  return ncclGroupStart();
}

ncclResult_t Member::groupEnd() {
  const ncclResult_t result = ncclGroupEnd();
  process.report.groupEnd();
  return result;
}

ncclResult_t Member::allReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  const ncclResult_t result = ncclAllReduce(in, out, count, type, op, communicator, stream);
  return reported("ncclAllReduce", "allreduce", count, type, -1, -1, result);
}

ncclResult_t Member::allGather(const void* in, void* out, size_t count, ncclDataType_t type) {
  const ncclResult_t result = ncclAllGather(in, out, count, type, communicator, stream);
  return reported("ncclAllGather", "allgather", count, type, -1, -1, result);
}

ncclResult_t Member::reduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  const ncclResult_t result = ncclReduceScatter(in, out, count, type, op, communicator, stream);
  return reported("ncclReduceScatter", "reduce_scatter", count, type, -1, -1, result);
}

ncclResult_t Member::broadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root) {
  const ncclResult_t result = ncclBroadcast(in, out, count, type, root, communicator, stream);
  return reported("ncclBroadcast", "broadcast", count, type, root, -1, result);
}

ncclResult_t Member::bcast(void* inOut, size_t count, ncclDataType_t type, int root) {
  const ncclResult_t result = ncclBcast(inOut, count, type, root, communicator, stream);
  return reported("ncclBcast", "broadcast", count, type, root, -1, result);
}

ncclResult_t Member::reduce(
    const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root) {
  const ncclResult_t result = ncclReduce(in, out, count, type, op, root, communicator, stream);
  return reported("ncclReduce", "reduce", count, type, root, -1, result);
}

ncclResult_t Member::send(const void* in, size_t count, ncclDataType_t type, int peer) {
  const ncclResult_t result = ncclSend(in, count, type, peer, communicator, stream);
  return reported("ncclSend", "send", count, type, -1, peer, result);
}

ncclResult_t Member::receive(void* out, size_t count, ncclDataType_t type, int peer) {
  const ncclResult_t result = ncclRecv(out, count, type, peer, communicator, stream);
  return reported("ncclRecv", "recv", count, type, -1, peer, result);
}

#if NCCL_VERSION_CODE >= 22800

ncclResult_t Member::allToAll(const void* in, void* out, size_t count, ncclDataType_t type) {
  const ncclResult_t result = ncclAlltoAll(in, out, count, type, communicator, stream);
  return reported("ncclAlltoAll", "alltoall", count, type, -1, -1, result);
}

ncclResult_t Member::gather(const void* in, void* out, size_t count, ncclDataType_t type, int root) {
  const ncclResult_t result = ncclGather(in, out, count, type, root, communicator, stream);
  return reported("ncclGather", "gather", count, type, root, -1, result);
}

ncclResult_t Member::scatter(const void* in, void* out, size_t count, ncclDataType_t type, int root) {
  const ncclResult_t result = ncclScatter(in, out, count, type, root, communicator, stream);
  return reported("ncclScatter", "scatter", count, type, root, -1, result);
}

#endif
