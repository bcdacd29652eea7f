// Communicates, then ends in the way that HOW names: return, exit, _exit, quick_exit, abort, sigterm, thread-exit (the
// main thread ends first) or exec (starts itself again, same process id). It runs three operations each time, and none
// may be lost.
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "ranks.h"
#include "sum.h"
#include "truth.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  const std::string how = argc > 4 ? argv[4] : "return";
  const std::string name = how == "return-after-exec" ? "second" : "first";
  Truth truth(self.rank);
  auto context = self.connect(name);
  for (unsigned tag = 0; tag < 3; tag++) {
    sumOnes(context, 100 + tag, tag);
    truth.operation(name.c_str(), "allreduce", 100 + tag, sizeof(float), tag);
  }
  std::printf("leaving by %s\n", how.c_str());
  std::fflush(stdout);

  if (how == "exit") {
    std::exit(5);
  } else if (how == "_exit") {
    _exit(5);
  } else if (how == "quick_exit") {
    std::quick_exit(5);
  } else if (how == "abort") {
    std::abort();
  } else if (how == "sigterm") {
    std::raise(SIGTERM);
  } else if (how == "thread-exit") {
    std::thread([] {
      usleep(20000);
      std::exit(5);
    }).detach();
    pthread_exit(nullptr);
  } else if (how == "exec") {
    execl(argv[0], argv[0], argv[1], argv[2], argv[3], "return-after-exec", nullptr);
    return 127;
  }
  return how == "return" || how == "return-after-exec" ? 5 : 2;
}
