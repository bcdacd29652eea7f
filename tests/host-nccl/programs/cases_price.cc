// The price of a call: the time that it takes on its thread. tests/benchmarks/host_nccl_price.sh compares the prices
// with and without a recording.
#include <algorithm>
#include <chrono>

#include "cases.h"

namespace {

constexpr int kBatches = 200, kCalls = 50;

// Prints the smallest and the median price of a call over batches, in nanoseconds.
const Case kPrice("price", [](Member& world) {
  Buffer in(4), out(4);
  in.upload();
  typedef std::chrono::steady_clock Clock;
  std::vector<double> prices;
  for (int batch = 0; batch < kBatches; batch++) {
    const Clock::time_point begin = Clock::now();
    // Without the program's own reports.
    for (int i = 0; i < kCalls; i++) {
      NCCL(ncclAllReduce(in.device(), out.device(), 1, ncclFloat32, ncclSum, world.communicator, world.stream));
    }
    prices.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kCalls);
    world.synchronize();
  }
  std::sort(prices.begin(), prices.end());
  std::fprintf(stderr, "price %.0f %.0f\n", prices.front(), prices[prices.size() / 2]);
  return size_t{0};
});

}  // namespace
