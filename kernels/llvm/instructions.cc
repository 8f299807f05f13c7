#include "kernels/llvm/instructions.h"

#include <type_traits>

#include "glog/logging.h"
#include "kernels/llvm/ir_functions.h"

namespace mica::region::ir {
namespace {

using Operands = absl::Span<llvm::Value* const>;

// Whether the operators of a domain are for such lanes.
template <class Lanes>
constexpr bool Takes(RegionDomain domain) {
  switch (domain) {
    case RegionDomain::kFloats:
      return requires { Lanes::kIsDouble; };
    case RegionDomain::kNumbers:
      return !std::is_same_v<Lanes, IrBools>;
    case RegionDomain::kIntegers:
      return requires { Lanes::kBits; };
    case RegionDomain::kBits:
      return !requires { Lanes::kIsDouble; };
    case RegionDomain::kAll:
      return true;
  }
  return false;
}

// The expression of one operator.
template <class Operator, class Lanes, RegionDomain kDomain>
llvm::Value* Write(Operands in) {
  if constexpr (Takes<Lanes>(kDomain) && IsWritten<Operator>) {
    const auto at = [&](size_t i) {
      return Lanes{i < in.size() ? in[i] : nullptr};
    };
    return Operator::Of(at(0), at(1), at(2), at(3)).v;
  } else {
    LOG(FATAL) << "an operator for other numbers";
  }
}

template <class Lanes, template <RegionOpId> class Operator>
llvm::Value* Dispatch(RegionOpId op, Operands in) {
  if (op == RegionOpId::kCast) return in[0];
  if (op == RegionOpId::kWhere) {
    return Select(IrMask{in[0]}, Lanes{in[1]}, Lanes{in[2]}).v;
  }
  switch (op) {
#define MICA_WRITE(Name, name, arity, domain)                                 \
  case RegionOpId::k##Name:                                                   \
    return Write<Operator<RegionOpId::k##Name>, Lanes, RegionDomain::domain>( \
        in);
    MICA_REGION_OPS(MICA_WRITE)
#undef MICA_WRITE
  }
  LOG(FATAL) << "no operator: " << static_cast<int>(op);
}

}  // namespace

llvm::Value* Apply(RegionOpId op, DType dtype, Operands operands) {
  switch (dtype) {
    case DType::kF32:
      return Dispatch<IrFloats<float>, FloatOperator>(op, operands);
    case DType::kF64:
      return Dispatch<IrFloats<double>, FloatOperator>(op, operands);
    case DType::kI64:
      return Dispatch<IrInts<int64_t>, IntOperator>(op, operands);
    case DType::kI32:
      return Dispatch<IrInts<int32_t>, IntOperator>(op, operands);
    case DType::kI16:
      return Dispatch<IrInts<int16_t>, IntOperator>(op, operands);
    case DType::kI8:
      return Dispatch<IrInts<int8_t>, IntOperator>(op, operands);
    case DType::kU8:
      return Dispatch<IrInts<uint8_t>, IntOperator>(op, operands);
    case DType::kBool:
      return Dispatch<IrBools, IntOperator>(op, operands);
    default:
      LOG(FATAL) << "nothing computes in " << DTypeName(dtype);
  }
}

}  // namespace mica::region::ir
