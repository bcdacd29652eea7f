// A test double of another tool's NVTX injection. It counts its calls, reports them at exit, and answers with numbers
// of its own.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef const void* (*GetExportTable)(uint32_t);
typedef struct {
  size_t size;
  int (*get)(int module, void**** table, unsigned* count);
} Callbacks;

static int pushes, pops, marks, starts, ends;

static int push(const char* text) {
  (void)text;
  return 40 + pushes++;
}
static int pop(void) {
  pops++;
  return 70;
}
static void mark(const char* text) {
  (void)text;
  marks++;
}
static uint64_t start(const char* text) {
  (void)text;
  return 9000 + (uint64_t)starts++;
}
static void end(uint64_t id) { ends += id == 9000; }

int InitializeInjectionNvtx2(GetExportTable getTable) {
  const Callbacks* callbacks = getTable(1);
  void*** table;
  unsigned count;
  if (!callbacks || callbacks->get(1, &table, &count) != 1) return 0;
  *(int (**)(const char*))table[9] = push;
  *(int (**)(void))table[11] = pop;
  *(void (**)(const char*))table[2] = mark;
  *(uint64_t (**)(const char*))table[5] = start;
  *(void (**)(uint64_t))table[7] = end;
  return 1;
}

__attribute__((destructor)) static void tell(void) {
  printf("other: %d pushes, %d pops, %d marks, %d starts, %d ends\n", pushes, pops, marks, starts, ends);
}
