// A test double of libcuda.so.1, as far as a stream can be asked whether it is being captured.
#include "nccl_double.h"

int cuStreamIsCapturing(struct DoubleStream* stream, int* status) {
  *status = stream != 0 && stream->capturing;
  return 0;
}
