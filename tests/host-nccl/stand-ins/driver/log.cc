#include "log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace host_nccl {

void logOnce(const char* what) {
  // Never destroyed: NCCL calls the driver from exit handlers.
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& logged = *new std::set<std::string>;
  const char* path = std::getenv("HOST_NCCL_LOG");
  if (path == nullptr) return;
  std::lock_guard<std::mutex> guard(mutex);
  if (!logged.insert(what).second) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  char line[512];
  const int length = std::snprintf(line, sizeof line, "%d: not supported: %s\n", getpid(), what);
  if (write(file, line, length) != length) std::perror(path);
  close(file);
}

}  // namespace host_nccl
