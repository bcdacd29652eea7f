#include "function_table.h"

#include <cstring>
#include <map>

namespace host_nccl {

namespace {

// The collectives that the bed implements.
struct Known {
  int ncclFunction;
  Function function;
};
constexpr Known kKnown[] = {
    {ncclFuncAllReduce, Function::kAllReduce},         {ncclFuncAllGather, Function::kAllGather},
    {ncclFuncReduceScatter, Function::kReduceScatter}, {ncclFuncBroadcast, Function::kBroadcast},
    {ncclFuncReduce, Function::kReduce},
};

// Returns the number of a function, or a negative one if the version has no such function.
int numberOf(int function, int reduction, int type, int algorithm) {
#if NCCL_VERSION_CODE >= 22100
  return ncclDevFuncId(function, reduction, type, algorithm, NCCL_PROTO_SIMPLE);
#else
  return FUNC_INDEX(function, reduction, type, algorithm, NCCL_PROTO_SIMPLE);
#endif
}

std::map<int, DeviceFunction> table() {
  std::map<int, DeviceFunction> out;
  for (const Known& known : kKnown) {
    for (int reduction = 0; reduction < ncclNumDevRedOps; reduction++) {
      for (int type = 0; type < ncclNumTypes; type++) {
        for (int algorithm : {NCCL_ALGO_RING, NCCL_ALGO_TREE}) {
          if (algorithm == NCCL_ALGO_TREE && known.function != Function::kAllReduce) continue;
          const int number = numberOf(known.ncclFunction, reduction, type, algorithm);
          DeviceFunction function;
          function.kind = DeviceFunction::kCollective;
          function.function = known.function;
          function.algorithm = algorithm == NCCL_ALGO_RING ? Algorithm::kRing : Algorithm::kTree;
          // Functions that only copy have one number for all types. They count in bytes.
          const bool copies = known.function == Function::kAllGather || known.function == Function::kBroadcast;
          function.reduction = copies ? static_cast<int>(ncclDevSum) : reduction;
          function.type = copies ? ncclInt8 : static_cast<ncclDataType_t>(type);
          if (number >= 0) out.insert({number, function});
        }
      }
    }
  }
  DeviceFunction messages;
  messages.kind = DeviceFunction::kMessages;
#if NCCL_VERSION_CODE >= 22100
  out[ncclDevFuncId_P2p()] = messages;
#else
  out[FUNC_INDEX_P2P] = messages;
  for (int type = 0; type < ncclNumTypes; type++) {
    DeviceFunction oneRank;
    oneRank.kind = DeviceFunction::kOneRank;
    oneRank.reduction = ncclDevPreMulSum;
    oneRank.type = static_cast<ncclDataType_t>(type);
    out[1 + FUNC_INDEX_P2P + type] = oneRank;
  }
#endif
  return out;
}

}  // namespace

DeviceFunction deviceFunction(int number) {
  static const std::map<int, DeviceFunction>& functions = *new std::map<int, DeviceFunction>(table());
  const auto found = functions.find(number);
  return found == functions.end() ? DeviceFunction() : found->second;
}

Reduction reductionOf(const DeviceFunction& function, uint64_t argument) {
  Reduction out = {Operator::kSum, function.type, argument};
  switch (function.reduction) {
    case ncclDevProd:
      out.op = Operator::kProduct;
      break;
#if NCCL_VERSION_CODE >= 22100
    case ncclDevMinMax:
      // The argument is a mask that turns the operation into an unsigned minimum. Its lowest bit is set for a maximum.
      out.op = argument & 1 ? Operator::kMaximum : Operator::kMinimum;
      break;
#else
    case ncclDevMin:
      out.op = Operator::kMinimum;
      break;
    case ncclDevMax:
      out.op = Operator::kMaximum;
      break;
#endif
    case ncclDevPreMulSum:
      out.op = Operator::kScaledSum;
      break;
    case ncclDevSumPostDiv:
      out.op = Operator::kSumThenDivide;
#if NCCL_VERSION_CODE >= 22700
      // The lowest bit says whether the type is signed.
      out.argument = argument >> 1;
#endif
      break;
    default:
      break;
  }
  return out;
}

uint64_t argumentAt(ncclDataType_t type, uint64_t address) {
  uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(address), Reduction{Operator::kSum, type, 0}.elementSize());
  return value;
}

}  // namespace host_nccl
