/* Marks for rankscope: spans, steps, counters and own collectives of a C or C++ program.
 *
 * The functions find the preloaded library at run time. Without it they do nothing. Nothing has to be linked but -ldl before
 * glibc 2.34. Every function can be called from any thread, and none fails.
 *
 *     rankscope_step(i);
 *     rankscope_push("load");
 *     ...
 *     rankscope_pop();
 *     rankscope_counter("loss", loss);
 *
 * Spans and counters are recorded once the recording of the process runs. It starts with the first intercepted call of a
 * communication library, the first step or own collective, or rankscope_start().
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef RANKSCOPE_H
#define RANKSCOPE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#if __cplusplus >= 201703L
#include <exception>
#endif
extern "C" {
#endif

/* Operations of rankscope_begin. The numbers are those of the rank log. */
enum rankscope_operation {
  RANKSCOPE_ALL_REDUCE = 1,
  RANKSCOPE_ALL_GATHER = 2,
  RANKSCOPE_REDUCE_SCATTER = 4,
  RANKSCOPE_ALL_TO_ALL = 5,
  RANKSCOPE_BARRIER = 7,
  RANKSCOPE_BROADCAST = 8,
  RANKSCOPE_SCATTER = 9,
  RANKSCOPE_REDUCE = 10,
  RANKSCOPE_GATHER = 11,
  RANKSCOPE_SEND = 13,
  RANKSCOPE_RECEIVE = 14,
  RANKSCOPE_SCAN = 15
};

/* Functions of the library, version 1. Later versions only append. */
struct rankscope_api {
  uint32_t bytes;
  uint32_t version;
  int32_t (*start)(void);
  uint32_t (*text)(const char *text, size_t length);
  void (*push)(uint32_t text);
  void (*pop)(void);
  void (*counter)(uint32_t text, double value);
  void (*step)(uint64_t number);
  void (*count)(const char *what, size_t length, uint64_t number);
  size_t (*communicator)(const char *name, size_t length, uint32_t rank, uint32_t size);
  void (*end_communicator)(size_t communicator);
  void (*begin_collective)(size_t communicator, uint8_t operation, uint64_t bytes, uint8_t element_bytes, int32_t peer,
                           uint32_t tag);
  void (*end_collective)(int32_t has_failed);
};

static inline size_t rankscope_length(const char *text) { return text != NULL ? strlen(text) : 0; }

/* Returns the functions of the preloaded library; null without it. */
static inline const struct rankscope_api *rankscope_functions(void) {
  /* The address that was found, 0 before the search, 1 without a library. Several threads may search, and find the same. */
  static uintptr_t found;
  uintptr_t known = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
  if (__builtin_expect(known == 0, 0)) {
    union {
      void *address;
      const struct rankscope_api *(*call)(uint32_t version);
    } function;
    const struct rankscope_api *functions = NULL;
    /* A null handle is RTLD_DEFAULT, which only some feature macros define. */
    function.address = dlsym(NULL, "rankscope_api");
    if (function.address != NULL) functions = function.call(1);
    known = functions != NULL ? (uintptr_t)functions : 1;
    __atomic_store_n(&found, known, __ATOMIC_RELEASE);
  }
  return known == 1 ? NULL : (const struct rankscope_api *)known;
}

/* Starts the recording, if `rankscope run` started the process. Returns 1 if the process records. */
static inline int rankscope_start(void) {
  const struct rankscope_api *functions = rankscope_functions();
  return functions != NULL ? functions->start() : 0;
}

/* Returns the number of a text, for rankscope_push_text and rankscope_counter_text. A process can have some hundred long
 * texts, or about 4,000 short ones. */
static inline uint32_t rankscope_text(const char *text) {
  const struct rankscope_api *functions = rankscope_functions();
  return functions != NULL ? functions->text(text, rankscope_length(text)) : UINT32_MAX;
}

/* Opens a span of this thread. Spans of one thread must be closed in the reverse order: a task that waits while another one runs
 * on its thread cannot use them. */
