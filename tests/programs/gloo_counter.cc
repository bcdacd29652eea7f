// Runs all-reduces for ever (or [COUNT] times) and reports the number of completed ones on descriptor 3 after each:
// eight bytes, native order. When this program is killed, a recorder must have kept the last number that a reader
// received.
#include <cstdint>

#include <unistd.h>

#include "ranks.h"
#include "sum.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  const uint64_t limit = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : UINT64_MAX;
  auto context = self.connect("counter");
  for (uint64_t done = 0; done < limit;) {
    sumOnes(context, 64, 0);
    done++;
    if (write(3, &done, sizeof done) != sizeof done) {
      return 3;
    }
  }
  return 0;
}
