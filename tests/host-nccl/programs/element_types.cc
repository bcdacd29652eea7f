#include "element_types.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <cstdlib>

namespace {

template <typename T, typename Between = double>
struct Access {
  // Small floating-point types convert by way of float. Integers convert by way of int64_t, so that they wrap around.
  static void put(void* buffer, size_t index, double value) {
    static_cast<T*>(buffer)[index] = T(static_cast<Between>(value));
  }
  static double get(const void* buffer, size_t index) {
    return static_cast<double>(static_cast<Between>(static_cast<const T*>(buffer)[index]));
  }
};

template <typename T, typename Between = double>
ElementType of(ncclDataType_t type, const char* name, bool isInteger, double tolerance) {
  return {type, name, sizeof(T), isInteger, tolerance, Access<T, Between>::put, Access<T, Between>::get};
}

}  // namespace

const std::vector<ElementType>& elementTypes() {
  static const std::vector<ElementType> types = {
      of<int8_t, int64_t>(ncclInt8, "int8", true, 0),
      of<uint8_t, int64_t>(ncclUint8, "uint8", true, 0),
      of<int32_t, int64_t>(ncclInt32, "int32", true, 0),
      of<uint32_t, int64_t>(ncclUint32, "uint32", true, 0),
      of<int64_t, int64_t>(ncclInt64, "int64", true, 0),
      of<uint64_t, int64_t>(ncclUint64, "uint64", true, 0),
      of<__half, float>(ncclFloat16, "float16", false, 1e-2),
      of<float>(ncclFloat32, "float32", false, 1e-5),
      of<double>(ncclFloat64, "float64", false, 1e-12),
      of<__nv_bfloat16, float>(ncclBfloat16, "bfloat16", false, 5e-2),
#if NCCL_VERSION_CODE >= 22400
      of<__nv_fp8_e4m3, float>(ncclFloat8e4m3, "float8e4m3", false, 0.3),
      of<__nv_fp8_e5m2, float>(ncclFloat8e5m2, "float8e5m2", false, 0.5),
#endif
  };
  return types;
}

const ElementType& elementType(ncclDataType_t type) {
  for (const ElementType& known : elementTypes()) {
    if (known.type == type) return known;
  }
  std::abort();
}
