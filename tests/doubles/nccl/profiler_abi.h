// The interface of NCCL's profiler plugins, versions 1 to 6, written independently from its headers
// (src/include/plugin/profiler). The structures that rankscope reads are checked against it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace profiler_abi {

enum { kGroup = 1, kColl = 2, kP2p = 4, kProxyOp = 8, kProxyStep = 16, kKernelCh = 64, kGroupApi = 256, kCollApi = 512, kP2pApi = 1024 };
enum { kSendGpuWait = 8, kSendWait = 9, kRecvWait = 10, kRecvFlushWait = 11, kRecvGpuWait = 12, kSendPeerWait = 20, kKernelChStop = 22 };

struct Coll1 {
  const char* name;
  uint64_t commHash, seqNumber;
  uint8_t func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t trafficBytes;
  uint8_t nMaxChannels, nWarps, algo, proto;
  int isCollnet, isNvls;
};
struct P2p1 {
  const char* name;
  uint64_t commHash;
  uint8_t func;
  void* buff;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct Coll2 {
  const char* name;
  uint64_t commHash, seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  size_t trafficBytes;
  uint8_t nMaxChannels, nWarps;
  const char *algo, *proto;
};
struct Coll3 {
  const char* name;
  uint64_t commHash, seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nMaxChannels, nWarps;
  const char *algo, *proto;
};
struct P2p2 {
  const char* name;
  uint64_t commHash;
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
};
struct Coll4 {
  uint64_t seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nChannels, nWarps;
  const char *algo, *proto;
  void* parentGroup;  // version 5
};
struct P2p4 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void* parentGroup;  // version 5
};
struct ProxyOp {
  pid_t pid;
  uint8_t channelId;
  int peer, nSteps, chunkSize, isSend;
};
struct KernelCh {
  uint8_t channelId;
  uint64_t pTimer;
};
struct CollApi {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graphCaptured;
};
struct P2pApi {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool graphCaptured;
};
union Union {
  Coll1 coll1;
  P2p1 p2p1;
  Coll2 coll2;
  Coll3 coll3;
  P2p2 p2p2;
  Coll4 coll4;
  P2p4 p2p4;
  ProxyOp proxyOp;
  int step;
  KernelCh kernelCh;
  CollApi collApi;
  P2pApi p2pApi;
};
struct Narrow {
  uint8_t type;
  void* parentObj;
  int rank;
  Union u;
};
struct Wide {
  uint64_t type;
  void* parentObj;
  int rank;
  Union u;
};
struct Plugin {
  const char* name;
  void* init;
  int (*startEvent)(void*, void**, void*);
  int (*stopEvent)(void*);
  int (*recordEventState)(void*, int, void*);
  int (*finalize)(void*);
};

}  // namespace profiler_abi
