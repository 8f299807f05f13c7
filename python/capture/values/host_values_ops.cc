// Numbers that are computed of others.

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "framework/base/same_bits.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/numbers.h"

namespace mica {
namespace {

// Whether all give the same bits by it: IEEE's operations.
bool IsRoundedAlike(const HostOp& op) {
  static const auto& words = *new absl::flat_hash_set<absl::string_view>{
      "mica.scalar_add", "mica.scalar_sub", "mica.scalar_mul",
      "mica.scalar_div", "mica.scalar_abs", "mica.scalar_neg",
      "mica.scalar_sqrt"};
  return words.contains(op.name);
}

// Whether two results of one function are finite, and the same but for the last
// digits.
bool IsNearly(double a, double b) {
  constexpr double kDigits = 8 * std::numeric_limits<double>::epsilon();
  return std::isfinite(a) && std::fabs(a - b) <= kDigits * std::fabs(b);
}

}  // namespace

bool HostValues::AddOp(PyObject* result, const HostOp& op,
                       absl::Span<PyObject* const> operands) {
  Node node;
  node.tape.kind = TapeHostValue::Kind::kOp;
  node.tape.op = std::string(op.name);
  double numbers[2] = {0, 0};
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::optional<double> number = ScalarOf(operands[i]);
    if (!number.has_value()) return false;
    numbers[i] = *number;
    node.tape.operands.push_back(
        {.id = Find(operands[i]), .constant = *number});
  }
  const std::optional<double> given = ScalarOf(result);
  double computed = 0;
  if (!given.has_value() ||
      op.compute(numbers[0], numbers[1], &computed) != nullptr) {
    return false;
  }
  // Numpy has functions of its own.
  const bool is_numpys = IsNumpyFloat(result);
  const bool may_differ = is_numpys && !IsRoundedAlike(op);
  if (may_differ && is_exact_) return false;
  if (may_differ ? !IsNearly(*given, computed) : !SameBits(*given, computed)) {
    return false;
  }
  // Of sizes and other numbers the Program for other sizes computes another.
  node.has_sizes = HasSizes(node.tape.operands);
  for (const TapeHostOperand& operand : node.tape.operands) {
    node.is_of_round |= operand.id >= 0 && nodes_[operand.id].is_of_round;
  }
  if (AreSizes(node.tape.operands)) {
    node.is_size = true;
    node.size_index = num_sizes_++;
  }
  const Id id = Add(result, std::move(node));
  // It warns of others.
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (is_numpys && !IsSize(id)) {
    DemandRange({.id = id, .constant = *given}, -kLargest, kLargest);
  }
  return true;
}

}  // namespace mica
