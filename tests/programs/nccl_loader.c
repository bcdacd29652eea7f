// Loads users of NCCL (nccl_user.cc) in the ways in which programs load frameworks.
//   nccl_loader local USER        in a scope of its own, as Python loads extensions
//   nccl_loader deep USER         with a scope that starts with the library itself: past every preload
//   nccl_loader symbol LIBRARY    the functions by dlsym, as ctypes does: past every preload
//   nccl_loader copies USER USER  two users of two copies of the library
//   nccl_loader fork USER         before and after a fork, in both
//   nccl_loader exec USER         before and after an exec
//   nccl_loader many USER         a thousand communicators at once, twice
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*Use)(int, int);

static Use load(const char* path, int flags) {
  void* handle = dlopen(path, RTLD_NOW | flags);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return (Use)dlsym(handle, "use");
}

static void want(int got, int wanted, const char* what) {
  printf("%s %d\n", what, got);
  fflush(stdout);
  if (got != wanted) exit(3);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* how = argv[1];
  if (strcmp(how, "local") == 0) {
    want(load(argv[2], RTLD_LOCAL)(2, 10), 20, "local");
  } else if (strcmp(how, "deep") == 0) {
    want(load(argv[2], RTLD_LOCAL | RTLD_DEEPBIND)(2, 10), 20, "deep");
  } else if (strcmp(how, "symbol") == 0) {
    void* handle = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    int (*start)(void) = (int (*)(void))dlsym(handle, "ncclGroupStart");
    int (*end)(void) = (int (*)(void))dlsym(handle, "ncclGroupEnd");
    want(start() + end(), 0, "symbol");
  } else if (strcmp(how, "copies") == 0 && argc > 3) {
    Use one = load(argv[2], RTLD_LOCAL), other = load(argv[3], RTLD_LOCAL);
    want(one(1, 7), 7, "one");
    want(other(1, 8), 8, "other");
    want(one(1, 9), 9, "one");
  } else if (strcmp(how, "fork") == 0) {
    Use use = load(argv[2], RTLD_LOCAL);
    want(use(1, 5), 5, "before");
    const pid_t child = fork();
    want(use(1, child ? 6 : 7), child ? 6 : 7, child ? "parent" : "child");
    // A child that ends at once may lose its first calls, which this test does not examine.
    if (!child) usleep(300000);
    int status = 0;
    if (child && (waitpid(child, &status, 0) != child || status != 0)) return 3;
  } else if (strcmp(how, "exec") == 0) {
    want(load(argv[2], RTLD_LOCAL)(1, 5), 5, "before");
    usleep(300000);
    execl("/proc/self/exe", argv[0], "local", argv[2], (char*)NULL);
    return 3;
  } else if (strcmp(how, "many") == 0) {
    Use use = load(argv[2], RTLD_LOCAL);
    want(use(1000, 3), 3000, "many");
    want(use(1000, 2), 2000, "again");
  } else {
    return 2;
  }
  return 0;
}
