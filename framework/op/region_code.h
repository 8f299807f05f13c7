// What mica.elementwise computes: a list of instructions on elements.

#ifndef MICA_FRAMEWORK_OP_REGION_CODE_H_
#define MICA_FRAMEWORK_OP_REGION_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mica {

// An operator of regions.
struct RegionOp {
  absl::string_view name;
  int num_elements = 1;  // Operands that may be tensors,
  int num_numbers = 0;   // then those that are numbers.
  int arity() const { return num_elements + num_numbers; }
};

// All of them. "scaled" ones take a + number * b, "lerp" a, b and how far.
absl::Span<const RegionOp> RegionOps();
// Null if there is none of that name.
const RegionOp* FindRegionOp(absl::string_view name);

// Straight-line code over one element of each operand; every result has an
// element at the same place. As text:
//
//   mul %0 0.999; addcmul $0 %1 %1 %2 -> $1
//
// where %i is operand i, $i the result of instruction i, and the list behind
// the arrow gives the results.
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
    std::vector<Ref> operands;
    friend bool operator==(const Instruction&, const Instruction&) = default;
  };
  std::vector<Instruction> instructions;
  std::vector<int> results;  // Instructions, each once.

  std::string ToText() const;
  // InvalidArgument for what ToText() doesn't print: an unknown operator, a
  // reference ahead, no result.
  static absl::StatusOr<RegionCode> Parse(absl::string_view text);
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_OP_REGION_CODE_H_
