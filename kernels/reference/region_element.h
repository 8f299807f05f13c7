// One instruction of a region on one element of each operand.

#ifndef MICA_KERNELS_REFERENCE_REGION_ELEMENT_H_
#define MICA_KERNELS_REFERENCE_REGION_ELEMENT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "framework/op/region_code.h"
#include "framework/tensor/dtype.h"

namespace mica {

// An element of any dtype: of floats `real`, of ints and bool `integer`.
struct RegionElement {
  double real = 0;
  int64_t integer = 0;
};

// The same with its dtype.
struct RegionNumber {
  RegionElement element;
  DType dtype = DType::kF32;
};

// Looks up what an operand that is no number stands for.
using RegionElements =
    absl::FunctionRef<RegionNumber(const RegionCode::Ref& ref)>;

// The instruction's result; of no reduction.
RegionElement EvaluateInstruction(const RegionCode::Instruction& instruction,
                                  RegionElements elements);

RegionElement ConvertedElement(const RegionNumber& from, DType dtype);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_REGION_ELEMENT_H_
