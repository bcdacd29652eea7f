// A program that receives its signals with sigwait. If a library's thread had the signal unblocked, the signal would be
// delivered to it and end the program.
#include <csignal>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "ranks.h"
#include "sum.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Gloo's own threads start here, with the signals blocked.
  auto context = self.connect("sigwait");

  std::thread worker([&] {
    // A recorder that starts a thread at the first operation would let it inherit this unblocked mask.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    for (unsigned tag = 0; tag < 20; tag++) {
      sumOnes(context, 16, tag);
    }
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    usleep(50000);
    // The signal is for the process, not a thread: any thread that does not block it may receive it.
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGTERM);
  });
  for (int expected = 0; expected < 2; expected++) {
    int got = 0;
    sigwait(&signals, &got);
    std::printf("got %s\n", got == SIGUSR1 ? "SIGUSR1" : "SIGTERM");
  }
  worker.join();
  return 0;
}
