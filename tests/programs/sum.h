// An all-reduce of floats, the only operation that most of these programs need.
#pragma once

#include <memory>
#include <stdexcept>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>

// Sums `count` ones over all ranks and checks the result: a recorder must not change it.
inline void sumOnes(const std::shared_ptr<gloo::Context>& context, size_t count, unsigned tag) {
  std::vector<float> values(count, 1.0f);
  gloo::AllreduceOptions options(context);
  options.setOutput(values.data(), values.size());
  options.setReduceFunction(
      [](void* c, const void* a, const void* b, size_t n) { gloo::sum<float>(c, a, b, n); });
  options.setTag(tag);
  gloo::allreduce(options);
  for (float value : values) {
    if (value != static_cast<float>(context->size)) {
      throw std::logic_error("wrong sum");
    }
  }
}
