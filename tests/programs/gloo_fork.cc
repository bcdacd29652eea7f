// A rank that has communicated creates children in every possible way. HOW names the way.
// Parent and child then each run the operations that they announce on standard output.
//
//   fork-quiet    fork, the child does nothing      fork-op    fork, the child does operations
//   _Fork-op      _Fork: no fork handlers run       clone-op   the bare system call
//   fork-mesh     two children form a communicator of their own
//   fork-storm    200 children one after another, every tenth with an operation
//   vfork-exec    vfork and execve of `true`        spawn      posix_spawn of `true`
//
// Operations after a fork use a communicator of one process. It needs none of Gloo's threads, which do not survive a
// fork.
#include <cstring>
#include <string>

#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"
#include "sum.h"

extern char** environ;

static void say(const char* who, unsigned operations) {
  char line[64];
  const int length = std::snprintf(line, sizeof line, "%s %u\n", who, operations);
  if (write(1, line, length) != length) {
    _exit(4);
  }
}

static int waitFor(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) {
    return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  const std::string how = argc > 4 ? argv[4] : "fork-op";
  auto together = self.connect("together");
  auto alone = self.connect("alone " + std::to_string(self.rank), 0, 1);
  sumOnes(together, 8, 0);

  char* arguments[] = {const_cast<char*>("true"), nullptr};
  int status = 0;
  if (how == "vfork-exec") {
    const pid_t child = vfork();
    if (child == 0) {
      execve("/bin/true", arguments, environ);
      _exit(127);
    }
    status = waitFor(child);
  } else if (how == "spawn") {
    pid_t child = 0;
    status = posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ);
    status = status == 0 ? waitFor(child) : status;
  } else if (how == "fork-storm") {
    for (int n = 0; n < 200 && status == 0; n++) {
      const pid_t child = fork();
      if (child == 0) {
        if (n % 10 == 0) {
          sumOnes(alone, 4, n);
          say("child", 1);
        }
        _exit(0);
      }
      status = waitFor(child);
    }
  } else if (how == "fork-mesh") {
    pid_t children[2];
    for (int n = 0; n < 2; n++) {
      children[n] = fork();
      if (children[n] == 0) {
        auto mesh = self.connect("children of " + std::to_string(self.rank), n, 2);
        sumOnes(mesh, 4, 1);
        say("child", 1);
        _exit(0);
      }
    }
    status = waitFor(children[0]) + waitFor(children[1]);
  } else {
    pid_t child = -1;
    if (how == "fork-quiet" || how == "fork-op") {
      child = fork();
    } else if (how == "_Fork-op") {
      child = _Fork();
    } else if (how == "clone-op") {
      child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    }
    if (child == -1) {
      std::fprintf(stderr, "cannot %s\n", how.c_str());
      return 2;
    }
    if (child == 0) {
      if (how != "fork-quiet") {
        for (unsigned tag = 0; tag < 5; tag++) {
          sumOnes(alone, 4, tag);
        }
        say("child", 5);
      }
      _exit(0);
    }
    status = waitFor(child);
  }

  // The parent's own recording must be intact.
  sumOnes(together, 8, 1);
  say("parent", 2);
  return status;
}
