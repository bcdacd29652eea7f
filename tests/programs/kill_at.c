// Preloaded in front of the library: kills its own process at one step of the recorder's background thread.
//
//   KILL_WRITE=N KILL_BYTES=K   in the N-th write to a segment file (from 1), after K bytes of it; -1: after all
//   KILL_UNLINK=1               before a live area is removed
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int ends_with(const char* text, const char* end) {
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void die(void) {
  kill(getpid(), SIGKILL);
  pause();
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  static ssize_t (*real)(int, const void*, size_t);
  static int writes;
  if (real == NULL) {
    real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  }
  const char* at = getenv("KILL_WRITE");
  if (at != NULL) {
    // The recorder's thread has a separate table of descriptors.
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", descriptor);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    if ((ends_with(path, ".rslog") || ends_with(path, ".starting")) && ++writes == atoi(at)) {
      const char* told = getenv("KILL_BYTES");
      const long part = told == NULL ? -1 : atol(told);
      if (part != 0) {
        real(descriptor, bytes, part < 0 || (size_t)part > count ? count : (size_t)part);
      }
      die();
    }
  }
  return real(descriptor, bytes, count);
}

int unlink(const char* path) {
  static int (*real)(const char*);
  if (real == NULL) {
    real = (int (*)(const char*))dlsym(RTLD_NEXT, "unlink");
  }
  if (getenv("KILL_UNLINK") != NULL && ends_with(path, ".rslive")) {
    die();
  }
  return real(path);
}
