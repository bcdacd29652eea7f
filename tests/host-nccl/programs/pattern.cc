#include "pattern.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

// One bit of a hash: data at a wrong place differs.
double elementOf(int rank, size_t index) {
  uint64_t hash = (index + 1) * 0x9e3779b97f4a7c15u + rank * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ hash >> 31) * 0x94d049bb133111ebu;
  return 1 + static_cast<double>(hash >> 63);
}

double reduced(ncclRedOp_t op, const ElementType& type, int ranks, size_t index) {
  double sum = 0, product = 1, least = 2, greatest = 1;
  for (int rank = 0; rank < ranks; rank++) {
    const double element = elementOf(rank, index);
    sum += element, product *= element;
    least = std::min(least, element), greatest = std::max(greatest, element);
  }
  switch (op) {
    case ncclProd:
      return product;
    case ncclMin:
      return least;
    case ncclMax:
      return greatest;
    case ncclAvg:
      return type.isInteger ? std::floor(sum / ranks) : sum / ranks;
    default:
      return sum;
  }
}

void fill(Buffer& buffer, const ElementType& type, int rank, size_t count, size_t from, size_t at) {
  for (size_t i = 0; i < count; i++) type.put(buffer.host(), at + i, elementOf(rank, from + i));
}

bool isClose(const ElementType& type, double value, double wanted) {
  if (type.isInteger) {
    // A product may wrap around.
    int64_t wrapped;
    type.put(&wrapped, 0, wanted);
    return type.get(&wrapped, 0) == value;
  }
  return std::abs(value - wanted) <= type.tolerance * std::abs(wanted);
}
