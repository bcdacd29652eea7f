// The data that ranks exchange, and the results that they must get.
#pragma once

#include "rank.h"

// Returns a rank's element at a place. It is small, so that sums and products are exact in all types.
double elementOf(int rank, size_t index);

// Returns the result of a reduction of all ranks' elements at a place.
double reduced(ncclRedOp_t op, const ElementType& type, int ranks, size_t index);

// Fills count elements of a rank, from a place in its pattern, at a place in the buffer.
void fill(Buffer& buffer, const ElementType& type, int rank, size_t count, size_t from = 0, size_t at = 0);

bool isClose(const ElementType& type, double value, double wanted);

// Returns the number of wrong elements, and prints the first one to standard error.
template <typename Wanted>
size_t wrong(Buffer& buffer, const ElementType& type, size_t count, size_t at, const std::string& what, Wanted wanted) {
  size_t out = 0;
  for (size_t i = 0; i < count; i++) {
    const double is = type.get(buffer.host(), at + i), should = wanted(i);
    if (isClose(type, is, should)) continue;
    if (out++ == 0) {
      std::fprintf(stderr, "%s: element %zu is %g, not %g\n", what.c_str(), at + i, is, should);
    }
  }
  return out;
}