static inline void rankscope_push_text(uint32_t text) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->push(text);
}

/* Opens a span of this thread. */
static inline void rankscope_push(const char *name) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->push(functions->text(name, rankscope_length(name)));
}

/* Closes the span that this thread opened last. */
static inline void rankscope_pop(void) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->pop();
}

/* Records a sample of a counter. */
static inline void rankscope_counter_text(uint32_t text, double value) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->counter(text, value);
}

/* Records a sample of a counter. */
static inline void rankscope_counter(const char *name, double value) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->counter(functions->text(name, rankscope_length(name)), value);
}

/* Records that a step begins. The step before it ends. */
static inline void rankscope_step(uint64_t number) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->step(number);
}

/* Records how many "tokens" or "samples" this rank processes in the step. Counts of one step add up. */
static inline void rankscope_count(const char *what, uint64_t number) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->count(what, rankscope_length(what), number);
}

/* Defines a communicator of the program. All members give the same name and size. Different groups need different names. Returns
 * 0 if it is not recorded. */
static inline size_t rankscope_communicator(const char *name, uint32_t rank, uint32_t size) {
  const struct rankscope_api *functions = rankscope_functions();
  return functions != NULL ? functions->communicator(name, rankscope_length(name), rank, size) : 0;
}

/* Ends a communicator. */
static inline void rankscope_end_communicator(size_t communicator) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->end_communicator(communicator);
}

/* Begins an operation that the program performs by its own means. `bytes`: as rankscope's METRICS.md defines the payload of
 * the operation. `peer`: root or peer, -1 for none. `tag`: of a message, else 0. A thread has one operation at a time: one inside
 * another is counted, and not recorded. It must end on the same thread. */
static inline void rankscope_begin(size_t communicator, enum rankscope_operation operation, uint64_t bytes, int32_t peer,
                                   uint32_t tag) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->begin_collective(communicator, (uint8_t)operation, bytes, 0, peer, tag);
}

/* Ends the operation that this thread began last. `has_failed`: 1 if it did not complete. */
static inline void rankscope_end(int has_failed) {
  const struct rankscope_api *functions = rankscope_functions();
  if (functions != NULL) functions->end_collective(has_failed);
}

#ifdef __cplusplus
}

namespace rankscope {

/* A span of this thread, which ends with its scope. */
class Span {
 public:
  explicit Span(const char *name) { rankscope_push(name); }
  explicit Span(uint32_t text) { rankscope_push_text(text); }
  ~Span() { rankscope_pop(); }
  Span(const Span &) = delete;
  Span &operator=(const Span &) = delete;
};

/* A communicator of the program. */
class Communicator {
 public:
  Communicator(const char *name, uint32_t rank, uint32_t size) : handle_(rankscope_communicator(name, rank, size)) {}
  ~Communicator() { rankscope_end_communicator(handle_); }
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  size_t handle() const { return handle_; }

 private:
  size_t handle_;
};

/* An operation of the program, which ends with its scope. Call fail() where it did not complete. From C++17 on, an exception
 * that leaves the scope does the same. */
class Collective {
 public:
  Collective(const Communicator &communicator, rankscope_operation operation, uint64_t bytes, int32_t peer = -1,
             uint32_t tag = 0) {
    rankscope_begin(communicator.handle(), operation, bytes, peer, tag);
  }
  ~Collective() {
    if (exceptions() > exceptions_) failed_ = 1;
    rankscope_end(failed_);
  }
  void fail() { failed_ = 1; }
  Collective(const Collective &) = delete;
  Collective &operator=(const Collective &) = delete;

 private:
  static int exceptions() {
#if __cplusplus >= 201703L
    return std::uncaught_exceptions();
#else
    return 0;
#endif
  }
  // The same members in every standard: a program may mix them.
  int failed_ = 0;
  int exceptions_ = exceptions();
};

}  // namespace rankscope
#endif

#endif
