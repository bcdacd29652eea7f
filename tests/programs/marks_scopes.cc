// The C++ side of rankscope.h: spans and operations that end with their scopes, also by an exception. Then it dies with open
// spans. In a forked child, spans start no recording.
#include "../../layer/include/rankscope.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>

int main() {
  rankscope_start();
  const rankscope::Communicator self("self", 0, 1);
  for (int i = 0; i < 3; i++) {
    try {
      const rankscope::Span outer("outer");
      const rankscope::Span inner("inner");
      rankscope::Collective collective(self, RANKSCOPE_BROADCAST, 256, 0);
      if (i == 2) {
#if __cplusplus < 201703L
        collective.fail();
#endif
        throw std::runtime_error("a failure");
      }
    } catch (const std::exception&) {
      std::puts("caught");
    }
  }
  {
    const rankscope::Collective outer(self, RANKSCOPE_BARRIER, 0);
    const rankscope::Collective inner(self, RANKSCOPE_BARRIER, 0);
  }
  rankscope_begin(0, RANKSCOPE_BARRIER, 0, -1, 0);
  rankscope_end(0);
  rankscope_push(nullptr);
  rankscope_pop();
  const pid_t child = fork();
  if (child == 0) {
    const rankscope::Span span("in a child");
    rankscope_counter("in a child", 1);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const rankscope::Span open("open");
  const rankscope::Span deeper("deeper");
  std::fflush(stdout);
  raise(SIGKILL);
}
