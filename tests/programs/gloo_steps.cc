// A job with the traffic of a training: `gloo_steps RANK SIZE STORE STEPS`. A step is a computation (sleep), then
// all-reduces of several sizes one after the other. Their tags increase as c10d's do.
//   COMPUTE_US   computing time of each step, ± a tenth
//   LATE         "rank:us,…": these ranks compute this much longer
//   PAIRS        1: in each step every two ranks reduce 64 KiB between them, in an order in which none waits for a
//   third
#include <chrono>
#include <random>
#include <sstream>
#include <thread>

#include "ranks.h"
#include "sum.h"

namespace {

long number(const char* name, long otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atol(value);
}

long lateness(int rank) {
  const char* late = std::getenv("LATE");
  std::stringstream list(late == nullptr ? "" : late);
  for (std::string one; std::getline(list, one, ',');) {
    if (std::atoi(one.c_str()) == rank) {
      return std::atol(one.c_str() + one.find(':') + 1);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  const int steps = argc > 4 ? std::atoi(argv[4]) : 100;
  const long compute = number("COMPUTE_US", 20000);
  const long late = lateness(self.rank);
  auto world = self.connect("world");

  // A round-robin tournament: in round r rank i meets the rank with i + j = r (mod size − 1). The rank that would meet
  // itself meets the last rank. All pairs of a round meet concurrently. The number of ranks is even.
  struct Meeting {
    std::shared_ptr<gloo::Context> context;
  };
  std::vector<Meeting> meetings;
  if (number("PAIRS", 0) != 0) {
    const int others = self.size - 1;
    for (int round = 0; round < others; round++) {
      int peer;
      if (self.rank == others) {
        peer = 0;
        while ((2 * peer) % others != round) {
          peer++;
        }
      } else {
        peer = ((round - self.rank) % others + others) % others;
        peer = peer == self.rank ? others : peer;
      }
      const int low = std::min(self.rank, peer), high = std::max(self.rank, peer);
      const std::string name = "pair " + std::to_string(low) + "-" + std::to_string(high);
      meetings.push_back({self.connect(name, self.rank == low ? 0 : 1, 2)});
    }
  }

  std::minstd_rand random(self.rank + 1);
  const size_t counts[] = {64, 1024, 16384, 1024};
  unsigned tag = 0;
  for (int step = 0; step < steps; step++) {
    const long noise = compute / 5 * static_cast<long>(random() % 1000) / 1000 - compute / 10;
    std::this_thread::sleep_for(std::chrono::microseconds(compute + noise + late));
    for (size_t count : counts) {
      sumOnes(world, count, tag++);
    }
    for (const Meeting& meeting : meetings) {
      sumOnes(meeting.context, 16384, step);
    }
  }
  return 0;
}
