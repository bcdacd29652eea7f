// More of NVTX than is kept: ten thousand different texts, ranges nested deeper and more of them open than there are
// places. How many there were is printed.
//   nvtx_many RANK SIZE STORE
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <vector>

#include "nccl_rank.h"

int main(int, char**) {
  ncclUniqueId id = {};
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, 1, id, 0));
  long ranges = 0;
  for (int depth = 0; depth < 100; depth++, ranges++) nvtxRangePushA("nested");
  for (int depth = 0; depth < 100; depth++) nvtxRangePop();
  std::vector<nvtxRangeId_t> open;
  for (int i = 0; i < 3000; i++, ranges++) open.push_back(nvtxRangeStartA("open"));
  for (nvtxRangeId_t range : open) nvtxRangeEnd(range);
  char text[200];
  for (int step = 0; step < 10000; step++, ranges++) {
    std::snprintf(text, sizeof text, "step %d with a text that is long enough to fill what room there is for texts", step);
    nvtxRangePushA(text);
    nvtxRangePop();
  }
  // A communicator that is made afterwards still finds room.
  ncclComm_t later;
  NCCL(ncclCommInitRank(&later, 1, id, 0));
  std::printf("%ld\n", ranges);
  return 0;
}
