// Uses more of NVTX than the recorder keeps. It has ten thousand different texts, and ranges that are nested deeper,
// and more open ranges, than there are slots. Prints the true numbers.
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
  // A communicator that is created afterwards can still be stored.
  ncclComm_t later;
  NCCL(ncclCommInitRank(&later, 1, id, 0));
  std::printf("%ld\n", ranges);
  return 0;
}
