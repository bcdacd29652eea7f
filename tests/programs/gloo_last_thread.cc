// The main thread ends by pthread_exit. The process must end with status 0 when the last thread returns. A thread that
// a library started would keep it alive for ever. Buffered output is written at that point, and so is the output of its
// exit handlers.
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
