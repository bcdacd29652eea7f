// Guards for programs that prove the absence of allocations, locks and system calls. Any of them in a guarded thread
// ends the process with a message. Compile without -O2's own assumptions about malloc (-fno-builtin). Link so that the
// guards precede the C library (-rdynamic).
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static constexpr int kComplaints = 199;
static thread_local bool guarded = false;
static const char* current = "";

[[noreturn]] static void caught(const char* what, long number) {
  guarded = false;
  char text[512];
  const int length = snprintf(text, sizeof text, "caught: %s %ld in %s\n", what, number, current);
  if (write(kComplaints, text, size_t(length)) < 0) {
  }
  syscall(SYS_exit_group, 86);
  __builtin_unreachable();
}

extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  if (guarded) caught("malloc", long(size));
  return __libc_malloc(size);
}
void free(void* pointer) {
  if (guarded) caught("free", 0);
  __libc_free(pointer);
}
void* calloc(size_t count, size_t size) {
  if (guarded) caught("calloc", long(size));
  return __libc_calloc(count, size);
}
void* realloc(void* pointer, size_t size) {
  if (guarded) caught("realloc", long(size));
  return __libc_realloc(pointer, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  if (guarded) caught("aligned_alloc", long(size));
  return __libc_memalign(alignment, size);
}
void* memalign(size_t alignment, size_t size) {
  if (guarded) caught("memalign", long(size));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** result, size_t alignment, size_t size) {
  if (guarded) caught("posix_memalign", long(size));
  *result = __libc_memalign(alignment, size);
  return *result ? 0 : ENOMEM;
}

#define GUARD_LOCK(name, type)                                               \
  int name(type* lock) {                                                     \
    if (guarded) caught(#name, 0);                                           \
    static int (*real)(type*);                                               \
    if (!real) real = reinterpret_cast<int (*)(type*)>(dlsym(RTLD_NEXT, #name)); \
    return real(lock);                                                       \
  }
GUARD_LOCK(pthread_mutex_lock, pthread_mutex_t)
GUARD_LOCK(pthread_mutex_trylock, pthread_mutex_t)
GUARD_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
GUARD_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
}

static void onSystemCall(int, siginfo_t* info, void*) { caught("system call", info->si_syscall); }

#if defined(__x86_64__)
static constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
static constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// From now on, this thread may only print a complaint and end. An emulator of processors has no filter of system calls.
// With TEST_IS_EMULATED, allocations and locks are caught there, and system calls are not.
static void forbidSystemCalls() {
  if (getenv("TEST_IS_EMULATED")) return;
  const sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kComplaints, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog program = {sizeof filter / sizeof filter[0], const_cast<sock_filter*>(filter)};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    fprintf(stderr, "no seccomp filter here: %s\n", strerror(errno));
    _exit(87);
  }
}
