// The main thread leaves by pthread_exit; the process must end, with status 0, when the last thread returns. A thread
// that a library started would keep it alive for ever. What it has printed and not yet written comes out then, and what
// it prints at its exit.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <pthread.h>

#include "ranks.h"
#include "sum.h"
#include "truth.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  static char buffer[4096];
  std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  std::printf("printed by the main thread\n");
  std::atexit([] { std::printf("printed at the exit\n"); });
  std::thread([self] {
    Truth truth(self.rank);
    {
      auto context = self.connect("last");
      for (unsigned tag = 0; tag < 10; tag++) {
        sumOnes(context, 16, tag);
        truth.operation("last", "allreduce", 16, sizeof(float), tag);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }).detach();
  pthread_exit(nullptr);
}
