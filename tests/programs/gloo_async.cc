// Runs two threads per rank, 60 operations each, on overlapping communicators.
//
// The operations come in pairs that run concurrently. On even ranks thread 0 takes the first of a pair, on odd ranks
// the second. Ranks therefore enter a pair in different orders, and only the tag identifies calls that belong together.
// Every operation has a different size, so a wrong pairing is detected.
#include <chrono>
#include <random>
#include <thread>

#include "ranks.h"
#include "sum.h"
#include "truth.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  const int last = self.size - 1;
  Truth truth(self.rank);

  struct Group {
    const char* name;
    std::shared_ptr<gloo::Context> context;
  };
  std::vector<Group> groups{{"everyone", self.connect("everyone")}, {"all but last", nullptr}, {"all but first", nullptr}};
  if (self.rank < last) {
    groups[1].context = self.connect("all but last", self.rank, last);
  }
  if (self.rank > 0) {
    groups[2].context = self.connect("all but first", self.rank - 1, last);
  }

  auto work = [&](unsigned thread) {
    std::minstd_rand random(self.rank * 2 + thread + 1);
    for (unsigned pair = 0; pair < 60; pair++) {
      const Group& group = groups[pair % groups.size()];
      if (group.context == nullptr) {
        continue;
      }
      const unsigned operation = 2 * pair + (thread ^ (self.rank & 1));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      sumOnes(group.context, 16 + operation, operation);
      truth.operation(group.name, "allreduce", 16 + operation, sizeof(float), operation);
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  return 0;
}
