// A test double of libamdhip64.so.6, only for the query whether a stream is being captured.
#include "nccl_double.h"

extern "C" int hipStreamIsCapturing(DoubleStream* stream, int* status) {
  *status = stream != nullptr && stream->capturing;
  return 0;
}
