// Makes NVTX ranges and marks through the real header, around a communicator of NCCL's double. The recording must equal
// them. Prints the result of every call: with another injection it must be the result of that one.
//   nvtx_marks RANK SIZE STORE
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <thread>

#include "../doubles/nccl/nccl_double.h"

static nvtxEventAttributes_t named(const char* name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  return attributes;
}

int main() {
  // There is no recording before the first communication. The domain is used later.
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("loader");
  const nvtxStringHandle_t string = nvtxDomainRegisterStringA(domain, "registered early");
  std::printf("early %d\n", nvtxRangePushA("too early"));
  std::printf("early %d\n", nvtxRangePop());

  ncclUniqueId id = {};
  ncclComm_t comm;
  if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) return 3;

  std::printf("push %d\n", nvtxRangePushA("outer"));
  nvtxEventAttributes_t inner = named("inner");
  std::printf("push %d\n", nvtxRangePushEx(&inner));
  // Each domain has a separate nesting.
  nvtxEventAttributes_t load = named("load");
  std::printf("push in domain %d\n", nvtxDomainRangePushEx(domain, &load) >= 0);
  std::printf("pop %d\n", nvtxRangePop() >= 0);
  std::printf("pop in domain %d\n", nvtxDomainRangePop(domain) >= 0);
  std::printf("pop %d\n", nvtxRangePop() >= 0);
  std::printf("pop of nothing %d\n", nvtxRangePop() < 0);
  nvtxMarkA("mark");
  nvtxMarkW(L"gr\u00f6\u00dfe");
  nvtxEventAttributes_t registered = {};
  registered.version = NVTX_VERSION;
  registered.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  registered.message.registered = string;
  nvtxDomainMarkEx(domain, &registered);
  // Starts here and ends on another thread.
  const nvtxRangeId_t range = nvtxRangeStartA("across threads");
  std::thread([range] { nvtxRangeEnd(range); }).join();
  for (int step = 0; step < 100; step++) {
    nvtxRangePushA("step");
    static float buffer[64];
    ncclAllReduce(buffer, buffer, 64, ncclFloat32, ncclSum, comm, nullptr);
    nvtxRangePop();
  }
  return 0;
}
