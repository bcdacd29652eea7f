#include "reduction.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstring>

namespace host_nccl {

namespace {

// How to compute with a type: small floating-point types compute in float, and each result is rounded.
template <typename T>
struct Arithmetic {
  typedef T Value;
  static T get(T element) { return element; }
  static T put(T value) { return value; }
};

#define SMALL_FLOAT(Type)                                                 \
  template <>                                                             \
  struct Arithmetic<Type> {                                               \
    typedef float Value;                                                  \
    static float get(Type element) { return static_cast<float>(element); } \
    static Type put(float value) { return Type(value); }                  \
  };
SMALL_FLOAT(__half)
SMALL_FLOAT(__nv_bfloat16)
#if NCCL_VERSION_CODE >= 22400
SMALL_FLOAT(__nv_fp8_e4m3)
SMALL_FLOAT(__nv_fp8_e5m2)
#endif

template <typename T>
T read(const char* from, size_t index) {
  T element;
  std::memcpy(&element, from + index * sizeof(T), sizeof(T));
  return element;
}

template <typename T>
void write(char* to, size_t index, const T& element) {
  std::memcpy(to + index * sizeof(T), &element, sizeof(T));
}

template <typename T>
void begin(const Reduction& reduction, char* to, const char* from, size_t bytes) {
  typedef Arithmetic<T> A;
  const auto scale = A::get(read<T>(reinterpret_cast<const char*>(&reduction.argument), 0));
  for (size_t i = 0; i < bytes / sizeof(T); i++) write<T>(to, i, A::put(A::get(read<T>(from, i)) * scale));
}

template <typename T>
void accumulate(const Reduction& reduction, char* to, const char* from, size_t bytes) {
  typedef Arithmetic<T> A;
  typedef typename A::Value Value;
  const size_t count = bytes / sizeof(T);
  auto each = [&](auto combine) {
    for (size_t i = 0; i < count; i++) {
      write<T>(to, i, A::put(combine(A::get(read<T>(to, i)), A::get(read<T>(from, i)))));
    }
  };
  switch (reduction.op) {
    case Operator::kProduct:
      return each([](Value a, Value b) -> Value { return a * b; });
    case Operator::kMinimum:
      return each([](Value a, Value b) -> Value { return b < a ? b : a; });
    case Operator::kMaximum:
      return each([](Value a, Value b) -> Value { return a < b ? b : a; });
    default:
      return each([](Value a, Value b) -> Value { return a + b; });
  }
}

template <typename T>
void finish(const Reduction& reduction, char* to, size_t bytes) {
  typedef Arithmetic<T> A;
  const auto divisor = static_cast<typename A::Value>(reduction.argument);
  for (size_t i = 0; i < bytes / sizeof(T); i++) write<T>(to, i, A::put(A::get(read<T>(to, i)) / divisor));
}

// Calls a function template for a data type.
#define FOR_TYPE(type, call)                 \
  switch (static_cast<int>(type)) {          \
    case ncclInt8: return call<int8_t>;      \
    case ncclUint8: return call<uint8_t>;    \
    case ncclInt32: return call<int32_t>;    \
    case ncclUint32: return call<uint32_t>;  \
    case ncclInt64: return call<int64_t>;    \
    case ncclUint64: return call<uint64_t>;  \
    case ncclFloat16: return call<__half>;   \
    case ncclFloat32: return call<float>;    \
    case ncclFloat64: return call<double>;   \
    case kBfloat16: return call<__nv_bfloat16>; \
    FLOAT8(call)                             \
    default: return nullptr;                 \
  }

// Its name is there only if nccl.h knows the type.
constexpr int kBfloat16 = 9;
#if NCCL_VERSION_CODE >= 22400
#define FLOAT8(call)                            \
  case ncclFloat8e4m3: return call<__nv_fp8_e4m3>; \
  case ncclFloat8e5m2: return call<__nv_fp8_e5m2>;
#else
#define FLOAT8(call)
#endif

typedef void Begin(const Reduction&, char*, const char*, size_t);
typedef void Finish(const Reduction&, char*, size_t);

Begin* beginOf(ncclDataType_t type) { FOR_TYPE(type, begin) }
Begin* accumulateOf(ncclDataType_t type) { FOR_TYPE(type, accumulate) }
Finish* finishOf(ncclDataType_t type) { FOR_TYPE(type, finish) }

}  // namespace

size_t Reduction::elementSize() const {
  switch (static_cast<int>(type)) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case kBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 1;
  }
}

void Reduction::begin(char* to, const char* from, size_t bytes) const {
  if (op == Operator::kScaledSum) {
    beginOf(type)(*this, to, from, bytes);
  } else if (to != from) {
    std::memmove(to, from, bytes);
  }
}

void Reduction::accumulate(char* to, const char* from, size_t bytes) const {
  accumulateOf(type)(*this, to, from, bytes);
}

void Reduction::finish(char* to, size_t bytes) const {
  if (op == Operator::kSumThenDivide) finishOf(type)(*this, to, bytes);
}

}  // namespace host_nccl
