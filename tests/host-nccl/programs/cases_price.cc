// What a call costs its thread, from its begin to its return. tests/benchmarks/host_nccl_price.sh compares recorded runs
// with others.
#include <algorithm>
#include <ctime>

#include "cases.h"

namespace {

constexpr int kBatches = 200, kCalls = 50;

double nowNs() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

// Prints the smallest and the middle price of a call, over batches, in nanoseconds.
const Case kPrice("price", [](Member& world) {
  Buffer in(4), out(4);
  in.upload();
  std::vector<double> prices;
  for (int batch = 0; batch < kBatches; batch++) {
    const double begin = nowNs();
    // Without the program's own reports.
    for (int i = 0; i < kCalls; i++)
      NCCL(ncclAllReduce(in.device(), out.device(), 1, ncclFloat32, ncclSum, world.communicator, world.stream));
    prices.push_back((nowNs() - begin) / kCalls);
    world.synchronize();
  }
  std::sort(prices.begin(), prices.end());
  std::fprintf(stderr, "price %.0f %.0f\n", prices.front(), prices[prices.size() / 2]);
  return size_t{0};
});

}  // namespace
