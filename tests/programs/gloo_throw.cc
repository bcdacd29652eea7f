// The last rank dies between two operations. The others get Gloo's exception, catch it and exit 7.
#include <csignal>
#include <exception>

#include <unistd.h>

#include "ranks.h"
#include "sum.h"
#include "truth.h"

int main(int argc, char** argv) {
  // Gloo writes to the dead rank's socket. Sometimes the write detects the failure before the read does.
  std::signal(SIGPIPE, SIG_IGN);
  const Rank self(argc, argv);
  Truth truth(self.rank);
  auto context = self.connect("throw");
  for (unsigned tag = 0; tag < 10; tag++) {
    sumOnes(context, 32, tag);
    truth.operation("throw", "allreduce", 32, sizeof(float), tag);
  }
  if (self.rank == self.size - 1) {
    _exit(0);
  }
  try {
    sumOnes(context, 32, 10);
    // Ranks that have not yet detected the failure detect it here.
    sumOnes(context, 32, 11);
  } catch (const std::exception& error) {
    std::printf("caught an exception\n");
    return 7;
  }
  std::printf("no exception\n");
  return 1;
}
