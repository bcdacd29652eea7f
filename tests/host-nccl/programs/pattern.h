// The data that ranks exchange, and what the result must be.
#pragma once

#include "rank.h"

// The element that a rank puts at a place. Small, so that sums and products are exact in all types.
double elementOf(int rank, size_t index);

// What a reduction over all ranks makes of the elements at a place.
double reduced(ncclRedOp_t op, const ElementType& type, int ranks, size_t index);

// Fills count elements of a rank, from a place in its pattern, at a place in the buffer.
void fill(Buffer& buffer, const ElementType& type, int rank, size_t count, size_t from = 0, size_t at = 0);

// Returns how many elements differ from what they should be. The first differing one goes to standard error.
template <typename Wanted>
size_t wrong(Buffer& buffer, const ElementType& type, size_t count, size_t at, const std::string& what, Wanted wanted);

bool isClose(const ElementType& type, double value, double wanted);

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
