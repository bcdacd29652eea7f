// NCCL's data types, and what the program needs to fill and check buffers of each.
#pragma once

#include <string>
#include <vector>

#include "nccl.h"

struct ElementType {
  ncclDataType_t type;
  const char* name;
  size_t size;
  bool isInteger;
  // The relative error that a result may have.
  double tolerance;
  void (*put)(void* buffer, size_t index, double value);
  double (*get)(const void* buffer, size_t index);
};

// All types of the version.
const std::vector<ElementType>& elementTypes();
const ElementType& elementType(ncclDataType_t type);
// The type of most cases.
inline const ElementType& floats() { return elementType(ncclFloat32); }
