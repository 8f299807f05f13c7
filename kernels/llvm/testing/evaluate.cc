// Compiled once for each level: see operator_testing.h.

#include <cstring>

#include "kernels/llvm/operator_testing.h"
#include "kernels/region/operators.h"

namespace mica::region::MICA_SIMD_NAMESPACE {
namespace {

template <class L, class T, int N>
void StoreFirst(char* to, int64_t at, L x, int64_t count) {
  if constexpr (requires {
                  x& x;
                  !x;
                }) {  // A mask.
    const auto bits = Select(x, Ints<T, N>::Of(1), Ints<T, N>::Of(0));
    T lanes[N];
    std::memcpy(lanes, &bits.v, sizeof(lanes));
    for (int64_t i = 0; i < count; ++i) {
      to[at + i] = static_cast<char>(lanes[i]);
    }
  } else {
    std::memcpy(to + at * sizeof(T), &x.v, count * sizeof(T));
  }
}

template <class Operator, class Lanes, class Int, int N>
bool Run(const char* const* operands, int64_t n, char* result) {
  if constexpr (IsWritten<Operator>) {
    for (int64_t i = 0; i < n; i += N) {
      const int64_t count = n - i < N ? n - i : N;
      Lanes in[kMostRegionOperands];
      for (int k = 0; k < kMostRegionOperands; ++k) {
        char bytes[kRegisterBytes] = {};
        std::memcpy(bytes, operands[k] + i * sizeof(Int), count * sizeof(Int));
        in[k] = LoadLanes<Lanes>(bytes);
      }
      const auto y = Operator::Of(in[0], in[1], in[2], in[3]);
      StoreFirst<decltype(y), Int, N>(result, i, y, count);
    }
    return true;
  }
  return false;
}

template <class Lanes, template <RegionOpId> class Operator, class Int, int N>
bool Dispatch(RegionOpId op, const char* const* operands, int64_t n,
              char* result) {
  switch (op) {
#define MICA_RUN(Name, name, arity, domain)                               \
  case RegionOpId::k##Name:                                               \
    return Run<Operator<RegionOpId::k##Name>, Lanes, Int, N>(operands, n, \
                                                             result);
    MICA_REGION_OPS(MICA_RUN)
#undef MICA_RUN
  }
  return false;
}

}  // namespace

bool Evaluate(RegionOpId op, DType dtype, const char* const* operands,
              int64_t n, char* result) {
  constexpr int k32 = kRegisterBytes / 4, k64 = kRegisterBytes / 8;
  switch (dtype) {
    case DType::kF32:
      return Dispatch<Floats<float, k32>, FloatOperator, int32_t, k32>(
          op, operands, n, result);
    case DType::kF64:
      return Dispatch<Floats<double, k64>, FloatOperator, int64_t, k64>(
          op, operands, n, result);
    case DType::kI32:
      return Dispatch<Ints<int32_t, k32>, IntOperator, int32_t, k32>(
          op, operands, n, result);
    case DType::kI64:
      return Dispatch<Ints<int64_t, k64>, IntOperator, int64_t, k64>(
          op, operands, n, result);
    default:
      return false;
  }
}

}  // namespace mica::region::MICA_SIMD_NAMESPACE
