// A test double of libamdhip64.so.6, as far as a stream can be asked whether it is being captured.
#include "nccl_double.h"

extern "C" int hipStreamIsCapturing(DoubleStream* stream, int* status) {
  *status = stream != nullptr && stream->capturing;
  return 0;
}
