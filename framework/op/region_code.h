// What mica.elementwise and mica.reduce compute: a list of typed instructions
// on elements.

#ifndef MICA_FRAMEWORK_OP_REGION_CODE_H_
#define MICA_FRAMEWORK_OP_REGION_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/op/region_ops.h"
#include "framework/tensor/dtype.h"

namespace mica {

// Straight-line code over one element of each operand; every result has an
// element at the same place, operands are broadcast. As text:
//
//   mul.f32 %0 0.999; lt.f32 $0 %1; where.bf16 $1 %0 %2 -> $2
//
// where %i is operand i, $i the result of instruction i, and the list behind
// the arrow gives the results.
//
// An instruction has a dtype: its operands are converted to the type that is
// computed in (f32 for floats of 16 bits, else the dtype), its result is
// rounded to the dtype. So a 16-bit operand widens exactly, and an f32 operand
// or a number in an instruction of bf16 isn't rounded before it. Results of
// comparisons are bool, and the first operand of "where" is.
//
// In mica.reduce there are reductions, too, over the axes behind "over":
//
//   square.f32 %0; mean.f32 $0 0; sqrt.f32 $1; div.f32 %0 $2 -> $3 over 1
//
// Their results have one element for each place of the other axes, and so has
// what is computed from such elements alone; instructions that read others,
// too, broadcast them.
struct RegionCode {
  struct Ref {
    enum class Kind : uint8_t { kOperand, kInstruction, kNumber };
    Kind kind = Kind::kNumber;
    int index = 0;
    double number = 0;
    friend bool operator==(const Ref&, const Ref&) = default;
  };
  struct Instruction {
    const RegionOp* op = nullptr;
    DType dtype = DType::kF32;
    std::vector<Ref> operands;
    friend bool operator==(const Instruction&, const Instruction&) = default;

    DType result_dtype() const { return op->compares() ? DType::kBool : dtype; }
    // What operand i is converted to.
    DType operand_dtype(int i) const;
  };
  std::vector<Instruction> instructions;
  std::vector<int> results;   // Instructions, each once.
  std::vector<int64_t> axes;  // Of what the operands broadcast to; ascending.

  std::string ToText() const;
  // InvalidArgument for what ToText() doesn't print: an unknown operator, a
  // dtype that it doesn't have, a reference ahead, no result; a reduction.
  static absl::StatusOr<RegionCode> Parse(absl::string_view text);
  // The same, with reductions and their axes.
  static absl::StatusOr<RegionCode> ParseReducing(absl::string_view text);

  // By instruction: whether its result has one element for all places of the
  // reduced axes, as the operands have of which it is said.
  std::vector<bool> FindReduced(const std::vector<bool>& operands) const;
};

// What an instruction of a dtype computes in: f32 for floats of 16 bits, else
// the dtype itself.
inline DType ComputeDType(DType dtype) {
  return IsHalf(dtype) ? DType::kF32 : dtype;
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_OP_REGION_CODE_H_
