// A program that takes its signals with sigwait. A thread that a library starts with the signal
// unblocked would be struck by it, and the program would die.
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
    // A recorder that starts a thread at the first operation would let it inherit this open mask.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    for (unsigned tag = 0; tag < 20; tag++) {
      sumOnes(context, 16, tag);
    }
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    usleep(50000);
    // To the process, not to a thread: any thread with an open mask may get it.
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
