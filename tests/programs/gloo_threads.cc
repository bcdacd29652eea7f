// Runs many threads: [ALIVE] at once (1000), then [SHORT] one after another in small groups (100000). Each does one
// operation on a communicator of this process alone, which sends nothing. The test is about the recorder's per-thread
// state.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "ranks.h"
#include "sum.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  const unsigned alive = argc > 4 ? std::atoi(argv[4]) : 1000;
  const unsigned brief = argc > 5 ? std::atoi(argv[5]) : 100000;
  auto context = self.connect("alone " + std::to_string(self.rank), 0, 1);
  std::atomic<unsigned> done{0};

  std::mutex mutex;
  std::condition_variable changed;
  unsigned arrived = 0;
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < alive; n++) {
    threads.emplace_back([&, n] {
      sumOnes(context, 1, n);
      done++;
      std::unique_lock<std::mutex> guard(mutex);
      if (++arrived == alive) {
        changed.notify_all();
      }
      changed.wait(guard, [&] { return arrived == alive; });
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }

  for (unsigned n = 0; n < brief;) {
    std::vector<std::thread> bunch;
    for (int i = 0; i < 8 && n < brief; i++, n++) {
      bunch.emplace_back([&, n] {
        sumOnes(context, 1, n);
        done++;
      });
    }
    for (auto& thread : bunch) {
      thread.join();
    }
  }
  std::printf("%u operations\n", done.load());
  return done == alive + brief ? 0 : 1;
}
