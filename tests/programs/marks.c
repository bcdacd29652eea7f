/* A rank that marks its work by rankscope.h: RANK, SIZE and STEPS are arguments. Its all-reduce is a barrier of files in
 * the directory DIR. Prints what it reported. */
#include "../../layer/include/rankscope.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void meet(const char *directory, int rank, int size, int number) {
  char path[4096];
  int other;
  snprintf(path, sizeof path, "%s/%d.%d", directory, number, rank);
  fclose(fopen(path, "w"));
  for (other = 0; other < size; other++) {
    snprintf(path, sizeof path, "%s/%d.%d", directory, number, other);
    while (access(path, F_OK) != 0) usleep(200);
  }
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  const int rank = atoi(argv[1]), size = atoi(argv[2]), steps = atoi(argv[3]);
  const char *directory = argv[4];
  const int recorded = rankscope_start();
  const uint32_t forward = rankscope_text("forward");
  const size_t files = rankscope_communicator("files", (uint32_t)rank, (uint32_t)size);
  int step;
  for (step = 0; step < steps; step++) {
    rankscope_step((uint64_t)step);
    rankscope_count("samples", 8);
    rankscope_push("outer");
    rankscope_push_text(forward);
    usleep(rank == 1 ? 15000 : 1000);
    rankscope_pop();
    rankscope_pop();
    rankscope_counter("queue_bytes", 100.0 * step);
    rankscope_begin(files, RANKSCOPE_ALL_REDUCE, 1024, -1, 0);
    meet(directory, rank, size, step);
    rankscope_end(0);
  }
  /* Messages around the ring, with a tag. */
  rankscope_begin(files, RANKSCOPE_SEND, 64, (rank + 1) % size, 7);
  rankscope_end(0);
  meet(directory, rank, size, steps);
  rankscope_begin(files, RANKSCOPE_RECEIVE, 64, (rank + size - 1) % size, 7);
  rankscope_end(0);
  rankscope_end_communicator(files);
  /* Closing what is not open is no error. */
  rankscope_pop();
  rankscope_end(0);
  printf("recorded %d\n", recorded);
  return 0;
}
