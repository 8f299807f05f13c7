// The operators of kernels/region as GCC compiles them, for one level each.

#ifndef MICA_KERNELS_LLVM_OPERATOR_TESTING_H_
#define MICA_KERNELS_LLVM_OPERATOR_TESTING_H_

#include <cstdint>
#include <vector>

#include "framework/op/region_ops.h"
#include "framework/tensor/dtype.h"

namespace mica::region {

// Applies an operator to n elements; results of comparisons are bytes, 0 or 1.
// False if there is no such operator for f32, f64, i32 and i64.
using EvaluateFn = bool(RegionOpId op, DType dtype, const char* const* operands,
                        int64_t n, char* result);

struct EvaluatedLevel {
  const char* name;  // "v1".
  EvaluateFn* evaluate;
};

namespace v1 {
EvaluateFn Evaluate;
}
namespace v3 {
EvaluateFn Evaluate;
}
namespace v4 {
EvaluateFn Evaluate;
}

// Those that this processor runs.
inline std::vector<EvaluatedLevel> EvaluatedLevels() {
  std::vector<EvaluatedLevel> levels = {{"v1", v1::Evaluate}};
  if (__builtin_cpu_supports("x86-64-v3")) {
    levels.push_back({"v3", v3::Evaluate});
  }
  if (__builtin_cpu_supports("x86-64-v4")) {
    levels.push_back({"v4", v4::Evaluate});
  }
  return levels;
}

}  // namespace mica::region

#endif  // MICA_KERNELS_LLVM_OPERATOR_TESTING_H_
